"""Headers understood: what stands for a mask's numbers, and what is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.core.blank import Blank, blank
from attn_cli.core.dump import Dump
from attn_cli.core.settings import Choices
from attn_cli.recognize import understand
from attn_cli.recognize.headers import readable, unread


def dump(**arrays: Any) -> Dump:
    dtypes = {name: array.dtype.name for name, array in arrays.items()}
    return Dump(source="a.npz", format="npz", arrays=arrays, dtypes=dtypes, sha256="")


def qkv(length: int = 4) -> dict[str, Any]:
    return {name: blank((1, 2, length, 8), np.float32) for name in "qkv"}


@pytest.mark.parametrize(
    "dtype, means, additive",
    [
        (np.bool_, None, False),
        (np.int64, None, False),
        (np.float32, None, True),
        (np.float32, "keep", False),
        (np.float32, "additive", True),
        (np.bool_, "hidden", False),
    ],
)
def test_a_mask_is_of_a_kind(dtype: type, means: Any, additive: bool) -> None:
    choices = Choices(mask_means=means)
    given = readable(dump(**qkv(), mask=blank((4, 4), dtype)), choices)
    inputs = understand(given, choices).inputs
    assert (inputs.additive is not None, inputs.mask is not None) == (additive, not additive)


def test_masks_and_lengths_are_unread() -> None:
    given = dump(**qkv(), mask=blank((4, 4), np.bool_), seq_lens=blank((1,), np.int64))
    assert unread(given) == ("mask", "seq_lens")
    assert unread(dump(x=np.ones((3, 4)), lengths=np.array([3]))) == ()


def test_what_would_name_millions_of_positions_is_left_out() -> None:
    long = 1 << 24
    given = dump(**qkv(long), tokens=blank((long,), np.int64), lengths=blank((1,), np.int64))
    assert list(readable(given, Choices()).arrays) == ["q", "k", "v"]
    short = dump(**qkv(), tokens=blank((4,), np.int64), lengths=blank((1,), np.int64))
    assert list(readable(short, Choices()).arrays) == ["q", "k", "v", "tokens", "lengths"]


def test_of_numbers_that_are_there_those_that_hide_keys_are_kept() -> None:
    given = dump(x=np.ones((3, 4)), mask=np.tril(np.ones((3, 3))), bias=np.full((3, 3), -1e9))
    ready = readable(given, Choices()).arrays
    assert isinstance(ready["x"], Blank)
    assert ready["x"].shape == (3, 4)
    for name in ("mask", "bias"):
        assert ready[name] is given.arrays[name]
