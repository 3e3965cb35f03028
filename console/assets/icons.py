"""The icons in use. The package's sprite holds 5,000 and 2 MB; what is served holds these."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

SPRITE: Final = "vendor/icons/tabler-sprite-nostroke.svg"

ICONS: Final = frozenset(
    """
    activity arrow-left arrows-exchange book check chevron-down chevron-left chevron-right copy
    cpu filter grid-dots hand-stop history inbox info-circle key keyboard lock logout menu-2
    plug-connected-x plus power search server share shield-check shield-off stack-2 table
    trending-up upload user x
    """.split()  # noqa: SIM905  one word a name reads better than quoted ones
)

_SYMBOL: Final = re.compile(r'<symbol id="tabler-([a-z0-9-]+)".*?</symbol>', re.DOTALL)


def cut(sprite: str, names: Set[str] = ICONS) -> str:
    """`sprite` with only the symbols in `names`.

    Raises ValueError naming those that the sprite does not have.
    """
    kept = {match[1]: match[0] for match in _SYMBOL.finditer(sprite) if match[1] in names}
    if missing := sorted(names - kept.keys()):
        raise ValueError(f"The icon sprite has no {', '.join(missing)}")
    symbols = "".join(kept[name] for name in sorted(kept))
    return f'<svg xmlns="http://www.w3.org/2000/svg"><defs>{symbols}</defs></svg>\n'
