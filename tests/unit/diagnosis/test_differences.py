"""Gradients of somebody's code beside differences of its own output: right, and wrong in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_cli.core.results_grads import InputGrads
from attn_cli.diagnosis.adapting import adapt
from attn_cli.diagnosis.asking import Sizes, draw_question
from attn_cli.diagnosis.differences import Differences
from attn_cli.diagnosis.gradients import gradients
from attn_cli.diagnosis.host.session import LocalSession

CODE = '''"""Attention (B, L, d)."""
import math
import torch

class OneIsOff(torch.autograd.Function):
    """Gives its argument, and a gradient that is wrong for one number."""
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        g = g.clone()
        g[1, 4, 3] *= 1.01
        return g

def right(q, k, v):
    return (q @ k.transpose(1, 2) / math.sqrt(q.shape[2])).softmax(2) @ v

def one_is_off(q, k, v):
    return right(q, OneIsOff.apply(k), v)

def single_inside(q, k, v):
    return (q @ k.transpose(1, 2) / math.sqrt(q.shape[2])).float().softmax(2).to(v.dtype) @ v
'''


def found(name: str, tmp_path: Path) -> dict[str, InputGrads]:
    file = tmp_path / "mine.py"
    file.write_text(CODE, encoding="utf-8")
    code = adapt(f"{file}:{name}", session=LocalSession())
    question = draw_question(code.plan, code.parameters, Sizes(2, 5), name="drawn")
    parts = Differences(code, question, gradients(code, question)).inputs()
    return {part.name: part for part in parts}


@pytest.mark.parametrize("name", ["right", "single_inside"])
def test_right_gradients_are_right_also_of_code_that_rounds_to_float32(
    name: str, tmp_path: Path
) -> None:
    parts = found(name, tmp_path)
    assert {name: part.verdict for name, part in parts.items()} == dict.fromkeys("qkv", "right")
    assert all(part.checked < part.total for part in parts.values())
    widest = max(part.step for part in parts.values())
    assert (widest > 2**-12) == (name == "single_inside")  # stairs need a wider step


def test_one_wrong_number_of_many_is_found(tmp_path: Path) -> None:
    parts = found("one_is_off", tmp_path)
    assert (parts["k"].verdict, parts["k"].reason) == ("wrong", "differs")
    assert parts["k"].worst.at == {"batch": 1, "key": 4, "d_k": 3}
    assert parts["k"].worst.analytic == pytest.approx(1.01 * parts["k"].worst.numeric, rel=1e-6)
    assert parts["q"].verdict == parts["v"].verdict == "right"
