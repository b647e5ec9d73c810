"""diff of two dumps: names, layouts, precisions, what is derived, whose fault it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.core.results_diff import DiffResult, StageResult
from attn_cli.core.rounding import round_to
from attn_cli.core.settings import Choices
from attn_cli.errors import AttnError, InputError, UnsupportedError
from attn_cli.workflows import diff_dumps
from attn_cli.workflows.diff import diff
from attn_cli.workflows.diff_options import DiffOptions
from tests.unit.workflows.dumping import (
    ALL,
    H,
    L,
    in_numpy,
    jax_file,
    npz,
    numpy_folder,
    torch_file,
)

CAUSAL = Choices(masks=("causal",))
STEPS = ("scores", "scaled", "masked", "weights", "context")


def compared(left: str, right: str, **options: Any) -> DiffResult:
    return diff(left, right, DiffOptions(**{"choices": CAUSAL, **options}))


def by_name(result: DiffResult) -> dict[str, StageResult]:
    return {stage.stage: stage for stage in result.stages}


def own_faults(result: DiffResult) -> dict[str, tuple[str, ...]]:
    return {stage.stage: stage.faulty for stage in result.stages if stage.faulty}


def codes(result: DiffResult) -> set[str]:
    return {finding.code for finding in result.findings}


def spoilt(**changes: Any) -> dict[str, Any]:
    """The stages with some of them changed on the way."""
    return in_numpy(spoil=lambda name, array: changes.get(name, lambda a: a)(array))


def test_numpy_and_torch_need_no_more_than_a_map(tmp_path: Path) -> None:
    left, right = numpy_folder(tmp_path / "plain"), torch_file(tmp_path / "torch.safetensors")
    result = compared(
        left, right, map={"dots": "scores", "right:logits": "masked", "left:logits": "scaled"}
    )
    assert result.coverage.compared == ALL
    assert {stage.verdict for stage in result.stages} == {"rounding"}
    assert (result.left.dtype, result.right.dtype) == ("float32", "bfloat16")
    assert own_faults(result) == {}
    assert result.coverage.derived == {"scaled": ("right",), "masked": ("left",)}


def test_a_jax_layout_is_recognised_by_the_sizes(tmp_path: Path) -> None:
    left, right = numpy_folder(tmp_path / "plain"), jax_file(tmp_path / "flax.npz")
    names = {"attn_logits": "masked", "encoded": "context", "logits": "scaled"}
    result = compared(left, right, map=names)
    stages = by_name(result)
    assert [stages[name].verdict for name in "qkv"] == ["identical"] * 3
    assert result.first_difference is None
    assert stages["context"].left.shape == (2, 3, 7, 8)
    assert stages["masked"].left.derived
    assert "layout" in codes(result)


def test_a_dump_agrees_with_itself(tmp_path: Path) -> None:
    one = npz(tmp_path / "a.npz", in_numpy())
    result = compared(one, one)
    assert {stage.verdict for stage in result.stages} == {"identical"}
    assert codes(result) == set()
    assert result.coverage.missing == {}


@pytest.mark.parametrize("stage", STEPS)
def test_a_fault_in_a_dump_is_found_and_what_follows_inherits(stage: str, tmp_path: Path) -> None:
    left = npz(tmp_path / "a.npz", spoilt(**{stage: lambda a: a * np.float32(1.01)}))
    result = compared(left, npz(tmp_path / "b.npz", in_numpy()))
    assert own_faults(result) == {stage: ("left",)}
    assert result.first_difference == stage
    after = STEPS[STEPS.index(stage) + 1 :]
    inheriting = [s.stage for s in result.stages if s.inheriting == ("left",)]
    assert inheriting == list(after)


def test_two_faults_of_a_dump_are_both_found(tmp_path: Path) -> None:
    def swapped(array: Any) -> Any:
        return array[:, ::-1].copy()

    def rounded(array: Any) -> Any:
        return round_to(array, "bfloat16")

    right = npz(tmp_path / "b.npz", spoilt(scores=swapped, weights=rounded))
    result = compared(npz(tmp_path / "a.npz", in_numpy()), right)
    assert own_faults(result) == {"scores": ("right",), "weights": ("right",)}
    values = next(f for f in by_name(result)["scores"].signature if f.name == "values")
    assert [[0, 0], [0, H - 1]] in values.numbers["swapped"]


def test_both_sides_may_be_at_fault(tmp_path: Path) -> None:
    left = npz(tmp_path / "a.npz", spoilt(scaled=lambda a: a * np.float32(1.5)))
    right = npz(tmp_path / "b.npz", spoilt(context=lambda a: -a))
    assert own_faults(compared(left, right)) == {"scaled": ("left",), "context": ("right",)}


def test_sides_that_are_wrong_alike_agree_and_are_told_so(tmp_path: Path) -> None:
    wrong = npz(tmp_path / "a.npz", spoilt(weights=lambda a: a * np.float32(1.01)))
    result = compared(wrong, wrong)
    assert result.first_difference is None
    assert own_faults(result) == {"weights": ("left", "right")}
    assert "wrong-alike" in codes(result)


def test_scores_that_hold_the_scale_are_a_convention_and_a_difference(tmp_path: Path) -> None:
    stages = in_numpy()
    held = {name: stages[name] for name in ("q", "k", "v", "weights", "context")}
    right = npz(tmp_path / "b.npz", held | {"scores": stages["scaled"]})
    result = compared(npz(tmp_path / "a.npz", stages), right)
    assert result.first_difference == "scores"
    assert own_faults(result) == {}
    assert "scaled-scores" in codes(result)
    found = by_name(result)
    assert (found["scaled"].verdict, found["weights"].verdict) == ("identical", "identical")
    assert found["scaled"].right.derived


def test_scores_that_hold_the_scale_are_known_without_what_follows(tmp_path: Path) -> None:
    stages = in_numpy()
    held = {name: stages[name] for name in "qkv"}
    right = npz(tmp_path / "b.npz", held | {"scores": stages["scaled"]})
    assert "scaled-scores" in codes(compared(npz(tmp_path / "a.npz", stages), right))


def test_one_visible_cell_too_many_is_found_where_the_mask_is_known(tmp_path: Path) -> None:
    def opened(array: Any) -> Any:
        array[1, 2, 3, 5] = 0.4
        return array

    right = npz(tmp_path / "b.npz", spoilt(masked=opened))
    result = compared(npz(tmp_path / "a.npz", in_numpy()), right)
    assert own_faults(result) == {"masked": ("right",)}
    masked = by_name(result)["masked"]
    assert dict(masked.where) == {"batch": 1, "head": 2, "query": 3, "key": 5}
    assert masked.nonfinite == {"left": {"-inf": 1}}


def test_without_a_mask_nobody_is_blamed_for_it(tmp_path: Path) -> None:
    scaled = in_numpy()["scaled"][1, 2, 3, 5]

    def opened(array: Any) -> Any:
        array[1, 2, 3, 5] = scaled
        return array

    right = npz(tmp_path / "b.npz", spoilt(masked=opened))
    result = compared(npz(tmp_path / "a.npz", in_numpy()), right, choices=Choices())
    assert result.first_difference == "masked"
    assert not by_name(result)["masked"].right.own_fault
    assert own_faults(result) == {}
    assert "unknown-mask" in codes(result)
    assert result.masked is None


def test_a_mask_in_one_of_the_files_serves_both(tmp_path: Path) -> None:
    stages = in_numpy()
    right = npz(tmp_path / "b.npz", {**stages, "attention_mask": np.tri(L)[None, None]})
    result = compared(npz(tmp_path / "a.npz", stages), right, choices=Choices())
    assert "unknown-mask" not in codes(result)
    assert result.masked is True
    assert by_name(result)["masked"].left.own_fault is False


def test_a_finite_fill_is_held_against_minus_infinity_as_what_it_is(tmp_path: Path) -> None:
    least = np.finfo(np.float32).min
    filled = spoilt(masked=lambda a: np.where(np.isneginf(a), least, a))
    result = compared(npz(tmp_path / "a.npz", in_numpy()), npz(tmp_path / "b.npz", filled))
    masked = by_name(result)["masked"]
    assert masked.nonfinite == {"left": {"-inf": 2 * H * L * (L - 1) // 2}}
    assert by_name(result)["weights"].verdict == "identical"


def test_stages_of_other_shapes_differ_and_are_not_broadcast(tmp_path: Path) -> None:
    stages = in_numpy()
    fewer = stages | {name: stages[name][:, :1] for name in STEPS if name != "context"}
    fewer |= {"q": stages["q"][:, :1], "context": stages["context"][:, :1]}
    fewer |= {"k": stages["k"][:, :1], "v": stages["v"][:, :1]}
    result = compared(npz(tmp_path / "a.npz", stages), npz(tmp_path / "b.npz", fewer))
    assert result.first_difference == "q"
    weights = by_name(result)["weights"]
    assert (weights.left.shape, weights.right.shape) == ((2, 3, 7, 7), (2, 1, 7, 7))
    assert (weights.verdict, dict(weights.where)) == ("different", {})
    assert result.oracle is None


def test_scores_and_weights_alone_are_enough(tmp_path: Path) -> None:
    stages = in_numpy()
    held = {name: stages[name] for name in ("masked", "weights")}
    left = npz(tmp_path / "a.npz", held)
    right = npz(tmp_path / "b.npz", held | {"weights": held["weights"] * np.float32(1.01)})
    result = compared(left, right)
    assert own_faults(result) == {"weights": ("right",)}


def test_lse_is_a_stage_too(tmp_path: Path) -> None:
    stages = in_numpy()
    lse = np.log(np.exp(stages["masked"].astype(np.float64)).sum(-1)).astype(np.float32)
    left = npz(tmp_path / "a.npz", {**stages, "softmax_lse": lse})
    right = npz(tmp_path / "b.npz", {**stages, "softmax_lse": lse + np.float32(0.01)})
    result = compared(left, right)
    assert own_faults(result) == {"lse": ("right",)}


def test_nothing_in_common_is_no_agreement(tmp_path: Path) -> None:
    stages = in_numpy()
    left = npz(tmp_path / "a.npz", {name: stages[name] for name in ("q", "v")})
    right = npz(tmp_path / "b.npz", {name: stages[name] for name in ("weights", "context")})
    result = compared(left, right)
    assert result.stages == ()
    assert result.coverage.missing == {
        "q": "shown by the left side alone",
        "v": "shown by the left side alone",
        "weights": "shown by the right side alone",
        "context": "shown by the right side alone",
    }


def test_bfloat16_numbers_in_float32_are_known_as_such(tmp_path: Path) -> None:
    short = {name: round_to(array, "bfloat16") for name, array in in_numpy().items()}
    result = compared(npz(tmp_path / "a.npz", in_numpy()), npz(tmp_path / "b.npz", short))
    assert (result.right.dtype, "bfloat16" in result.right.note) == ("bfloat16", True)
    assert result.first_difference is None


def test_the_precision_of_a_dump_can_be_said(tmp_path: Path) -> None:
    short = {name: round_to(array, "bfloat16") for name, array in in_numpy().items()}
    left, right = npz(tmp_path / "a.npz", in_numpy()), npz(tmp_path / "b.npz", short)
    claimed = compared(left, right, computed={"right": "float32"})
    assert claimed.first_difference == "q"
    assert set(own_faults(claimed)) >= {"scaled", "weights", "context"}
    assert compared(left, right, computed={"right": "tf32"}).right.dtype == "tf32"


def test_tf32_products_are_rounding_in_tf32_and_not_in_float32(tmp_path: Path) -> None:
    """A tensor core rounds the factors; the scores are then off by far more than float32 allows."""
    stages = in_numpy()
    q, k = (round_to(stages[name], "tf32") for name in "qk")
    right = npz(tmp_path / "b.npz", {**stages, "scores": q @ k.swapaxes(-1, -2)})
    left = npz(tmp_path / "a.npz", stages)
    scores = ("scores",)
    assert compared(left, right, stages=scores).first_difference == "scores"
    said = compared(left, right, stages=scores, computed={"right": "tf32"})
    assert (said.first_difference, own_faults(said)) == (None, {})


def test_four_axes_that_fit_two_ways_are_asked_for(tmp_path: Path) -> None:
    square = np.random.default_rng(1).normal(size=(2, 4, 4, 6))
    one = npz(tmp_path / "a.npz", {"q": square, "k": square, "v": square})
    with pytest.raises(InputError, match=r"q has shape \(2, 4, 4, 6\)") as caught:
        compared(one, one)
    assert "--layout" in caught.value.hint
    assert len(compared(one, one, layout={"left": "blhd", "right": "blhd"}).stages) == 3


def test_a_layout_that_one_file_leaves_open_is_settled_by_the_other(tmp_path: Path) -> None:
    stages = in_numpy()
    some = {name: stages[name].swapaxes(1, 2) for name in "qkv"}
    left = npz(tmp_path / "a.npz", some)
    for pair in ((left, npz(tmp_path / "b.npz", stages)), (str(tmp_path / "b.npz"), left)):
        result = compared(*pair)
        assert [by_name(result)[name].verdict for name in "qkv"] == ["identical"] * 3


def test_heads_and_items_in_one_axis_are_taken_apart(tmp_path: Path) -> None:
    stages = in_numpy()
    flat = {name: a.reshape(-1, *a.shape[2:]) for name, a in stages.items() if name != "q"}
    right = npz(tmp_path / "b.npz", flat | {"q": stages["q"]})
    result = compared(npz(tmp_path / "a.npz", stages), right)
    assert {stage.verdict for stage in result.stages} == {"identical"}


def test_heads_side_by_side_are_split(tmp_path: Path) -> None:
    stages = in_numpy()
    context = stages["context"].swapaxes(1, 2).reshape(2, L, -1)
    right = npz(tmp_path / "b.npz", {"attn_output": context, "weights": stages["weights"]})
    result = compared(npz(tmp_path / "a.npz", stages), right)
    assert by_name(result)["context"].verdict == "identical"


def test_large_dumps_go_head_by_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = spoilt(weights=lambda a: a * np.float32(1.01))
    merged = {"merged": bad["context"].swapaxes(1, 2).reshape(2, L, -1)}
    left = npz(tmp_path / "a.npz", in_numpy())
    right = npz(tmp_path / "b.npz", bad | merged)
    whole = compared(left, right)
    monkeypatch.setattr(diff_dumps, "WHOLE", 0)
    parts = compared(left, right)
    for one, other in zip(whole.stages, parts.stages, strict=True):
        assert (one.stage, one.verdict, one.beyond) == (other.stage, other.verdict, other.beyond)
        assert (one.faulty, one.where, one.elements) == (other.faulty, other.where, other.elements)


@pytest.mark.parametrize(
    "arrays, words",
    [
        ({"loss": np.ones(3)}, "no array has the name of a stage"),
        ({"q": np.ones((2, 0, 3, 4))}, "is empty"),
        ({"weights": np.ones((2, 3, 5, 5), bool)}, "is bool: expected numbers"),
        ({"q": np.ones((2, 3, 5, 4)), "weights": np.ones((2, 3, 6, 6))}, "do not fit together"),
        ({"q": np.ones(5)}, "do not fit together"),
        ({"q": np.ones((1, 2, 3, 4, 5))}, "do not fit together"),
        ({"q": np.ones((2, 3)), "query": np.ones((2, 3))}, "both mean q"),
    ],
)
def test_dumps_that_make_no_sense_are_refused(
    arrays: dict[str, Any], words: str, tmp_path: Path
) -> None:
    good = npz(tmp_path / "a.npz", in_numpy())
    bad = npz(tmp_path / "b.npz", arrays)
    for pair in ((good, bad), (bad, good)):
        with pytest.raises(AttnError, match=words):
            compared(*pair)


def test_a_map_of_a_name_that_nobody_has_is_refused(tmp_path: Path) -> None:
    one = npz(tmp_path / "a.npz", in_numpy())
    for name in ("nothing", "left:nothing"):
        with pytest.raises(InputError, match="nothing"):
            compared(one, one, map={name: "weights"})


def test_float8_asks_what_it_was_computed_in(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    path = str(tmp_path / "a.safetensors")
    save_file({"weights": torch.rand(1, 2, 3, 3).to(torch.float8_e4m3fn)}, path)
    with pytest.raises(UnsupportedError, match="float8_e4m3fn") as caught:
        compared(path, path)
    assert "--computed left=bfloat16" in caught.value.hint
    assert compared(path, path, computed={"left": "bfloat16", "right": "bfloat16"}).stages
