"""Visible keys: how many keys the masks let a row see."""

from __future__ import annotations

from collections.abc import Mapping

from attn_cli.core.statistics import Array, RowSums, Term


class VisibleKeys:
    """The number of keys a row sees; a key under a finite fill (≤ −1e4) is not counted.

    An empty row sees 0.
    """

    name = "visible_keys"
    title = "keys that the row may see"
    unit = "keys"
    terms: Mapping[str, Term] = {}

    def finish(self, rows: RowSums) -> Array:
        return rows.visible.astype(float)


STATISTIC = VisibleKeys()
