"""Arrays and tensors: casts, memory of their own, and devices that are not there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attn_cli.errors import UnsupportedError
from attn_cli.torch_arrays import shared_tensor, to_numpy, to_tensor, usable_device

INF = float("inf")


@pytest.mark.parametrize("name", ["nowhere", "cuda:99", "cpu:x", "meta"])
def test_a_device_that_is_not_there_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"device '{name}'") as refusal:
        usable_device(name, "float32")
    assert "\n" not in str(refusal.value)
    assert "--device cpu" in refusal.value.hint


def test_bfloat16_is_widened_exactly() -> None:
    tensor = torch.tensor([1.0, 3.140625, -INF]).bfloat16()
    array = to_numpy(tensor)
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, [1.0, 3.140625, -INF])


def test_a_tensor_has_memory_of_its_own() -> None:
    array = np.arange(6.0).reshape(2, 3)[::-1, ::-1]
    tensor = to_tensor(array, torch.device("cpu"), torch.float32)
    assert tensor.dtype == torch.float32
    tensor[0, 0] = 7
    np.testing.assert_array_equal(array, [[5, 4, 3], [2, 1, 0]])


def test_a_mask_stays_bool() -> None:
    tensor = to_tensor(np.array([[True, False]]), torch.device("cpu"))
    assert tensor.dtype == torch.bool


def test_a_shared_tensor_has_the_array_s_memory_and_reads_what_torch_cannot_map() -> None:
    array = np.arange(6.0).reshape(2, 3)
    array.setflags(write=False)
    tensor = shared_tensor(array)
    assert tensor.data_ptr() == array.ctypes.data
    for odd in (
        array[:, ::-1],
        array.astype(">f8"),
        array[:, ::2],
        np.broadcast_to(array, (2, 2, 3)),
    ):
        np.testing.assert_array_equal(shared_tensor(odd).numpy(), odd)
