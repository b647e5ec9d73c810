"""Named arrays → safetensors, through the format's own library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.rounding import round_to


def write(
    file: IO[bytes],
    arrays: Mapping[str, NDArray[Any]],
    dtypes: Mapping[str, str],
    metadata: Mapping[str, str],
) -> None:
    """A .safetensors file; arrays whose dtype is called "bfloat16" are rounded to it."""
    from safetensors import TensorSpec, serialize

    stored = {name: _stored(array, dtypes.get(name)) for name, array in arrays.items()}
    specs = {
        name: TensorSpec(
            dtype=dtype, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes
        )
        for name, (dtype, array) in stored.items()
    }
    file.write(serialize(specs, metadata=dict(metadata) or None))


def _stored(array: NDArray[Any], dtype: str | None) -> tuple[str, NDArray[Any]]:
    """The library's word for the precision, and the array as its little-endian bytes in C order."""
    if dtype == "bfloat16":
        bits = np.asarray(round_to(array, "bfloat16"), order="C").view(np.uint32)
        return "bfloat16", (bits >> np.uint32(16)).astype("<u2")
    return array.dtype.name, np.asarray(array, array.dtype.newbyteorder("<"), order="C")
