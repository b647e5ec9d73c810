"""Planted faults: each is found, at the right input, with the right coordinates and words."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from attn_cli.checks.grads.said import fine, said
from attn_cli.checks.grads.torch_check import check_case
from attn_cli.checks.grads.torch_subject import TORCH, Differentiable
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_grads import CaseGrads, InputGrads
from tests.unit.checks.grads.faults import Planted, Through, at, jitter
from tests.unit.checks.grads.questions import layer, masked, qkv


def checked(subject: Differentiable, inputs: AttentionInputs, most: int | None = None) -> CaseGrads:
    return check_case(subject, "case", inputs, seed=0, most=most)


def found(subject: Planted | Through, inputs: AttentionInputs) -> InputGrads:
    """What is said of the input with the fault; every other input must be right."""
    case = checked(subject, inputs)
    assert case.verdict == "wrong"
    assert {part.name for part in case.inputs if part.verdict != "right"} == {subject.leaf}
    return next(part for part in case.inputs if part.name == subject.leaf)


def words(case: CaseGrads) -> str:
    """The errors that are said of a case."""
    return " ".join(f.message for f in said([case], []) if f.severity == "error")


@pytest.mark.parametrize(
    "inputs",
    [
        qkv(),
        qkv(6, 2),
        masked("causal", qkv(queries=4)),
        masked("~causal", qkv(queries=4)),
        masked("padding(2)", qkv(6, 3)),
        layer(),
    ],
    ids=["plain", "grouped", "causal", "empty row", "padding", "projections"],
)
def test_right_gradients_pass(inputs: AttentionInputs) -> None:
    case = checked(TORCH, inputs)
    assert case.verdict == "right"
    assert {part.verdict for part in case.inputs} == {"right"}
    assert {part.verdict for part in case.groups} <= {"right"}
    assert {part.gradcheck for part in case.inputs} == {None}
    assert all(part.max_abs <= part.worst.allowed < 1e-7 for part in case.inputs)
    assert words(case) == ""
    assert fine([case])[0].endswith("as finite differences say")


def test_a_factor_in_q() -> None:
    part = found(Planted("q", lambda grad: 1.01 * grad), qkv())
    assert part.reason == "differs"
    assert part.like == "everywhere 1.01 times the right one"
    assert part.heads == (0, 1)
    assert part.worst.analytic == pytest.approx(1.01 * part.worst.numeric, rel=1e-6)
    assert part.gradcheck is not None
    assert part.gradcheck.startswith("Jacobian mismatch")


def test_the_head_is_named() -> None:
    def one_head(grad: Tensor) -> Tensor:
        grad[:, 1] *= 1.01
        return grad

    subject = Planted("v", one_head)
    part = found(subject, qkv())
    assert part.heads == (1,)
    assert part.worst.at["head"] == part.worst.head == 1
    assert "through head 1 of the output" in words(checked(subject, qkv()))


def test_a_scale_that_the_gradient_of_k_forgets() -> None:
    part = found(Planted("k", lambda grad: grad * math.sqrt(4)), qkv())
    assert part.like == "everywhere 2 = √d_k times the right one, as if a scale were amiss"


def test_a_group_sum_over_the_wrong_heads() -> None:
    subject = Planted("k", lambda grad: grad.roll(1, 1))
    part = found(subject, qkv(6, 2))
    assert part.heads == (0, 1, 2, 3, 4, 5)
    case = checked(subject, qkv(6, 2))
    assert [(sums.name, sums.verdict) for sums in case.groups] == [("k", "wrong"), ("v", "right")]
    assert "the gradient of a shared head of k is not the sum over its query heads" in words(case)


def test_one_head_missing_in_the_group_sum() -> None:
    """The head whose part is left out is named: it is wrong through that one alone."""
    counter = itertools.count()

    def without_the_third(grad: Tensor) -> Tensor:
        return grad * (next(counter) % 6 != 2)  # one call for each head of the output

    part = next(
        p for p in checked(Planted("k", without_the_third), qkv(6, 2)).inputs if p.name == "k"
    )
    assert part.verdict == "wrong"
    assert part.heads == (2,)
    assert part.worst.head == 2
    assert part.worst.at["head"] == 0
    assert part.worst.analytic == 0


@pytest.mark.parametrize("name", ["w_q", "w_k", "w_v", "w_o"])
def test_a_transposed_matrix(name: str) -> None:
    part = found(Planted(name, lambda grad: grad.mT), layer())
    assert part.like == "it is the right one transposed"
    assert set(part.worst.at) == {"in", "out"}


def test_a_gradient_that_reaches_a_hidden_key() -> None:
    inputs = masked("padding(2)", qkv())
    subject = Planted("k", at((0, 1, 3, 2), 1e-30))  # far below what a difference could see
    part = found(subject, inputs)
    assert part.reason == "leak"
    assert part.worst.at == {"batch": 0, "head": 1, "key": 3, "d_k": 2}
    assert part.worst.numeric == 0
    assert (part.zeros, part.not_zero) == (16, 1)
    assert "must be exactly 0" in words(checked(subject, inputs))
    assert not any("exactly 0" in line for line in fine([checked(subject, inputs)]))


def test_nan_in_an_empty_row() -> None:
    inputs = masked("~causal", qkv(queries=4))
    subject = Planted("q", at((0, 0, 3, 1), math.nan))
    part = found(subject, inputs)
    assert part.reason == "nan"
    assert part.worst.at == {"batch": 0, "head": 0, "query": 3, "d_k": 1}
    assert part.worst.numeric == 0
    assert "the gradient of q is nan, where finite differences say 0" in words(
        checked(subject, inputs)
    )


def test_nan_in_the_output_is_not_compared() -> None:
    """The usual mask, without a thought for empty rows: the output is NaN, and that is said."""
    subject = Through("q", outward=lambda output, q: output + torch.log(output[0, 0, 3, 0] * 0 - 1))
    case = checked(subject, masked("~causal", qkv(queries=4)))
    assert case.verdict == "undecided"
    assert case.why == "the output holds NaN at batch 0, head 0, query 0, d_v 0"
    (finding,) = said([case], [])
    assert (finding.severity, finding.code) == ("warning", "gradient-unchecked")


def test_a_detached_v() -> None:
    subject = Through("v", inward=torch.Tensor.detach)
    part = found(subject, qkv())
    assert part.reason == "missing"
    assert part.worst.analytic == 0
    assert abs(part.worst.numeric) > 0.1
    assert "no gradient arrives at v" in words(checked(subject, qkv()))


def test_everything_detached() -> None:
    subject = Through("q", outward=lambda output, q: output.detach())
    case = checked(subject, qkv())
    assert {part.reason for part in case.inputs} == {"missing"}


def test_a_backward_that_changes_its_mind_is_gradchecks_own_find() -> None:
    counter = itertools.count()

    def forgetful(grad: Tensor) -> Tensor:
        return grad * (
            1 if next(counter) < 2 else 1.01
        )  # right in our pass and in gradcheck's first

    part = next(p for p in checked(Planted("q", forgetful), qkv(1, 1)).inputs if p.name == "q")
    assert (part.verdict, part.reason) == ("wrong", "gradcheck")
    assert part.gradcheck is not None
    assert "not reentrant" in part.gradcheck
    assert part.max_abs <= part.worst.allowed


def test_an_output_that_is_not_smooth_is_not_judged() -> None:
    noise = Through("q", outward=lambda out, q: out + 1e-4 * jitter(q.detach()))
    part = next(p for p in checked(noise, qkv()).inputs if p.name == "q")
    assert (part.verdict, part.reason) == ("undecided", "imprecise")
    assert [f.code for f in said([checked(noise, qkv())], []) if f.severity == "error"] == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("fill", "of_q"),
    [(-1e9, "right"), (-1e12, "undecided"), (float(np.finfo(np.float32).min), "undecided")],
)
def test_a_row_of_finite_fills_is_not_called_wrong(fill: float, of_q: str, seed: int) -> None:
    """Its scores lie so far from 0 that float64 rounds what a difference moves: a staircase."""
    added = np.zeros((1, 1, 3, 4))
    added[:, :, 1] = fill
    case = check_case(TORCH, "case", qkv(additive=added), seed=seed)
    verdicts = {part.name: part.verdict for part in case.inputs}
    assert "wrong" not in verdicts.values()
    assert verdicts["q"] == case.verdict == of_q
    assert verdicts["v"] == "right"  # values move no score


def test_differences_that_cannot_tell_do_not_call_huge_numbers_right() -> None:
    """A step of 2⁻⁶ does nothing to 1e20, so nothing is known of its gradient."""
    inputs = qkv()
    case = checked(TORCH, replace(inputs, v=1e20 * inputs.v))
    part = next(part for part in case.inputs if part.name == "v")
    assert (part.verdict, part.reason) == ("undecided", "imprecise")
    assert case.verdict == "undecided"


@pytest.mark.parametrize("index", [(0, 0, 0, 0), (0, 1, 2, 1), (0, 1, 2, 3)])
def test_one_wrong_number_is_found_though_few_are_moved(index: tuple[int, ...]) -> None:
    case = checked(Planted("q", at(index, 1e-3)), qkv(), most=3)
    part = next(p for p in case.inputs if p.name == "q")
    assert part.checked < part.total
    assert part.verdict == "wrong"
    assert tuple(part.worst.at.values()) == index
    assert part.worst.analytic - part.worst.numeric == pytest.approx(1e-3, rel=1e-5)
    (note,) = [f for f in said([case], []) if f.code == "sampled"]
    assert "of 24" in note.message


def test_right_gradients_pass_though_few_are_moved() -> None:
    case = checked(TORCH, masked("causal", qkv(6, 2, queries=4)), most=5)
    assert {part.verdict for part in case.inputs} == {"right"}
