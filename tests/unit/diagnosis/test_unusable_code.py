"""Code that cannot be used: the step, the line, and what to do; and attn lives on."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from attn_cli.diagnosis.adapting import adapt, adapt_object
from attn_cli.diagnosis.asking import Sizes, draw_question
from attn_cli.diagnosis.host.results import tree
from attn_cli.diagnosis.host.session import ChildSession, LocalSession
from attn_cli.diagnosis.plan_json import Said, said_of
from attn_cli.diagnosis.saying import say
from attn_cli.diagnosis.unusable import Unusable
from attn_cli.errors import InputError

IMPLS = Path(__file__).parent / "impls"
PLAN = said_of(
    {
        "call": {
            "kind": "function",
            "lib": "torch",
            "inputs": ["q", "k", "v"],
            "layouts": ["BLD"],
            "lengths_may_differ": True,
            "mask": None,
            "returns": ["out"],
        }
    }
)

ARRAYS = dataclasses.replace(PLAN, call={**PLAN.call, "lib": "numpy"})


def refused(target: str, said: Said = Said()) -> Unusable:
    with pytest.raises(Unusable) as caught:
        adapt(target, said, session=LocalSession())
    return caught.value


@pytest.mark.parametrize(
    "name, step, line, words, hint",
    [
        ("raises", "call", 18, "fails when called by (q, k, v): line 18: ValueError: not", ""),
        ("leaves", "call", 22, "sys.exit was called with 3", ""),
        ("gives_nothing", "answer", None, "gives no answer when called by (q, k, v): it ret", ""),
        (
            "NeedsThings",
            "build",
            None,
            "cannot be built: the constructor needs tokenizer",
            "--init",
        ),
        ("a_number", "find", None, "cannot be used: a_number is an int", "broken.py has Needs"),
        ("rases", "find", None, "there is no rases", "did you mean raises? broken.py has"),
    ],
)
def test_the_step_is_named(name: str, step: str, line: int | None, words: str, hint: str) -> None:
    error = refused(f"{IMPLS}/broken.py:{name}")
    assert (error.trouble.step, error.trouble.line) == (step, line)
    assert words in error.message
    assert hint in error.hint


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("import math\ndef f(q:\n", 2, "SyntaxError: '(' was never closed"),
        ("\nimport nowhere_at_all\n", 2, "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("x = 1\n\nx / 0\n", 3, "ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit('usage: me')\n", 2, "sys.exit was called with usage: me"),
        ("raise KeyboardInterrupt\n", 1, "KeyboardInterrupt: no message"),
        ("from .other import f\n", 1, "ImportError: attempted relative import"),
    ],
)
def test_a_file_that_cannot_be_imported(tmp_path: Path, text: str, line: int, words: str) -> None:
    file = tmp_path / "their_code.py"
    file.write_text(text, encoding="utf-8")
    error = refused(f"{file}:f")
    assert error.trouble.step == "import"
    assert error.trouble.line == line
    assert f"cannot be imported: line {line}: {words}" in error.message
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    "target, words",
    [
        ("code.py", "code.py names no function or class: expected FILE.py:NAME"),
        ("nowhere.py:f", "there is no file nowhere.py"),
        ("not a module:f", "not a module is neither a file nor the name of a module"),
        (":f", ":f names no function or class"),
    ],
)
def test_what_leads_nowhere(target: str, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        adapt(target, session=LocalSession())


def test_names_that_tell_nothing_are_asked_for() -> None:
    with pytest.raises(InputError, match="what is first") as caught:
        adapt(f"{IMPLS}/broken.py:unclear", session=LocalSession())
    assert "--call" in caught.value.hint
    with pytest.raises(InputError, match="which matrix is q, k, v") as caught:
        adapt(f"{IMPLS}/modules.py:Nameless", say(init="24, 3"), session=LocalSession())
    assert caught.value.hint.startswith('say --map "first=q,second=k,third=v,last=o"')


def test_an_unclear_mask_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "unclear.py"
    file.write_text(
        "import numpy as np\n\n\ndef f(q, k, v, mask=None):\n"
        "    s = q @ k.T if mask is None else np.where(mask, q @ k.T, -1e9)\n"
        "    e = np.exp(s / q.shape[1] ** 0.5)\n    return e / e.sum(1, keepdims=True) @ v\n",
        encoding="utf-8",
    )
    with pytest.raises(InputError, match="does True in mask mean may attend") as caught:
        adapt(f"{file}:f", session=LocalSession())
    assert "--mask-means" in caught.value.hint
    code = adapt(f"{file}:f", say(mask_means="keep"), session=LocalSession())
    assert code.plan.call.mask is not None
    assert code.plan.call.mask.kind == "keep_pair"


def test_an_object_without_a_file_is_asked_in_this_process() -> None:
    def mine(q, k, v):  # type: ignore[no-untyped-def]
        return q @ k.T @ v

    code = adapt_object(mine, PLAN, name="mine")
    question = draw_question(code.plan, code.parameters, Sizes(), name="plain")
    assert code.attend(question).trouble is not None  # k.T turns all axes of a batch


@pytest.fixture(scope="module")
def process() -> Iterator[ChildSession]:
    """One process for the tests that need one; it starts again where the code ends it."""
    with ChildSession() as session:
        yield session


@pytest.mark.parametrize(
    "name, words",
    [
        ("dies", "it ended the process with code 7"),
        ("never_ends", "line 17: it was still running after 1 seconds"),
        ("crashes", "line 23: it ended the process by signal 11"),
        ("breaks_the_pipe", "it broke the pipe through which attn talks to it"),
    ],
)
def test_what_ends_the_process_is_a_report(process: ChildSession, name: str, words: str) -> None:
    process.close()
    with pytest.raises(Unusable) as caught:
        adapt(f"{IMPLS}/endless.py:{name}", ARRAYS, session=process, limit=1.0)
    assert caught.value.trouble.step == "call"
    assert words in caught.value.message
    assert ("about to go" in caught.value.printed) == (name == "dies")


def test_code_that_forks_answers_once_and_leaves_nothing_behind(process: ChildSession) -> None:
    process.close()
    code = adapt(f"{IMPLS}/endless.py:forks", ARRAYS, session=process)
    question = draw_question(code.plan, code.parameters, Sizes(), name="plain")
    answers = [code.attend(question) for _ in range(3)]
    assert [answer.trouble for answer in answers] == [None] * 3
    assert process.process is not None
    group = process.process.pid
    process.close()
    for _ in range(100):  # the killed ones are gone when the system has noticed
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("a process of the code lives on")


def test_an_exception_that_cannot_be_read_is_a_report() -> None:
    error = refused(f"{IMPLS}/endless.py:raises_what_cannot_be_read", ARRAYS)
    assert "Unreadable: its message cannot be read: __str__ raises ValueError" in error.message


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda t: t.to_sparse(), "tensor that is sparse (sparse_coo)"),
        (lambda t: t.to("meta"), "tensor without numbers (device meta)"),
        (lambda t: t[:1].expand(10**9, 2), "tensor of 2000000000 numbers"),
    ],
)
def test_a_tensor_whose_numbers_cannot_be_taken_is_named(make: Any, words: str) -> None:
    assert tree(make(torch.ones(2, 2))) == {"t": "other", "type": words}


def test_what_is_printed_and_changed_is_told(process: ChildSession) -> None:
    process.close()
    code = adapt(f"{IMPLS}/endless.py:talks", ARRAYS, session=process)
    question = draw_question(code.plan, code.parameters, Sizes(), name="plain")
    observed = code.attend(question)
    assert observed.printed == "shape (2, 5, 8)\nwarning\n"
    assert observed.mutated == ("q",)
    assert observed.trouble is None
