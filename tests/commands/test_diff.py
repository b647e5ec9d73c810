"""attn diff, as it is called: exit codes, screens, JSON, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.commands.main import main
from tests.unit.workflows.dumping import in_numpy, jax_file, npz, numpy_folder
from tests.unit.workflows.faulty import planted, scaled

SAMPLES = Path(__file__).parents[2] / "sample_inputs"
APPLE = str(SAMPLES / "apple.json")
KEYS = {
    *("stage", "verdict", "max_abs", "max_rel", "ulp", "where", "beyond", "budget"),
    *("left_error", "right_error", "own_fault", "nonfinite"),
}


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["diff", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = called(capsys, *arguments, "--json")
    fields: dict[str, Any] = json.loads(out)
    return code, fields


def test_two_engines_on_seeded_numbers_agree(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys, "numpy-vs-torch")
    assert code == 0
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "left   numpy  float64 · softmax in float64"
    assert "seed 0, q × 1.5" in lines[2]
    assert lines[-1].startswith("✓ 7 stages compared, no difference: ")


def test_json_is_attn_diff_1(capsys: pytest.CaptureFixture[str]) -> None:
    code, fields = as_json(capsys, "numpy-vs-torch@bfloat16", APPLE, "--causal")
    assert code == 0
    assert fields["schema"] == "attn.diff/1"
    assert fields["first_difference"] is None
    assert fields["right"]["dtype"] == "bfloat16"
    assert fields["right"]["softmax"] == "float32"
    names = [stage["stage"] for stage in fields["stages"]]
    assert names == fields["coverage"]["compared"]
    assert names == [
        "x",
        "q",
        "k",
        "v",
        "scores",
        "scaled",
        "masked",
        "weights",
        "context",
        "merged",
    ]
    assert all(set(stage) >= KEYS for stage in fields["stages"])
    weights = fields["stages"][names.index("weights")]
    assert weights["verdict"] == "rounding"
    assert 0 < weights["max_abs"] <= weights["budget"]
    assert set(weights["where"]) == {"batch", "head", "query", "key"}
    assert set(weights["tokens"]) == {"query", "key"}
    assert weights["own_fault"] == []


def test_a_difference_is_named_last_with_what_comes_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with planted({"weights": scaled}):
        code, out, _ = called(capsys, "numpy@float32-vs-faulty@float32", "--causal")
    assert code == 1
    last = " ".join(out.split("✗")[-1].split())
    assert last.startswith("masked scores agree, weights do not; worst at batch ")
    assert last.endswith("the fault is right's own in weights")
    assert "right inherited" in out
    assert "left 1, right 1.01" in out


def test_what_a_difference_looks_like_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    with planted({"scaled": scaled}):
        code, fields = as_json(capsys, "faulty@float32-vs-torch@float32")
    assert (code, fields["first_difference"]) == (1, "scaled")
    by_name = {stage["stage"]: stage for stage in fields["stages"]}
    assert by_name["scaled"]["own_fault"] == ["left"]
    assert by_name["weights"]["inherited"] == ["left"]
    facts = {fact["fact"]: fact for fact in by_name["scaled"]["signature"]}
    assert {"ratio", "heads", "queries", "keys", "distance"} <= set(facts)
    np.testing.assert_allclose(facts["ratio"]["slope"], 1.01, rtol=1e-6)


@pytest.mark.parametrize("where", ["first", "second"])
def test_tolerances_take_the_place_of_the_budget(
    where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    loose = ("--atol", "1") if where == "first" else ("--rtol", "1", "--atol", "0.1")
    with planted({"scaled": scaled}):
        code, fields = as_json(capsys, "numpy@float32-vs-faulty@float32", *loose)
    assert (code, fields["first_difference"]) == (0, None)
    assert fields["tolerance"] != "measured"
    code, fields = as_json(capsys, "numpy-vs-torch", "--atol", "0")
    assert (code, fields["first_difference"]) == (1, "weights")


def test_stages_can_be_picked(capsys: pytest.CaptureFixture[str]) -> None:
    code, fields = as_json(capsys, "numpy-vs-torch", "--stage", "weights,scores")
    assert code == 0
    assert [stage["stage"] for stage in fields["stages"]] == ["scores", "weights"]


def test_the_shape_and_the_seed_are_what_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    _, fields = as_json(capsys, "numpy-vs-torch", "--shape", "1,3,5,4", "--seed", "7")
    assert fields["stages"][0]["shapes"] == [[1, 3, 5, 4]] * 2
    assert "seed 7" in fields["input"]["source"]


def test_an_engine_that_shows_less_is_compared_by_what_it_shows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = called(capsys, "numpy-vs-sdpa", "--causal")
    assert code == 0
    assert "4 of 8 stages compared" in out
    assert "not compared: scores, scaled, masked, weights, not shown by sdpa" in out
    code, out, _ = called(capsys, "numpy-vs-sdpa", "--stage", "weights")
    assert code == 3
    assert out.splitlines()[-1] == "? no stage could be compared, so nothing is decided"


def test_the_alignment_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(1, 2, 3, 4)), rng.normal(size=(1, 2, 5, 4))
    path = npz(tmp_path / "a.npz", {"q": q, "k": k, "v": k})
    code, _, err = called(capsys, "numpy-vs-torch", path, "--causal")
    assert code == 2
    assert "--align" in err
    code, out, _ = called(capsys, "numpy-vs-torch", path, "--causal", "--align", "upper-left")
    assert code == 0
    assert "at their beginnings, as PyTorch's is_causal" in out


def test_two_dumps_of_other_programs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    left, right = numpy_folder(tmp_path / "plain"), jax_file(tmp_path / "flax.npz")
    names = "attn_logits=masked,encoded=context,logits=scaled"
    code, out, err = called(capsys, left, right, "--causal", "--map", names)
    assert (code, err) == (0, "")
    assert "8 of 8 stages compared" in out
    assert "q, k, v, context read as (batch, length, head, width)" in " ".join(out.split())


def test_a_saved_trace_is_compared_with_another(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [str(tmp_path / name) for name in ("a.safetensors", "b.npz")]
    for file, dtype in zip(files, ("float64", "bfloat16"), strict=True):
        run = ["run", APPLE, "--causal", "--init", "xavier", "--seed", "3", "--positions", "rope"]
        assert main([*run, "--engine", "torch", "--dtype", dtype, "--save", file]) == 0
    capsys.readouterr()
    code, fields = as_json(capsys, *files)
    assert (code, fields["first_difference"]) == (0, None)
    assert fields["coverage"]["not_compared"] == {}
    by_name = {stage["stage"]: stage for stage in fields["stages"]}
    assert {"x", "q_rotated", "masked", "lse", "merged"} <= set(by_name)
    assert all(stage["own_fault"] == [] for stage in by_name.values())
    assert by_name["weights"]["right_error"] > by_name["weights"]["left_error"] >= 0


def test_stages_of_other_shapes_are_shown_both(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stages = in_numpy()
    fewer = {name: stages[name][:, :, :5] for name in ("q", "weights", "context")}
    left = npz(tmp_path / "a.npz", stages)
    right = npz(tmp_path / "b.npz", fewer | {name: stages[name] for name in "kv"})
    code, out, _ = called(capsys, left, right)
    assert code == 1
    assert "2×3×7×8 | 2×3×5×8" in out
    assert "q of 2×3×7×8 and of 2×3×5×8 are not compared" in " ".join(out.split())


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((), "nothing to compare was given"),
        (("numpy-torch",), "is no file and not LEFT-vs-RIGHT"),
        (("numpy-vs-",), "is no file and not LEFT-vs-RIGHT"),
        (("a-vs-b-vs-c",), "is no file and not LEFT-vs-RIGHT"),
        (("nump-vs-torch",), "did you mean 'numpy'"),
        (("numpy-vs-sdpa:flas",), "did you mean 'sdpa:flash'"),
        (("numpy-vs-torch@bf16",), "there is no precision 'bf16'"),
        (("numpy-vs-torch@",), "ends where a precision is expected"),
        (("numpy@bfloat16-vs-torch",), "engine numpy does not compute in bfloat16"),
        (("numpy-vs-torch", "missing.npz"), "missing.npz: no such file"),
        (("numpy-vs-torch", "--shape", "2,4"), "expected batch,heads,length,d_k"),
        (("numpy-vs-torch", APPLE, "--shape", "1,1,2,2"), "--shape makes an input"),
        (("numpy-vs-torch", "--map", "a=weights"), "--map is for two dumps"),
        (("numpy-vs-torch", "--computed", "tf32"), "--computed is for two dumps"),
        (("numpy-vs-torch", "--atol", "-1"), "--atol is -1"),
        (("numpy-vs-torch", "--stage", "weight"), "did you mean 'weights'"),
        (("numpy-vs-torch", "--layout", "lbhd"), "--layout is 'lbhd'"),
        ((APPLE,), "one dump was given"),
        ((APPLE, APPLE, "--shape", "1,1,2,2"), "--shape is for two engines"),
        ((APPLE, APPLE, "--dtype", "float32"), "--dtype is for two engines"),
        ((APPLE, APPLE, "--weights", APPLE), "--weights is for two engines"),
        (("numpy-vs-torch", "--layout", "left=blhd"), "--layout for one side is for two dumps"),
        ((APPLE, APPLE, "--map", "weights"), "expected THEIRS=OURS"),
        ((APPLE, APPLE, "--map", "x=wights"), "did you mean 'weights'"),
        ((APPLE, APPLE, "--computed", "up=tf32"), "expected left=… or right=…"),
        ((APPLE, "missing.npz"), "missing.npz: no such file"),
        ((str(SAMPLES / "induction.safetensors"), APPLE), "holds a model"),
        (("numpy-vs-torch", str(SAMPLES / "induction.safetensors")), "holds a model"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = called(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err
    code, out, _ = called(capsys, *arguments, "--json")
    assert (code, json.loads(out)["schema"]) == (2, "attn.error/1")


def test_help_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "--help")
    assert code == 0
    for word in ("LEFT-vs-RIGHT", "--map", "--computed", "--atol", "--stage", "3 nothing"):
        assert word in out


def test_no_tolerance_at_all_holds_one_head_element_by_element(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A budget of every element, of a single head; and numbers that print apart."""
    tight = ("--atol", "0", "--rtol", "0", "--shape", "1,1,9,4")
    code, out, err = called(capsys, "numpy@float64-vs-numpy@float32", *tight)
    assert (code, err) == (1, "")
    said = re.search(r"left (\S+), right (\S+?)[;,]", " ".join(out.split("✗")[1].split()))
    assert said is not None
    assert said[1] != said[2]


@pytest.mark.parametrize("engine", ["sdpa:efficient", "sdpa:cudnn@bfloat16"])
def test_a_kernel_of_the_gpu_says_that_it_needs_one(
    engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", f"numpy-vs-{engine}", "--shape", "1,2,4,8"]) == 2
    said = capsys.readouterr().err
    assert "needs a GPU: it runs on cuda, not on cpu" in said
    assert "torch, sdpa, sdpa:math, sdpa:flash, mha, flex and tiled can" in said
