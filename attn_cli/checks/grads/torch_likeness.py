"""Likeness: what a wrong gradient has in common with the right one, in words."""

from __future__ import annotations

import math

import torch
from torch import Tensor

FACTORS = {"√d_k": 0.5, "1/√d_k": -0.5}  # what a forgotten or a repeated scale multiplies by
CLOSE = 1e-6  # of a factor: much more than differences are off by, much less than a coincidence


def likeness(analytic: Tensor, numeric: Tensor, shape: tuple[int, ...], d_k: int) -> str:
    """`everywhere 1.01 times the right one`, `the right one transposed`, or nothing.

    `analytic` and `numeric` (coordinates, heads) are as autograd and the differences have them.
    """
    if not torch.isfinite(analytic).all() or not numeric.any():
        return ""
    largest = float(numeric.abs().max())
    factor = float((analytic * numeric).sum() / numeric.square().sum())
    if float((analytic - factor * numeric).abs().max()) <= CLOSE * max(1, abs(factor)) * largest:
        return _times(factor, d_k)
    whole = len(shape) == 2 and shape[0] == shape[1] and len(numeric) == shape[0] * shape[1]
    if whole:
        turned = numeric.reshape(*shape, -1).transpose(0, 1).reshape(numeric.shape)
        if float((analytic - turned).abs().max()) <= CLOSE * largest:
            return "it is the right one transposed"
    return ""


def _times(factor: float, d_k: int) -> str:
    for name, power in FACTORS.items():
        if d_k > 1 and math.isclose(factor, d_k**power, rel_tol=CLOSE):
            return f"everywhere {factor:.6g} = {name} times the right one, as if a scale were amiss"
    if abs(factor) < CLOSE:
        return "it is 0 everywhere"
    return f"everywhere {factor:.6g} times the right one"
