"""The mask `prefix`: a prefix that every query sees, causal after it (prefix-LM)."""

from __future__ import annotations

from attn_cli.core.masks import Mask
from attn_cli.masks.base import Or
from attn_cli.masks.causal import Causal
from attn_cli.masks.declaration import MaskKind, Parameter
from attn_cli.masks.formula import formula
from attn_cli.masks.sink import Sink


def prefix(size: int) -> Mask:
    """k < size or k <= q: the prefix sees itself whole, what follows is causal.

    >>> from attn_cli.masks.picture import draw
    >>> print(draw(prefix(2), 4, 4))
    ##..
    ##..
    ###.
    ####
    """
    return Or((Sink(size), Causal()))


MASK = MaskKind(
    name="prefix",
    signature="prefix(n)",
    description="the first n keys, and causal after them: k < n or k <= q",
    make=lambda context, size: prefix(size),
    code=lambda at, size: formula(f"{at.k} < {size}", f"{at.k} <= {at.q}", operator="|"),
    room=lambda size: 2 * size,
    parameters=(Parameter("n"),),
    compares_positions=True,
)
