"""attn check grads: exit codes, the screen, JSON, and one line for what cannot be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attn_cli.checks.grads import torch_subject
from attn_cli.checks.grads.torch_subject import Forward, TorchAttention
from attn_cli.commands.main import main
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_grads import GradsResult, overall
from attn_cli.workflows.check import grads_asked
from attn_cli.workflows.check.grads_cases import CASES, default_cases, layer_for_norms
from tests.unit.checks.grads.faults import Planted

SMALL = ("--shape", "1,2,3,2")


@pytest.fixture
def few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default set cut down to one case that hides keys and the layer of the norms."""
    some = [case for case in default_cases(0) if case[0] in ("causal", "grouped")]
    monkeypatch.setattr(grads_asked, "default_cases", lambda seed: some)


@pytest.fixture
def wrong_q(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engine torch with a gradient of q that is one percent too long."""
    monkeypatch.setattr(torch_subject, "TORCH", Planted("q", lambda grad: 1.01 * grad))


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What the check prints; it must say nothing on stderr."""
    assert main(["check", "grads", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def fields(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    return json.loads(shown(capsys, *arguments, "--json", code=code))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The words of a refusal: exit code 2, nothing on stdout, no traceback."""
    assert main(["check", "grads", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("attn: ")
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.usefixtures("few_cases")
def test_the_default_cases_on_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys).splitlines()
    assert lines[0] == "the default cases  2 cases · gradients of torch · float64 · seed 0"
    assert lines[2].split()[:7] == ["case", "batch", "head", "query", "key", "d_k", "d_v"]
    assert lines[3].startswith("grouped")
    assert " 6 on 2 " in lines[3]
    assert lines[3].endswith("✓")
    assert lines[6].startswith("gradient norms  of a layer: 32 queries")
    assert lines[-3] == "✓ 8 gradients are as finite differences say"
    assert lines[-2] == "  exactly 0 at all 12 numbers of hidden keys, scores and empty rows"
    assert lines[-1] == "  shared heads get the sum over their query heads"


@pytest.mark.usefixtures("few_cases")
def test_the_norms_say_what_they_depend_on(capsys: pytest.CaptureFixture[str]) -> None:
    result = fields(capsys)
    (norms,) = result["norms"]
    assert [row["input"] for row in norms["norms"]] == ["w_q", "w_k", "w_v", "w_o"]
    assert (norms["scale"], norms["outputs"]) == (0.125, 32 * 128)
    for row in norms["norms"]:
        assert row["ratio"] == pytest.approx(row["without_scale"] / row["with_scale"])
    (said,) = [f["message"] for f in result["findings"] if f["code"] == "gradient-norms"]
    assert "8 times by the scores' own factor" in said
    assert "no range such as 1e-3 to 1e-1 is healthy in general" in said


def test_json_of_a_shape(capsys: pytest.CaptureFixture[str]) -> None:
    result = fields(capsys, *SMALL, "--kv-heads", "1", "--causal", "--seed", "3")
    assert result["schema"] == "attn.check.grads/1"
    assert (result["subject"], result["seed"], result["dtype"]) == ("torch", 3, "float64")
    assert result["verdict"] == "right"
    assert result["settings"]["mask"] == "causal"
    (case,) = result["cases"]
    assert case["sizes"] == {
        "batch": 1, "heads": 2, "kv_heads": 1, "queries": 3, "keys": 3, "d_k": 2, "d_v": 2,
    }  # fmt: skip
    assert [part["input"] for part in case["inputs"]] == ["q", "k", "v", "scores"]
    q, scores = case["inputs"][0], case["inputs"][-1]
    assert q["shape"] == [1, 2, 3, 2]
    assert q["checked"] == q["coordinates"] == 12
    assert set(q["where"]) == {"batch", "head", "query", "d_k"}
    assert 0 <= q["max_abs"] <= q["allowed"] < 1e-7
    assert q["gradcheck"] == "passed"
    assert (scores["must_be_zero"], scores["not_zero"]) == (6, 0)
    assert [sums["input"] for sums in case["group_sums"]] == ["k", "v"]
    assert [row["input"] for row in result["norms"][0]["norms"]] == ["q", "k", "v"]


@pytest.mark.usefixtures("wrong_q")
def test_a_wrong_gradient_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(shown(capsys, *SMALL, code=1).split())
    assert "✗ q 12" in text
    assert "✗ the gradient of q is wrong: autograd says" in text
    assert "everywhere 1.01 times the right one gradient-wrong" in text
    assert "as finite differences say, head by head" not in text
    result = fields(capsys, *SMALL, code=1)
    assert result["verdict"] == "wrong"
    (finding,) = [f for f in result["findings"] if f["severity"] == "error"]
    assert finding["code"] == "gradient-wrong"
    assert finding["where"]["query"] == result["cases"][0]["inputs"][0]["where"]["query"]


def test_what_is_not_finite_exits_with_3(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    q = np.ones((1, 1, 2, 2))
    q[0, 0, 1, 0] = np.nan
    np.savez(tmp_path / "nan.npz", q=q, k=np.ones((1, 1, 2, 2)), v=np.ones((1, 1, 2, 2)))
    text = " ".join(shown(capsys, str(tmp_path / "nan.npz"), code=3).split())
    assert "nothing was compared: the output holds NaN at batch 0, head 0, query 1, d_v 0" in text
    assert "attn check numerics says why" in text


def test_a_model_layer_by_layer(capsys: pytest.CaptureFixture[str], samples: Path) -> None:
    model = str(samples / "induction.safetensors")
    result = fields(capsys, model, "--text", "a b", "--layer", "1")
    (case,) = result["cases"]
    assert case["layer"] == 1
    assert [part["input"] for part in case["inputs"]] == ["x", "w_q", "w_k", "w_v", "w_o", "scores"]
    assert {part["verdict"] for part in case["inputs"]} == {"right"}
    assert result["norms"][0]["layer"] == 1


def test_token_vectors_with_projections(capsys: pytest.CaptureFixture[str], samples: Path) -> None:
    source = str(samples / "three_tokens.json")
    result = fields(capsys, source, "--init", "default", "--heads", "2")
    (case,) = result["cases"]
    assert [part["input"] for part in case["inputs"]] == [
        "x", "w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v", "b_o", "scores",
    ]  # fmt: skip
    assert {part["output_head"] for part in case["inputs"]} == {None}  # W_o mixes the heads
    assert result["settings"]["seed"] == 0


@pytest.mark.parametrize(
    "arguments, words",
    [
        *(
            (
                ["--engine", name],
                f"attn cannot differentiate engine {name}\n      use --engine torch",
            )
            for name in ("numpy", "sdpa", "sdpa:flash", "mha", "flex")
        ),
        (["--engine", "torhc"], "there is no engine 'torhc'"),
        (
            ["--causal"],
            "a mask (--mask, --causal) is for an INPUT or --shape, and neither was given",
        ),
        (["--kv-heads", "2"], "--kv-heads is for an INPUT or --shape"),
        (["--layer", "0"], "--layer is for an INPUT or --shape"),
        (["--text", "a"], "--text is for an INPUT or --shape"),
        (["--seed", "-1"], "--seed is -1: expected a whole number from 0"),
        (["--shape", "1,2,3"], "--shape is '1,2,3': expected batch,heads,length,d_k"),
        (["x.npz", "--shape", "1,2,3,4"], "INPUT and --shape were both given"),
        ([*SMALL, "--text", "a b"], "--text is what a model reads"),
        ([*SMALL, "--layer", "1"], "layer"),
        ([*SMALL, "--init", "xavier"], "--init is for token vectors"),
        (["nowhere.npz"], "nowhere.npz"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert words in refused(capsys, *arguments)


def test_the_default_cases_leave_nothing_out() -> None:
    cases = dict(default_cases(0))
    assert len(cases) == len(CASES)
    questions = list(cases.values())
    empty = [q for q in questions if (v := q.visible()) is not None and not v.any(-1).all()]
    unseen = [q for q in questions if (v := q.visible()) is not None and not v.any(-2).all()]
    assert empty
    assert unseen
    groups = {q.shape[1] // q.kv_heads for q in questions}
    assert 1 in groups
    assert any(1 < group < q.shape[1] for q in questions if (group := q.shape[1] // q.kv_heads))
    assert any(q.kv_heads == 1 < q.shape[1] for q in questions)
    for name in ("softcap", "sinks", "bias", "additive", "rotation", "position_bias", "origin"):
        assert any(getattr(q, name) is not None for q in questions), name
    assert any(q.origin is not None and q.origin.context is not None for q in questions)
    assert any(q.effective_scale == 1 for q in questions)
    assert any(q.shape[2] != q.shape[3] for q in questions)
    assert any(q.shape[0] > 1 for q in questions)
    assert {q.rotation.pairing for q in questions if q.rotation} == {"half", "interleaved"}


def test_the_default_cases_follow_the_seed() -> None:
    zero, one = (dict(default_cases(seed)) for seed in (0, 1))
    for name, inputs in zero.items():
        assert not np.array_equal(inputs.q, one[name].q), name
    assert not np.array_equal(layer_for_norms(0)[1].q, layer_for_norms(1)[1].q)


def test_nan_at_hidden_places_takes_no_part() -> None:
    """NaN in a key, a value, and a query that sees nothing: no output or gradient shows it."""
    inputs = dict(default_cases(0))["NaN where nobody looks"]
    assert [int(np.isnan(array).sum()) for array in (inputs.q, inputs.k, inputs.v)] == [1, 1, 1]
    q, k, v = (torch.tensor(a, requires_grad=True) for a in (inputs.q, inputs.k, inputs.v))
    forward: Forward = TorchAttention().of(inputs)
    output = forward({"q": q, "k": k, "v": v})
    assert torch.isfinite(output).all()
    for gradient in torch.autograd.grad(output.square().sum(), (q, k, v)):
        assert torch.isfinite(gradient).all()


def test_a_nan_that_is_seen_reaches_those_who_see_it() -> None:
    """Query 0 does not see key 1, query 1 does: its gradient alone is NaN, as its output is."""
    k = np.ones((1, 1, 2, 2))
    k[0, 0, 1, 0] = np.nan
    mask = np.array([[True, False], [True, True]])
    q = torch.ones((1, 1, 2, 2), dtype=torch.float64, requires_grad=True)
    inputs = AttentionInputs(np.ones((1, 1, 2, 2)), k, np.ones((1, 1, 2, 2)), mask=_Fixed(mask))
    tensors: Mapping[str, Tensor] = {"q": q, "k": torch.tensor(k), "v": torch.tensor(inputs.v)}
    output = TorchAttention().of(inputs)(tensors)
    (gradient,) = torch.autograd.grad(output.sum(), q)
    assert torch.isfinite(output[0, 0, 0]).all()
    assert torch.isnan(output[0, 0, 1]).all()
    assert torch.isfinite(gradient[0, 0, 0]).all()
    assert torch.isnan(gradient[0, 0, 1]).any()


class _Fixed:
    """A mask that is this array."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __call__(self, b: Any, h: Any, q_pos: Any, k_pos: Any) -> Any:
        return self.array[q_pos, k_pos]

    def tile(self, b: int, h: int, queries: range, keys: range) -> Any:
        raise AssertionError("nobody asks for tiles here")


def test_a_result_without_cases_is_undecided() -> None:
    result = GradsResult(subject="nobody", seed=0, cases=(), norms=(), findings=())
    assert result.verdict == "undecided"
    assert overall(["undecided", "right"]) == "undecided"
    assert overall(["right", "right"]) == "right"
    assert overall(["right", "wrong", "undecided"]) == "wrong"
