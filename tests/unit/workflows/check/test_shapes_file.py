"""Shapes of files: those of a run, from headers alone; what does not fit is a problem."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from attn_cli.core.results import RunResult
from attn_cli.core.results_shapes import ShapesResult
from attn_cli.core.settings import Choices
from attn_cli.core.trace import StageShape
from attn_cli.errors import InputError
from attn_cli.workflows.check.shapes import check_shapes
from attn_cli.workflows.check.shapes_options import ShapesOptions
from attn_cli.workflows.run import RunOptions, run_file

rng = np.random.default_rng(0)


def looked(source: Path | str, **options: Any) -> ShapesResult:
    """The shapes of a file; options of a run go into the choices."""
    choices = {name: options.pop(name) for name in list(options) if name in CHOICES}
    return check_shapes(str(source), ShapesOptions(choices=Choices(**choices), **options))


CHOICES = set(Choices.__dataclass_fields__)


def steps(result: ShapesResult) -> list[StageShape]:
    return [row.step for row in result.groups[0].rows]


def told(shapes: list[StageShape] | tuple[StageShape, ...], *, masked: bool) -> list[Any]:
    """Stage, axes, shape, dtype and formula; that of a mask's numbers is not known to headers."""
    return [
        (s.stage, s.axes, s.shape, s.dtype, "" if s.stage == "masked" and not masked else s.formula)
        for s in shapes
    ]


SAMPLES = [
    "apple.json", "bfloat16.safetensors", "empty_row.json", "float16_overflow.npz",
    "gqa.npz", "padding.json", "sentence.csv", "three_tokens.json",
    "translation.json",
]  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_have_the_trace_of_their_run(samples: Path, name: str) -> None:
    run = run_file(str(samples / name), RunOptions())
    assert isinstance(run, RunResult)
    result = looked(samples / name, dtype="float64")
    assert result.errors == ()
    known = result.groups[0].sizes.mask_read
    assert told(steps(result), masked=known) == told(run.shapes, masked=known)


def test_decoding_has_the_trace_of_its_run(samples: Path) -> None:
    choices = Choices(masks=("causal",), align="lower-right")
    run = run_file(str(samples / "decode.npz"), RunOptions(choices=choices))
    assert isinstance(run, RunResult)
    result = looked(samples / "decode.npz", dtype="float64", masks=("causal",), align="lower-right")
    assert told(steps(result), masked=True) == told(run.shapes, masked=True)


LAYER = {
    "w_q": (12, 24), "w_k": (12, 8), "w_v": (12, 10), "w_o": (30, 12), "b_q": (24,), "b_v": (10,),
}  # fmt: skip


def layer(path: Path, **changed: tuple[int, ...]) -> dict[str, Any]:
    """A file of vectors of 12, and one of a layer of 6 heads of 4 on 2, d_v 5; its options."""
    np.savez(path / "x.npz", x=rng.standard_normal((2, 7, 12)))
    sizes = LAYER | changed
    arrays: dict[str, Any] = {name: rng.standard_normal(size) for name, size in sizes.items()}
    np.savez(path / "layer.npz", **arrays)
    return {"source": path / "x.npz", "weights": str(path / "layer.npz"), "heads": 6}


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"masks": ("causal & window(3)",)},
        {"masks": ("padding(3, 6)",)},
        {"positions": "rope"},
        {"positions": "alibi", "softcap": 20.0},
        {"positions": "sinusoidal", "scale": "none"},
    ],
)
def test_a_layer_has_the_trace_of_its_run(tmp_path: Path, choices: dict[str, Any]) -> None:
    given = layer(tmp_path)
    run = run_file(
        str(given["source"]),
        RunOptions(choices=Choices(heads=6, **choices), weights=given["weights"]),
    )
    assert isinstance(run, RunResult)
    result = looked(**given, **choices, dtype="float64")
    assert told(steps(result), masked=True) == told(run.shapes, masked=True)
    count = sum(np.prod(shape) for shape in LAYER.values())
    assert result.groups[0].parameters == count


def test_a_context_has_the_trace_of_its_run(tmp_path: Path) -> None:
    given = layer(tmp_path, w_k=(9, 8), w_v=(9, 10))
    context = tmp_path / "context.npy"
    np.save(context, rng.standard_normal((2, 5, 9)))
    options = RunOptions(choices=Choices(heads=6), weights=given["weights"], context=str(context))
    run = run_file(str(given["source"]), options)
    assert isinstance(run, RunResult)
    result = looked(**given, context=str(context), dtype="float64")
    assert told(steps(result), masked=True) == told(run.shapes, masked=True)
    assert result.groups[0].geometry is not None
    assert result.groups[0].geometry.d_context == 9


def test_the_file_has_a_precision_of_its_own(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 32), np.float16))
    group = looked(tmp_path / "x.npy").groups[0]
    assert group.sizes.dtype == "float16"
    assert group.rows[0].cost.bytes == 3 * 32 * 2


@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.float32])
def test_what_a_mask_hides_is_not_known(tmp_path: Path, dtype: type) -> None:
    path = tmp_path / "a.npz"
    q = np.zeros((1, 1, 4, 16))
    np.savez(path, q=q, k=q, v=q, mask=np.tril(np.ones((4, 4))).astype(dtype))
    result = looked(path)
    assert result.errors == ()
    group = result.groups[0]
    assert not group.sizes.mask_read
    assert (group.pairs, group.visible, group.cost.masked_flops) == (16, None, None)
    assert "masked" in [row.step.stage for row in group.rows]
    assert "which keys mask hide" in result.coverage


@pytest.mark.parametrize(
    "shapes, words",
    [
        ({"q": (1, 2, 3, 4), "k": (1, 2, 5, 4), "v": (1, 2, 6, 4)}, "every key needs its value"),
        ({"q": (1, 2, 3, 4), "k": (1, 2, 3, 5), "v": (1, 2, 3, 5)}, "equal widths"),
        ({"q": (1, 3, 3, 4), "k": (1, 2, 3, 4), "v": (1, 2, 3, 4)}, "must be a multiple"),
        ({"q": (3, 4), "k": (3, 4), "v": (3, 4), "mask": (2, 3)}, "does not broadcast"),
        ({"q": (3, 4), "k": (1, 3, 4), "v": (3, 4)}, "numbers of axes differ"),
    ],
)
def test_arrays_that_do_not_fit_are_a_problem(
    tmp_path: Path, shapes: dict[str, tuple[int, ...]], words: str
) -> None:
    arrays: dict[str, Any] = {name: np.zeros(shape) for name, shape in shapes.items()}
    np.savez(tmp_path / "a.npz", **arrays)
    result = looked(tmp_path / "a.npz")
    (problem,) = result.errors
    assert problem.code == "does-not-fit"
    assert words in problem.message
    assert result.groups == ()


def test_projections_that_do_not_fit_are_a_problem(tmp_path: Path) -> None:
    (problem,) = looked(**layer(tmp_path, w_o=(31, 12))).errors
    assert "w_o has shape (31, 12)" in problem.message


def test_masks_that_are_written_out_are_counted(samples: Path) -> None:
    (group,) = looked(samples / "padding.json").groups
    run = run_file(str(samples / "padding.json"), RunOptions())
    assert isinstance(run, RunResult)
    assert group.sizes.mask_read
    assert group.visible == run.trace.stats["visible_keys"].sum()
    assert group.growth["masked_flops"] is None


def test_what_holds_no_attention_cannot_be_checked(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", loss=np.zeros(3))
    with pytest.raises(InputError, match="neither token vectors nor q, k and v"):
        looked(tmp_path / "a.npz")


def test_a_model_by_its_headers(samples: Path) -> None:
    result = looked(samples / "induction.safetensors", seq=9, batch=3)
    (group,) = result.groups
    assert (result.kind, group.layers) == ("model", (0, 1))
    shapes = {row.step.stage: row.step.shape for row in group.rows}
    assert (shapes["x"], shapes["scores"]) == ((3, 9, 34), (3, 1, 9, 9))
    assert group.visible == 3 * 9 * 10 // 2
    assert result.errors == ()


def test_a_model_whose_arrays_do_not_fit(samples: Path, tmp_path: Path) -> None:
    with safe_open(samples / "induction.safetensors", "numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    arrays["layers.1.w_o"] = np.ascontiguousarray(arrays["layers.1.w_o"].T)
    save_file(arrays, tmp_path / "model.safetensors", metadata)
    result = looked(tmp_path / "model.safetensors")
    (problem,) = result.errors
    assert "'layers.1.w_o' has shape (34, 8): expected (8, 34)" in problem.message
    assert result.groups == ()


def header(tensors: dict[str, tuple[int, ...]]) -> tuple[bytes, int]:
    """The head of a safetensors file of float16 tensors, and how many bytes they take."""
    entries, at = {}, 0
    for name, shape in tensors.items():
        end = at + 2 * int(np.prod(shape, dtype=object))
        entries[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text, at


@pytest.mark.parametrize(
    "tensors, options",
    [
        (dict.fromkeys("qkv", (1, 64, 1 << 18, 128)), {"masks": ("causal & window(64)",)}),
        (dict.fromkeys("qkv", (1 << 30, 1, 2, 16)), {}),
        ({"x": (1 << 33, 2, 4)}, {"heads": 2}),
        ({"x": (2, 1 << 31, 16)}, {"positions": "sinusoidal"}),
        ({"x": (1, 1 << 30, 16), "tokens": (1 << 30,)}, {}),
        ({"x": (1 << 30, 2, 16), "lengths": (1 << 30,)}, {}),
        ({"x": (1, 64, 1 << 16)} | {f"w_{n}": (1 << 16, 1 << 16) for n in "qkvo"},
         {"weights_layout": "in-out", "heads": 512}),
        ({**dict.fromkeys("qkv", (1, 1, 1 << 17, 16)), "mask": (1 << 17, 1 << 17)}, {}),
    ],
)  # fmt: skip
def test_size_costs_nothing(
    tmp_path: Path, tensors: dict[str, tuple[int, ...]], options: dict[str, Any]
) -> None:
    head, size = header(tensors)
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + size)
    start = time.monotonic()
    result = looked(path, **options)
    assert time.monotonic() - start < 10
    assert result.errors == ()
    assert result.groups[0].rows
