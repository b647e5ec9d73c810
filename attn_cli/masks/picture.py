"""draw: a mask as characters, one line a query."""

from __future__ import annotations

import numpy as np

from attn_cli.core.masks import Mask


def draw(
    mask: Mask, queries: int | range, keys: int | range, *, item: int = 0, head: int = 0
) -> str:
    """`#` where the query of this line may attend to the key of this column, `.` where not.

    A number n stands for the positions 0 … n−1.

    >>> from attn_cli.masks.causal import Causal
    >>> print(draw(Causal(), range(1, 3), 4))
    ##..
    ###.
    """
    q_pos = np.array(_positions(queries), dtype=np.int64).reshape(-1, 1)
    k_pos = np.array(_positions(keys), dtype=np.int64).reshape(1, -1)
    visible = mask(np.array([[item]]), np.array([[head]]), q_pos, k_pos)
    rows = np.broadcast_to(visible, (len(q_pos), k_pos.size))
    return "\n".join("".join("#" if seen else "." for seen in row) for row in rows)


def _positions(given: int | range) -> range:
    return range(given) if isinstance(given, int) else given
