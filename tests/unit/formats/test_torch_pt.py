"""PT and PTH: tensors and plain values are read, whatever else is not."""

from __future__ import annotations

import io
import os
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.formats import read
from tests.unit.formats.conftest import Put, Refuse


def saved(value: Any, *, zipped: bool = True) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream, _use_new_zipfile_serialization=zipped)
    return stream.getvalue()


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before 1.6"])
def test_one_tensor_is_unnamed(put: Put, zipped: bool) -> None:
    tensor = torch.arange(6.0).reshape(2, 3).T
    dump = read(put("x.pth", saved(torch.nn.Parameter(tensor), zipped=zipped)))
    assert (dump.format, dump.unnamed, dict(dump.dtypes)) == ("pt", True, {"x": "float32"})
    np.testing.assert_array_equal(dump.arrays["x"], tensor.numpy())
    assert dump.arrays["x"].flags.c_contiguous


def test_dict_is_flattened(put: Put) -> None:
    value = {
        "q": torch.ones(2, 3),
        "layers": {"0": {"k": torch.zeros(1)}},
        "attentions": (torch.ones(1), torch.zeros(1)),
        "tokens": ["a", "b"],
        "context_tokens": (("a",), ("b", "c")),
        "lengths": [3, 2],
        "settings": {"heads": 2},
        "mask": ((1, 0), [1, 1]),
        "epoch": 3,
        "model": "gpt",
    }
    dump = read(put("x.pt", saved(value)))
    tensors = ["q", "layers.0.k", "attentions.0", "attentions.1"]
    assert list(dump.arrays) == [*tensors, "lengths", "mask", "epoch"]
    np.testing.assert_array_equal(dump.arrays["mask"], [[1, 0], [1, 1]])
    assert dump.arrays["epoch"].shape == ()
    assert dump.others == {"model": "the text 'gpt'"}
    assert dump.texts == {"tokens": ["a", "b"], "context_tokens": [["a"], ["b", "c"]]}
    assert dump.settings == {"heads": 2}
    np.testing.assert_array_equal(dump.arrays["lengths"], [3, 2])
    (said,) = dump.findings
    assert said.code == "ignored-key"
    assert said.message.endswith(": 'model'")


def endless() -> list[Any]:
    """A list that holds itself."""
    value: list[Any] = [1]
    value[0] = value
    return value


def doubled() -> list[Any]:
    """Two references to a list of two references, and so on: 2^31 numbers in few bytes."""
    value: list[Any] = [1, 1]
    for _ in range(30):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "value, message",
    [
        ([[1, 2], [3]], "row 1 of 'x' has 1 number, row 0 has 2"),
        ([[1, "a"]], "row 0, column 1 of 'x' is the text 'a' where a number is expected"),
        (endless(), "holds lists that are nested more than 32 deep"),
        (doubled(), "holds lists of more than 10,000,000 values"),
    ],
    ids=["ragged", "text", "endless", "doubled"],
)
def test_lists_that_are_no_arrays(refuse: Refuse, value: list[Any], message: str) -> None:
    assert refuse("x.pt", saved({"x": value})).message == message


DTYPES = [
    (torch.float16, "float16"),
    (torch.float64, "float64"),
    (torch.int64, "int64"),
    (torch.uint16, "uint16"),
    (torch.bool, "bool"),
    (torch.bfloat16, "float32"),
    (torch.float8_e4m3fn, "float32"),
    (torch.float8_e5m2, "float32"),
]


@pytest.mark.parametrize("dtype, array_dtype", DTYPES, ids=[str(row[0]) for row in DTYPES])
def test_dtypes(put: Put, dtype: torch.dtype, array_dtype: str) -> None:
    tensor = torch.tensor([0.0, 1.0, 1.0]).to(dtype)
    dump = read(put("x.pt", saved({"q": tensor})))
    assert dump.dtypes["q"] == str(dtype).removeprefix("torch.")
    np.testing.assert_array_equal(dump.arrays["q"], np.array([0, 1, 1], array_dtype), strict=True)


class Canary:
    """Unpickling it would end the test run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os._exit, (3,))


@pytest.mark.parametrize(
    "content, message",
    [
        (
            saved({"q": Canary()}),
            "holds the Python object 'posix._exit', which only pickle can load",
        ),
        (saved(torch.nn.Linear(2, 2)), "holds the Python object 'torch.nn.modules.linear.Linear'"),
        (pickle.dumps(Canary()), "holds"),
        (saved(torch.zeros(100))[:300], "is damaged, or was not written by torch.save"),
        (b"hello, world", "is damaged, or was not written by torch.save"),
        (saved(3), "holds neither a tensor nor a dict of tensors"),
        (saved({"tokens": ["a"]}), "holds no arrays of numbers"),
        (saved({"a.b": torch.ones(1), "a": {"b": torch.ones(1)}}), "holds the name 'a.b' twice"),
        (saved({"q": torch.ones(2) * 1j}), "tensor 'q' has dtype complex64 where real numbers"),
        (saved({"q": torch.eye(2).to_sparse()}), "tensor 'q' is sparse_coo, not dense"),
        (saved({"q": torch.ones(2, device="meta")}), "tensor 'q' has a shape but no numbers"),
        (saved({"q": torch.zeros(1).expand(10**15)}), "its arrays take 3.6 PiB of memory"),
        (saved({"\x1b[31m\n": torch.ones(1) * 1j}), r"tensor '\x1b[31m\n' has dtype complex64"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_read(refuse: Refuse, content: bytes, message: str) -> None:
    assert refuse("x.pt", content).message.startswith(message)


def test_advice_to_switch_the_safety_off_is_not_passed_on(refuse: Refuse) -> None:
    error = refuse("x.pt", saved(torch.nn.Linear(2, 2)))
    assert "weights_only" not in str(error)
    assert error.hint.startswith("save tensors alone")


def test_trees_without_end(refuse: Refuse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attn_cli.formats.torch_pt.MOST", 1000)
    tree: dict[str, Any] = {}
    for _ in range(40):
        tree = {"a": tree, "b": tree}
    assert refuse("x.pt", saved(tree)).message == "holds more than 1,000 values"
    ring: dict[str, Any] = {}
    ring["ring"] = ring
    assert refuse("x.pt", saved(ring)).message == "holds more than 1,000 values"
