"""Arrays to tensors and back, and which device there is: conversions, no arithmetic.

Engines that compute by PyTorch share this and nothing else.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_cli.errors import UnsupportedError


def usable_device(name: str, dtype: str) -> torch.device:
    """The torch device called `name`; UnsupportedError where it is not there or lacks `dtype`."""
    try:
        device = torch.device(name)
        torch.zeros(1, dtype=getattr(torch, dtype), device=device).cpu()  # meta has no numbers
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        first_line = (str(error).splitlines() or ["no reason given"])[0]
        reason = first_line.split(". ")[0]  # the rest is advice for those who build torch
        raise UnsupportedError(
            f"torch cannot compute {dtype} on device {name!r}: {reason}",
            hint="use --device cpu",
        ) from error
    return device


def to_tensor(array: Any, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """The array as a tensor of its own memory on `device`, cast to `dtype` where one is given."""
    return torch.tensor(np.ascontiguousarray(array)).to(device, dtype)


def shared_tensor(
    array: Any, device: torch.device | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """The array as a tensor on its own memory where torch can, a file's too: only to be read."""
    native = np.asarray(array)
    native = native.astype(native.dtype.newbyteorder("="), copy=False)
    if any(stride < 0 for stride in native.strides):
        native = np.ascontiguousarray(native)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(native).to(device, dtype)


def to_numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The tensor as a numpy array; bfloat16, which numpy lacks, widened exactly to float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def ran_out(error: BaseException) -> bool:
    """Whether memory ran out, on the CPU or a device: torch has several ways to say so."""
    words = ("can't allocate memory", "not enough memory", "out of memory")
    short = any(word in str(error) for word in words)
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        isinstance(error, RuntimeError) and short
    )
