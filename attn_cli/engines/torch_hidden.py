"""What PyTorch's fused attention makes of NaN behind a mask, measured when it is asked."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F

Where = Literal["key", "value"]
DTYPES = ("float64", "float32", "float16", "bfloat16")


def rows_lost_to_hidden_nan(where: Where) -> dict[str, str]:
    """Precision → how many of 3 rows scaled_dot_product_attention gives as NaN ("3 of 3").

    One of 4 keys is hidden from every row by a boolean mask, and holds a NaN in its key or in its
    value; what PyTorch refuses is said by the kind of error.
    """
    shown = torch.ones(3, 4, dtype=torch.bool)
    shown[:, 3] = False
    found = {}
    for dtype in DTYPES:
        generator = torch.Generator().manual_seed(0)
        q, k, v = (
            torch.randn(1, 1, length, 8, generator=generator).to(getattr(torch, dtype))
            for length in (3, 4, 4)
        )
        (k if where == "key" else v)[0, 0, 3, 0] = float("nan")
        try:
            with torch.no_grad():
                output = F.scaled_dot_product_attention(q, k, v, attn_mask=shown)
            found[dtype] = f"{int(output.isnan().any(-1).sum())} of 3"
        except RuntimeError as error:
            found[dtype] = type(error).__name__
    return found


def torch_version() -> str:
    """The release of PyTorch that was asked."""
    return str(torch.__version__)
