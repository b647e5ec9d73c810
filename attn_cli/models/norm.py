"""LayerNorm: every vector brought to mean 0 and variance 1, then scaled and shifted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.models.toy import Affine

Array = NDArray[Any]


def layer_norm(x: Array, affine: Affine, *, eps: float) -> Array:
    """(x − mean) / √(variance + eps) · weight + bias over the last axis, in x's precision.

    The variance is that of the vector itself, divided by its width. Source: Ba et al. 2016, "Layer
    Normalization", with the eps that all programs add.

    >>> layer_norm(np.array([1.0, 2.0, 3.0]), Affine(), eps=0.0).round(4).tolist()
    [-1.2247, 0.0, 1.2247]
    """
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    normed: Array = centred / np.sqrt(variance + x.dtype.type(eps))
    if affine.weight is not None:
        normed = normed * affine.weight.astype(x.dtype)
    return normed if affine.bias is None else normed + affine.bias.astype(x.dtype)
