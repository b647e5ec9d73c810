"""from_memory: arrays, tensors and lists of a running program are read like a file."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.core.settings import Choices
from attn_cli.errors import InputError
from attn_cli.recognize import understand
from attn_cli.recognize.from_memory import dump_from
from tests.unit.recognize.dumps import codes, said


def test_one_array_is_token_vectors() -> None:
    dump = dump_from([[1, 0], [0, 1], [1, 1]])
    assert (dump.source, dump.unnamed, dict(dump.dtypes)) == ("memory", True, {"x": "json"})
    assert dump.arrays["x"].dtype == np.float64
    reading = understand(dump, Choices())
    assert codes(reading) == ["no-projections"]
    assert reading.inputs.shape == (1, 1, 3, 3)


def test_a_mapping_is_read_by_its_names() -> None:
    rng = np.random.default_rng(0)
    dump = dump_from(
        {
            "q": rng.normal(size=(2, 4)),
            "k": rng.normal(size=(3, 4)),
            "v": rng.normal(size=(3, 4)),
            "mask": None,
            "lengths": 2,
            "context_tokens": ["a", "b", "c"],
            "settings": {"scale": "none"},
        }
    )
    reading = understand(dump, Choices())
    assert reading.inputs.scale == 1.0
    np.testing.assert_array_equal(reading.inputs.keep()[0, 0], [[1, 1, 0]] * 2)
    assert reading.inputs.labels is not None
    assert reading.inputs.labels.key == (("a", "b", "c"),)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
)
def test_tensors_are_detached_and_widened_exactly(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0.5, -1.75], [3.0, 0.0625]])
    tensor = tensor.to(dtype) if "float8" in str(dtype) else tensor.to(dtype).requires_grad_()
    dump = dump_from({"x": tensor})
    assert dump.dtypes["x"] == str(dtype).removeprefix("torch.")
    np.testing.assert_array_equal(dump.arrays["x"], [[0.5, -1.75], [3.0, 0.0625]])


def test_a_widened_tensor_is_said() -> None:
    reading = understand(dump_from(torch.ones(2, 2, dtype=torch.bfloat16)), Choices())
    assert said(reading, "dtype-widened") == "the array is bfloat16, widened exactly"
    assert reading.summary.precision == "bfloat16"


def test_a_transposed_view_keeps_its_values() -> None:
    x = np.arange(6.0).reshape(2, 3)
    dump = dump_from(x.T)
    assert dump.arrays["x"].flags.c_contiguous
    np.testing.assert_array_equal(dump.arrays["x"], [[0, 3], [1, 4], [2, 5]])


def test_big_endian_numbers_become_native() -> None:
    dump = dump_from(np.array([[1.5, 2.0]], ">f4"))
    assert dump.arrays["x"].dtype == np.dtype("=f4")
    assert dump.dtypes["x"] == "float32"


def test_the_digest_tells_inputs_apart() -> None:
    x = np.ones((2, 2))
    assert dump_from({"x": x}).sha256 == dump_from({"x": x.copy()}).sha256
    assert dump_from({"x": x}).sha256 != dump_from({"x": 2 * x}).sha256
    assert dump_from({"x": x}).sha256 != dump_from({"x": x.reshape(1, 4)}).sha256


@pytest.mark.parametrize(
    "value, words",
    [
        ([[1.0, 2.0], [3.0]], "x is no array of numbers"),
        (np.array([[1 + 2j]]), "x has dtype complex128: expected real numbers"),
        (np.array([[None]]), "x has dtype object"),
        ([["a", 1.0]], "x has dtype <U|x has dtype str"),
        (object(), "x has dtype object"),
        (np.ma.masked_array([[1.0, 2.0]], [[True, False]]), "x is a masked array"),
    ],
)
def test_what_holds_no_real_numbers(value: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        dump_from({"x": value})


def test_errors_name_no_file() -> None:
    with pytest.raises(InputError) as caught:
        understand(dump_from({"x": np.zeros(3)}), Choices())
    assert caught.value.message.startswith("x has shape (3,)")


def test_nothing_imports_torch() -> None:
    code = (
        "import sys; from attn_cli.recognize import understand; "
        "from attn_cli.recognize.from_memory import dump_from; "
        "from attn_cli.core.settings import Choices; "
        "understand(dump_from([[1.0, 2.0]]), Choices()); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
