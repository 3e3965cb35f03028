"""The icons in use. The package's sprite holds 5,000 and 2 MB; what is served holds these."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

SPRITE: Final = "vendor/icons/tabler-sprite-nostroke.svg"

ICONS: Final = frozenset(
    """
    activity adjustments-horizontal alert-circle alert-triangle arrow-back-up arrow-left
    arrow-right arrows-exchange bell bolt book chart-line check chevron-down chevron-left
    chevron-right chevron-up circle-check clock copy cpu database-off device-desktop dots
    download external-link eye eye-off file-text filter grid-dots hand-stop help history inbox
    info-circle key keyboard link list-check lock logout menu-2 moon pencil player-pause
    player-play plug-connected-x plus power refresh route scale search server settings share
    shield-check stack-2 sun switch-horizontal table terminal trash trending-up upload user
    users webhook x
    """.split()  # noqa: SIM905  one word a name reads better than 70 quoted lines
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
