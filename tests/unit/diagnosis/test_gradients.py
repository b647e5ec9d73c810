"""Gradients of somebody's code: those of finite differences, and None where none arrives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attn_cli.diagnosis.adapting import adapt
from attn_cli.diagnosis.asking import Sizes, draw_question
from attn_cli.diagnosis.gradients import gradients
from attn_cli.diagnosis.host.session import LocalSession
from attn_cli.diagnosis.meaning import ask, reference
from attn_cli.diagnosis.plan_json import Said
from attn_cli.diagnosis.saying import say
from attn_cli.diagnosis.subject import Adapted
from attn_cli.errors import UnsupportedError

IMPLS = Path(__file__).parent / "impls"


def adapted(target: str, said: Said = Said()) -> Adapted:
    return adapt(f"{IMPLS}/{target}", said, session=LocalSession())


@pytest.mark.parametrize(
    "target, said, role",
    [
        ("functions.py:any_rank", Said(), "k"),
        ("functions.py:in_a_dict", Said(), "v"),
        ("modules.py:Wrapped", say(init="24, 3"), "x"),
        ("modules.py:CrossKV", say(init="dim=32, heads=4"), "context"),
    ],
)
def test_they_are_those_of_finite_differences(target: str, said: Said, role: str) -> None:
    code = adapted(target, said)
    question = draw_question(code.plan, code.parameters, Sizes(1, 3), name="small")
    found = gradients(code, question)
    assert found.trouble is None
    theirs = found.given[role]
    assert theirs is not None
    assert found.cotangent is not None
    step, index = 1e-5, (0,) * (question.given[role].ndim - 2) + (1, 2)
    totals = []
    for sign in (1, -1):
        moved = question.given[role].copy()
        moved[index] += sign * step
        again = {**question.given, role: moved}
        asked = ask(code.plan, code.parameters, again, name="moved", layout=question.layout)
        totals.append(float((reference(asked)[asked.stage] * found.cotangent).sum()))
    here = (
        theirs[1, 0, 2]
        if question.layout == "LBD"
        else theirs.reshape(question.given[role].shape)[index]
    )
    assert here == pytest.approx((totals[0] - totals[1]) / (2 * step), rel=1e-6)


def test_every_projection_is_reached() -> None:
    code = adapted("modules.py:Separate", say(init="32, 4"))
    question = draw_question(code.plan, code.parameters, Sizes(), name="plain")
    learned = gradients(code, question).learned
    assert set(learned) == {f"W_{m}.{part}" for m in "qkvo" for part in ("weight", "bias")}
    assert all(g is not None and np.isfinite(g).all() for g in learned.values())


def test_what_is_not_reached_has_none(tmp_path: Path) -> None:
    file = tmp_path / "cut.py"
    file.write_text(
        "import torch\n\n\ndef f(q, k, v):\n"
        "    p = torch.softmax(q @ k.detach().mT / q.shape[-1] ** 0.5, -1)\n    return p @ v\n",
        encoding="utf-8",
    )
    code = adapt(f"{file}:f", session=LocalSession())
    question = draw_question(code.plan, code.parameters, Sizes(), name="plain")
    given = gradients(code, question).given
    assert {role for role, gradient in given.items() if gradient is None} == {"k"}


def test_numpy_code_has_none_to_ask_for() -> None:
    code = adapted("functions.py:single_head_numpy")
    question = draw_question(code.plan, code.parameters, Sizes(), name="plain")
    with pytest.raises(UnsupportedError, match="gradients need PyTorch"):
        gradients(code, question)


def test_the_output_is_the_first_of_what_comes_back_without_a_name() -> None:
    code = adapted("functions.py:with_none_behind")
    question = draw_question(code.plan, code.parameters, Sizes(1, 3), name="small")
    found = gradients(code, question)
    assert found.trouble is None
    assert found.given["q"] is not None
