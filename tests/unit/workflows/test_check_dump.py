"""check dump: right files are not accused, and the mistakes in wrong ones are named."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from attn_cli.core.results_diff import Side
from attn_cli.core.results_dump import DumpResult
from attn_cli.core.settings import Choices
from attn_cli.workflows.check.dump import check_dump
from attn_cli.workflows.check.dump_units import written_units
from attn_cli.workflows.diff_options import DiffOptions
from tests.unit.workflows.mistaken import CAUSAL, MASK, B, D, H, L, S, attention, softmax

Stages = dict[str, Any]
BHLD: dict[Side, str] = {"left": "bhld", "right": "bhld"}
CAUSALLY = ("causal",)
SHORT = ("q", "k", "v", "weights", "context")


def checked(
    path: Path, stages: Stages, *, masks: tuple[str, ...] = (), only: tuple[str, ...] = ()
) -> DumpResult:
    held = {name: stages[name] for name in only or stages}
    np.savez(path / "a.npz", **held)
    options = DiffOptions(choices=Choices(masks=masks), layout=BHLD)
    return check_dump(str(path / "a.npz"), options)


def codes(result: DumpResult) -> list[str]:
    """The mistakes, and what fits as well."""
    found = result.diagnosis
    return [*(one.code for one in found.mistakes), *(one.code for one in found.alternatives)]


def filled(value: float) -> Callable[[Any, Any], Any]:
    return lambda scores, seen: np.where(seen, scores, scores.dtype.type(value))


def late(mask: Any, *, renormalised: bool = False) -> Stages:
    """The weights are masked, and not the scores."""

    def afterwards(weights: Any) -> Any:
        kept = weights * mask
        return kept / kept.sum(-1, keepdims=True) if renormalised else kept

    stages = attention(seen=mask, masking=lambda s, seen: s, afterwards=afterwards)
    del stages["masked"]
    return stages


def merged(context: Any) -> Any:
    return context.transpose(0, 2, 1, 3).reshape(B, L, -1)


RIGHT: dict[str, tuple[Callable[[], Stages], tuple[str, ...]]] = {
    "plain": (attention, ()),
    "causal": (lambda: attention(seen=CAUSAL), CAUSALLY),
    "causal, and nobody says so": (lambda: attention(seen=CAUSAL), ()),
    "grouped": (lambda: attention(kv_heads=2), ()),
    "float16": (lambda: attention(seen=CAUSAL, dtype="float16"), CAUSALLY),
    "filled with −1e9": (lambda: attention(seen=CAUSAL, masking=filled(-1e9)), CAUSALLY),
    "filled with finfo.min": (
        lambda: attention(seen=CAUSAL, masking=filled(float(np.finfo("float32").min))),
        CAUSALLY,
    ),
    "a late mask, renormalised": (lambda: late(CAUSAL, renormalised=True), CAUSALLY),
    "a mask of the file": (lambda: {**attention(seen=MASK), "mask": MASK}, ()),
    "heads side by side": (lambda: _with_output(merged), ()),
    "projected by nobody knows what": (lambda: _with_output(_projected), ()),
    "softmax of float64 in float32": (
        lambda: attention(dtype="float64", normalising=lambda s: softmax(s.astype("float32"))),
        (),
    ),
    "scores that hold the scale": (lambda: _scaled(attention(seen=CAUSAL)), CAUSALLY),
    "four decimals": (
        lambda: {n: np.round(a, 4) for n, a in attention(dtype="float64").items()},
        (),
    ),
    "empty rows that are NaN": (lambda: _excluding(-np.inf), ()),
    "empty rows that are uniform": (lambda: _excluding(-1e9), ()),
}


def _with_output(output: Callable[[Any], Any]) -> Stages:
    stages = attention()
    context = stages.pop("context")
    return {**stages, "output": output(context)}


def _projected(context: Any) -> Any:
    flat = merged(context)
    matrix = np.random.default_rng(3).normal(size=(flat.shape[-1],) * 2)
    return flat @ matrix.astype(flat.dtype)


def _scaled(stages: Stages) -> Stages:
    return {**stages, "scores": stages["scores"] * np.float32(D**-0.5)}


def _excluding(fill: float) -> Stages:
    """The first row sees nothing."""
    seen = np.tri(L, S, -1, dtype=bool)
    return {**attention(seen=seen, masking=filled(fill)), "mask": seen}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_file_is_not_accused(name: str, tmp_path: Path) -> None:
    make, masks = RIGHT[name]
    result = checked(tmp_path, make(), masks=masks)
    assert result.verdict == "consistent"
    assert result.first_inconsistent is None
    assert codes(result) == []
    assert "weights" in result.coverage["checked"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("fill", [-math.inf, -1e4])
def test_what_torch_saves_in_every_precision_is_not_accused(
    dtype: torch.dtype, fill: float, tmp_path: Path
) -> None:
    rng = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(2, 4, 7, 16, generator=rng).to(dtype) for _ in "qkv")
    scores = q @ k.transpose(-1, -2) / math.sqrt(16)
    masked = scores.masked_fill(~torch.ones(7, 7).tril().bool(), fill)
    weights = torch.softmax(masked, -1)
    held = {"q": q, "k": k, "v": v, "masked": masked, "weights": weights, "z": weights @ v}
    save_file({n: a.contiguous() for n, a in held.items()}, tmp_path / "a.safetensors")
    options = DiffOptions(choices=Choices(masks=CAUSALLY))
    result = check_dump(str(tmp_path / "a.safetensors"), options)
    assert result.verdict == "consistent"
    assert result.coverage["checked"] == ["masked", "weights", "context"]


WRONG: dict[str, tuple[Callable[[], Stages], tuple[str, ...], str, str]] = {
    "scale_missing": (lambda: attention(scale=1.0), (), "weights", ""),
    "scale_by_dk": (lambda: attention(scale=1 / D), (), "weights", ""),
    "scale_inverted": (lambda: attention(scale=D**0.5), (), "weights", ""),
    "softmax_over_queries": (
        lambda: attention(normalising=lambda s: softmax(s, -2)),
        (),
        "weights",
        "",
    ),
    "softmax_over_heads": (
        lambda: attention(normalising=lambda s: softmax(s, 1)),
        (),
        "weights",
        "",
    ),
    "softmax_missing": (lambda: attention(normalising=lambda s: s), (), "weights", ""),
    "mask_after_softmax": (lambda: late(CAUSAL), CAUSALLY, "weights", ""),
    "mask_polarity_inverted": (
        lambda: {**attention(seen=~MASK), "mask": MASK},
        (),
        "masked",
        "",
    ),
    "mask_no_effect": (
        lambda: {**{n: attention()[n] for n in SHORT}, "mask": MASK},
        (),
        "weights",
        "",
    ),
    "causal_leaks_next": (
        lambda: attention(seen=np.tri(L, S, 1, dtype=bool)),
        CAUSALLY,
        "masked",
        "k ≤ q + 1",
    ),
    "causal_excludes_self": (
        lambda: attention(seen=np.tri(L, S, -1, dtype=bool)),
        CAUSALLY,
        "masked",
        "",
    ),
    "causal_missing": (attention, CAUSALLY, "weights", "never"),
    "mask_fill_too_small": (
        lambda: {**attention(seen=MASK, masking=filled(-5.0)), "mask": MASK},
        (),
        "masked",
        "filled with -5",
    ),
    "gqa_tile_order": (
        lambda: attention(kv_heads=2, grouping=lambda a: np.tile(a, (1, 2, 1, 1))),
        (),
        "scores",
        "",
    ),
    "weights_transposed": (
        lambda: attention(mixing=lambda w, v: w.swapaxes(-1, -2) @ v),
        (),
        "context",
        "",
    ),
    "heads_merged_without_transpose": (
        lambda: _with_output(lambda c: c.reshape(B, L, -1)),
        (),
        "merged",
        "",
    ),
    "returns_scores_as_weights": (
        lambda: {**attention(), "weights": attention()["scores"] * np.float32(D**-0.5)},
        (),
        "weights",
        "masked scores",
    ),
    "bias_scaled_too": (lambda: _biased(), (), "weights", ""),
}


def _biased() -> Stages:
    """A bias that is added before the scale."""
    bias = np.random.default_rng(7).normal(size=(1, H, L, S)).astype("float32")
    stages = attention(normalising=lambda s: softmax(s + bias * np.float32(D**-0.5)))
    return {**stages, "bias": bias}


@pytest.mark.parametrize("code", WRONG)
def test_the_mistake_in_a_wrong_file_is_named(code: str, tmp_path: Path) -> None:
    make, masks, stage, note = WRONG[code]
    result = checked(tmp_path, make(), masks=masks)
    first = result.first_inconsistent
    assert first is not None
    assert first.stage == stage
    assert code in codes(result)[:2]
    assert len(codes(result)) <= 2
    assert result.diagnosis.unexplained == ()
    if note and result.diagnosis.mistakes[0].code == code:
        assert result.diagnosis.mistakes[0].note == note


@pytest.mark.parametrize("only", [("q", "k", "v", "weights"), ("q", "k", "v", "context")])
def test_fewer_stages_name_it_as_well(only: tuple[str, ...], tmp_path: Path) -> None:
    tiled = attention(kv_heads=2, grouping=lambda a: np.tile(a, (1, 2, 1, 1)), seen=CAUSAL)
    result = checked(tmp_path, tiled, masks=CAUSALLY, only=only)
    assert codes(result) == ["gqa_tile_order"]
    assert result.coverage["checked"] == [only[-1]]


def test_merged_heads_are_judged_by_the_context_that_the_file_has(tmp_path: Path) -> None:
    stages = attention()
    held = {**stages, "merged": stages["context"].reshape(B, L, -1)}
    result = checked(tmp_path, held)
    assert codes(result) == ["heads_merged_without_transpose"]
    assert result.first_inconsistent is not None
    assert result.first_inconsistent.made_from == ("context",)


def test_in_half_precision_too(tmp_path: Path) -> None:
    leaking = attention(dtype="float16", seen=np.tri(L, S, 1, dtype=bool))
    assert codes(checked(tmp_path, leaking, masks=CAUSALLY)) == ["causal_leaks_next"]


def test_an_unknown_mask_is_the_file_s_own_and_the_rest_is_judged(tmp_path: Path) -> None:
    result = checked(tmp_path, late(CAUSAL), only=SHORT)
    assert codes(result) == ["mask_after_softmax"]
    assert result.masked is None
    assumed = next(f for f in result.findings if f.code == "assumed-mask")
    assert "causal" in assumed.message


def test_two_mistakes_are_named_each_at_its_stage(tmp_path: Path) -> None:
    both = attention(scale=1.0, mixing=lambda w, v: w.swapaxes(-1, -2) @ v)
    result = checked(tmp_path, both)
    assert codes(result) == ["scale_missing", "weights_transposed"]


def test_two_mistakes_in_one_step_are_named_together(tmp_path: Path) -> None:
    stages = attention(
        scale=1.0, seen=MASK, masking=lambda s, seen: s, afterwards=lambda w: w * MASK
    )
    held = {**{name: stages[name] for name in ("q", "k", "v", "weights")}, "mask": MASK}
    assert codes(checked(tmp_path, held)) == ["scale_missing", "mask_after_softmax"]


def test_what_no_mistake_explains_is_described(tmp_path: Path) -> None:
    stages = attention()
    stages["context"][1, 2, 3, 0] += 0.5
    result = checked(tmp_path, stages)
    first = result.first_inconsistent
    assert first is not None
    assert first.result is not None
    assert (first.stage, first.result.beyond) == ("context", 1)
    assert dict(first.result.where) == {"batch": 1, "head": 2, "query": 3, "d_v": 0}
    np.testing.assert_allclose(first.result.max_abs, 0.5, rtol=1e-5)
    assert codes(result) == []
    assert result.diagnosis.unexplained == ("context",)
    assert result.diagnosis.tried > 30


def test_nothing_to_recompute_is_undecided(tmp_path: Path) -> None:
    stages = attention()
    assert checked(tmp_path, stages, only=("q", "k", "v")).verdict == "undecided"
    assert checked(tmp_path, stages, only=("weights",)).verdict == "undecided"


def test_rows_that_do_not_sum_to_1_are_said_of_weights_alone(tmp_path: Path) -> None:
    result = checked(tmp_path, late(CAUSAL), only=("weights", "v", "context"))
    assert result.verdict == "consistent"
    said = next(f for f in result.findings if f.code == "row-sums")
    assert said.severity == "warning"
    right = checked(tmp_path, attention(), only=("weights", "v", "context"))
    assert not any(f.code == "row-sums" for f in right.findings)


def test_units_are_those_of_numbers_written_short() -> None:
    full = np.random.default_rng(0).normal(size=8)
    assert written_units({"q": full, "weights": full}, "float64") == {}
    assert written_units({"weights": np.array([0.5, 0.25])}, "float64") == {}
    units = written_units({"q": np.array([0.3, 0.1]), "weights": full.round(3)}, "float64")
    assert units == {"q": 0.001, "weights": 0.001}
    assert written_units({"q": np.array([0.3, 0.1]), "weights": full}, "float64") == {}
