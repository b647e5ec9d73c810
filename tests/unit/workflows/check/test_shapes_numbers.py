"""Shapes from numbers: the trace of a run of these sizes, and every problem at once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attn_cli.core.results import RunResult
from attn_cli.core.results_shapes import LayerShapes, ShapesResult
from attn_cli.core.settings import Choices
from attn_cli.errors import AttnError
from attn_cli.workflows.check.shapes import check_shapes
from attn_cli.workflows.check.shapes_fit import divisors, near
from attn_cli.workflows.check.shapes_options import ShapesOptions
from attn_cli.workflows.run import RunOptions, run_file

CHOICES = set(Choices.__dataclass_fields__)


def of(**options: Any) -> ShapesResult:
    choices = {name: options.pop(name) for name in list(options) if name in CHOICES}
    return check_shapes(None, ShapesOptions(choices=Choices(**choices), **options))


def group(**options: Any) -> LayerShapes:
    return of(**options).groups[0]


def shapes(**options: Any) -> dict[str, tuple[int, ...]]:
    return {row.step.stage: row.step.shape for row in group(**options).rows}


def test_the_small_example_of_one_head() -> None:
    assert shapes(batch=2, seq=4, d_model=8, d_k=4, d_v=4) == {
        "x": (2, 4, 8),
        "q": (2, 1, 4, 4),
        "k": (2, 1, 4, 4),
        "v": (2, 1, 4, 4),
        "scores": (2, 1, 4, 4),
        "scaled": (2, 1, 4, 4),
        "weights": (2, 1, 4, 4),
        "context": (2, 1, 4, 4),
        "merged": (2, 4, 4),
        "output": (2, 4, 8),
    }


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"heads": 3},
        {"heads": 6, "kv_heads": 2, "d_k": 5, "d_v": 7},
        {"heads": 2, "masks": ("causal & (window(3) | sink(1))",)},
        {"heads": 2, "masks": ("padding(3, 5)", "causal")},
        {"heads": 3, "positions": "rope", "softcap": 30.0},
        {"heads": 3, "positions": "alibi", "scale": "none"},
        {"heads": 3, "positions": "sinusoidal", "scale": 0.25},
    ],
)
def test_the_trace_is_that_of_a_run(tmp_path: Path, choices: dict[str, Any]) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((2, 7, 12)))
    run = run_file(str(tmp_path / "x.npy"), RunOptions(choices=Choices(init="xavier", **choices)))
    assert isinstance(run, RunResult)
    found = group(batch=2, seq=7, d_model=12, dtype="float64", **choices)
    assert tuple(row.step for row in found.rows) == run.shapes


@pytest.mark.parametrize("align", ["lower-right", "upper-left"])
def test_given_q_k_and_v_have_the_trace_of_a_run(tmp_path: Path, align: str) -> None:
    sizes = {"q": (2, 6, 3, 5), "k": (2, 2, 8, 5), "v": (2, 2, 8, 4)}
    arrays: dict[str, Any] = {name: np.ones(size) for name, size in sizes.items()}
    np.savez(tmp_path / "a.npz", **arrays)
    choices: dict[str, Any] = {"masks": ("causal",), "align": align}
    run = run_file(str(tmp_path / "a.npz"), RunOptions(choices=Choices(**choices)))
    assert isinstance(run, RunResult)
    found = group(
        batch=2, seq=3, key_seq=8, heads=6, kv_heads=2, d_k=5, d_v=4, dtype="float64", **choices
    )
    assert tuple(row.step for row in found.rows) == run.shapes


def test_visible_pairs_are_those_of_the_mask() -> None:
    found = group(seq=131072, d_k=64, heads=8, masks=("causal & window(64)",))
    assert found.visible == 8 * (64 * 65 // 2 + (131072 - 64) * 64)
    assert found.cached == 64
    assert found.growth["masked_flops"] == pytest.approx(2, rel=1e-3)
    assert found.growth["flops"] == pytest.approx(4)


def test_pairs_that_differ_between_items() -> None:
    assert group(batch=2, seq=6, d_k=16, masks=("padding(2, 5)",)).visible == 6 * (2 + 5)
    assert group(batch=2, seq=6, d_k=16, heads=3, masks=("padding(4)",)).visible == 2 * 3 * 6 * 4


def test_bytes_go_with_the_precision() -> None:
    held = {d: group(d_k=64, dtype=d).cost.bytes for d in ("float64", "bfloat16", "float8_e5m2")}
    assert held["float64"] == 4 * held["bfloat16"] == 8 * held["float8_e5m2"]


def test_grouped_keys_make_the_cache_smaller() -> None:
    sizes: dict[str, Any] = {"seq": 1000, "d_model": 512, "heads": 8, "dtype": "float16"}
    assert group(**sizes).cache == 2 * 8 * 64 * 2
    assert group(**sizes, kv_heads=2).cache == 2 * 2 * 64 * 2
    assert shapes(**sizes, kv_heads=2)["k"] == (1, 2, 1000, 64)


def test_parameters_of_grouped_queries() -> None:
    matrices = [(96, 6 * 16), (96, 2 * 16), (96, 2 * 16), (6 * 16, 96)]
    assert group(d_model=96, heads=6, kv_heads=2).parameters == sum(a * b for a, b in matrices)


def test_keys_of_a_cache_are_not_made_again() -> None:
    sizes: dict[str, Any] = {"seq": 1, "key_seq": 500, "d_model": 64}
    cached = {row.step.stage: row for row in group(**sizes, align="lower-right").rows}
    other = {row.step.stage: row for row in group(**sizes).rows}
    assert cached["k"].cost.flops == 2 * 64 * 64
    assert "499 of 500 keys from the cache" in cached["k"].step.formula
    assert other["k"].cost.flops == 500 * 2 * 64 * 64
    assert other["k"].step.formula == "the context · W_k"
    assert cached["scores"].doubled.flops == 2 * cached["scores"].cost.flops  # keys alone


def codes(result: ShapesResult, severity: str = "error") -> list[str]:
    return [problem.code for problem in result.problems if problem.severity == severity]


def test_heads_that_do_not_divide_name_those_that_do() -> None:
    result = of(d_model=10, heads=3)
    (problem,) = result.errors
    assert "1, 2, 5 or 10 heads do" in problem.message
    assert result.groups[0].rows == ()
    assert of(d_model=10, heads=3, d_k=16).errors == ()


def test_every_problem_is_named_at_once() -> None:
    result = of(
        batch=3, seq=9, key_seq=4, heads=8, kv_heads=3, d_k=7, dtype="int4",
        masks=("causal & padding(2, 2)", "window(9)"), positions="rope",
    )  # fmt: skip
    assert sorted(codes(result)) == [
        "alignment", "kv-heads-do-not-divide", "mask", "odd-width", "unknown-dtype",
    ]  # fmt: skip
    assert codes(result, "warning") == ["window-wider-than-keys", "thin-heads"]
    (alignment,) = [each for each in result.errors if each.code == "alignment"]
    assert "causal, window(9) and rope positions compare" in alignment.message


def test_a_mask_that_does_not_fit_leaves_the_trace() -> None:
    result = of(batch=3, seq=9, d_k=16, masks=("padding(2, 2)",))
    assert codes(result) == ["mask"]
    assert "2 lengths, and the batch has 3 items" in result.errors[0].message
    found = result.groups[0]
    assert "masked" in [row.step.stage for row in found.rows]
    assert (found.visible, found.cost.masked_flops) == (None, None)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"d_k": 16}, []),
        ({"d_k": 15}, ["thin-heads", "unaligned-width"]),
        ({"d_k": 20, "dtype": "bfloat16"}, ["unaligned-width"]),
        ({"d_k": 20, "dtype": "float32"}, []),
        ({"d_k": 20, "dtype": "float64"}, []),
        ({"d_k": 256, "dtype": "float16"}, []),
        ({"d_k": 264, "dtype": "float16"}, ["wide-heads"]),
        ({"d_k": 264, "d_v": 32, "dtype": "float32"}, []),  # flash computes in 16 bits alone
        ({"d_k": 64, "d_v": 32, "dtype": "float16"}, ["unequal-widths"]),
        ({"d_k": 64, "seq": 8, "masks": ("window(8)",)}, []),
        ({"d_k": 64, "seq": 8, "masks": ("window(9)",)}, ["window-wider-than-keys"]),
    ],
)
def test_what_is_unwise(options: dict[str, Any], expected: list[str]) -> None:
    result = of(**options)
    assert result.errors == ()
    assert codes(result, "warning") == expected


def test_flex_attention_refuses_thin_heads() -> None:
    """The threshold is torch's own: the words are in its source."""
    folder = Path(torch.__file__).parent / "_inductor" / "kernel"
    sources = [path.read_text(encoding="utf-8") for path in folder.rglob("flex*.py")]
    assert any("at least 16" in source for source in sources)


@pytest.mark.parametrize(
    "options, words",
    [
        ({}, "no sizes were given"),
        ({"seq": 3}, "no sizes were given"),
        ({"d_k": 0}, "--d-k is 0"),
        ({"d_k": 4, "batch": -1}, "--batch is -1"),
        ({"d_model": 10**13}, "--d-model is 10000000000000"),
        ({"d_model": 10**12, "seq": 10**12}, "larger than any"),
        ({"d_k": 4, "masks": ("causl",)}, "there is no mask 'causl'"),
        ({"d_k": 4, "positions": "rotary"}, "rotary"),
        ({"d_k": 4, "positions": "rope:quarter"}, "expected rope or rope:half"),
        ({"d_k": 4, "softcap": 0.0}, "softcap"),
        ({"d_k": 4, "layout": "blhd"}, "--layout says nothing of sizes alone"),
        ({"d_k": 4, "layers": (0,), "weights": "w.npz"}, "--layer and --weights say nothing"),
    ],
)
def test_refusals(options: dict[str, Any], words: str) -> None:
    with pytest.raises(AttnError, match=words):
        of(**options)


def test_positions_that_need_vectors() -> None:
    assert codes(of(d_k=16, positions="sinusoidal")) == ["positions-need-vectors"]
    assert codes(of(d_model=16, positions="sinusoidal")) == []


@pytest.mark.parametrize("count", [1, 2, 12, 36, 97, 1000])
def test_divisors(count: int) -> None:
    assert divisors(count) == tuple(n for n in range(1, count + 1) if count % n == 0)


def test_many_counts_are_the_nearest() -> None:
    assert near(divisors(720), 30) == "10, 12, 15, 16, 18, 20, 24, 30, 36, 40, 45 or 48"
    assert len(near(divisors(math.factorial(9)), 100).replace(" or ", ", ").split(", ")) == 12
