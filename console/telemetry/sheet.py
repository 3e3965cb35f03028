"""What browsers are shown, and when each value of it last changed. Pure (numpy).

A column a row of the arrays: [columns, rows]. A reader that knows the sheet of sequence s needs
the values that changed after s, whatever it missed: no history of frames is kept.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from console.telemetry.latest import MISSING, Bytes, Field, Flags

Sequences: TypeAlias = npt.NDArray[np.uint32]

# Look, state and flags say what is so; only what was measured has noise.
MEASURED: Final = slice(Field.SM_ACTIVITY, Field.DUTY + 1)


class Sheet:
    """`cells` uint8 [columns, rows], and `changed_at`, the sequence of each one's last change."""

    def __init__(self, cells: Bytes, sequence: int) -> None:
        self.cells = np.array(cells, order="C")  # ours to write
        self.changed_at: Sequences = np.full(self.cells.shape, sequence, np.uint32)

    def settle(self, fresh: Bytes, sequence: int) -> None:
        """Show `fresh`, but leave a measured value alone that moved by one quantum only.

        What is shown is so never off by more than a quantum; a measured zero and a missing
        value, and the way out of either, are always shown.
        """
        differs = fresh != self.cells
        differs[MEASURED] &= ~_is_noise(fresh[MEASURED], self.cells[MEASURED])
        self._take(fresh, differs, sequence)

    def replace(self, fresh: Bytes, sequence: int) -> None:
        """Show `fresh` as it is."""
        self._take(fresh, fresh != self.cells, sequence)

    def _take(self, fresh: Bytes, differs: Flags, sequence: int) -> None:
        np.copyto(self.cells, fresh, where=differs)
        np.copyto(self.changed_at, np.uint32(sequence), where=differs)


def _is_noise(fresh: Bytes, shown: Bytes) -> Flags:
    one = np.uint8(1)
    near: Flags = fresh - shown + one <= 2  # modulo 256
    return near & ~_is_exact(fresh) & ~_is_exact(shown)


def _is_exact(values: Bytes) -> Flags:
    exact: Flags = (values == 0) | (values == MISSING)
    return exact
