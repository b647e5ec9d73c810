"""The two products of a tile, in float32 or wider, or rounded to a half precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

LARGEST_HALF = 65504.0


@dataclass(frozen=True, slots=True)
class Products:
    """Matrix products whose factors and results have the precision `dtype`, handed on in `wide`.

    `native` says that the machine multiplies `dtype` itself; else the factors are widened, which
    changes nothing, and the result is rounded. `round_context` is False where Σ p·v of a tile might
    exceed float16 though the context does not: then it is left in float32.
    """

    dtype: torch.dtype
    wide: torch.dtype
    native: bool
    round_context: bool = True

    def factor(self, array: Tensor) -> Tensor:
        """An array as the products want it."""
        return array if self.native else array.to(self.wide)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """q (rows, d_k) · kᵀ (d_k, keys)."""
        return self._rounded(q @ k.mT)

    def context(self, p: Tensor, v: Tensor) -> Tensor:
        """p (rows, keys), rounded already, · v (keys, d_v)."""
        if not self.round_context:
            return p.to(self.wide) @ v.to(self.wide)
        return self._rounded(self.factor(p) @ v)

    def _rounded(self, product: Tensor) -> Tensor:
        return product.to(self.dtype).to(self.wide)


def products(q: Tensor, v: Tensor, wide: torch.dtype, width: int) -> Products:
    """The products for q and v (S, d_v) in tiles of `width` keys."""
    fits = q.dtype != torch.float16 or bool(v.abs().amax() * width < LARGEST_HALF)
    return Products(q.dtype, wide, multiplies(q.device, q.dtype), fits)


def multiplies(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether matrices of `dtype` are multiplied by the machine, or by a slow loop."""
    if dtype in (torch.float32, torch.float64) or device.type != "cpu":
        return True
    name = "bf16" if dtype == torch.bfloat16 else "fp16"
    asked = getattr(torch.ops.mkldnn, f"_is_mkldnn_{name}_supported", None)
    return asked is not None and bool(asked())
