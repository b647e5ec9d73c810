"""Which line of hand-written code is which stage, and which line parts from the reference."""

from __future__ import annotations

import builtins
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attn_cli
from attn_cli.core.code_trace import CodeTrace, Operation
from attn_cli.diagnosis.adapting import adapt, adapt_object
from attn_cli.diagnosis.arguments import call_of
from attn_cli.diagnosis.asking import Sizes, draw_question
from attn_cli.diagnosis.host.session import LocalSession
from attn_cli.diagnosis.plan_json import Said, said_of
from attn_cli.diagnosis.question import Question
from attn_cli.diagnosis.saying import say
from attn_cli.diagnosis.subject import Adapted, argument_matrices, init_json
from attn_cli.diagnosis.trace.instrument import SAW
from attn_cli.diagnosis.trace.swap import is_users
from attn_cli.diagnosis.trace.traced import traced

IMPLS = Path(__file__).parents[1] / "impls" / "lines.py"
LAYER = "d_model=24,n_heads=3"

# What the lines that begin so are; lines that are not named may be anything.
RIGHT: dict[str, dict[str, str | None]] = {
    "plain": {
        "scores =": "scores",
        "scaled = scores": "scaled scores",
        "scaled = scaled.masked_fill": "masked scores",
        "weights =": "weights",
        "return": "context",
    },
    "in_place": {
        "s = torch.einsum": "scores",
        "s *=": "scaled scores",
        "s.masked_fill_": "masked scores",
        "s -=": "masked scores less their maximum",
        "s.exp_()": "exp of the masked scores",
        "s /=": "weights",
        "return": "context",
    },
    "one_call": {"out =": "context"},
    "numpy_steps": {
        "logits = q.dot": "scores",
        "logits /=": "scaled scores",
        "peak =": "row maximum",
        "powers =": "exp of the scaled scores",
        "probs =": "weights",
        "return": "context",
    },
    "numpy_rows": {
        "row =": "scaled scores",
        "e =": "exp of the scaled scores",
        "out[i] =": "context",
    },
    "no_library": {
        "s =": "scaled scores",
        "e =": "exp of the scaled scores",
        "w =": "weights",
        "result.append": "context",
    },
    "tiles": {"tile =": "scaled scores", "parts.append": "context", "return": "context"},
    "Layer": {
        "return t.view": "q, k, v",
        "q =": "q",
        "k =": "k",
        "v =": "v",
        "p =": "weights",
        "z = (p @ v)": "context",
        "z = z.view": "merged heads",
        "return self.o_proj": "output",
    },
    "HeadByHead": {
        "q, k, v =": "q, k, v",
        "dots =": "scaled scores",
        "attn =": "weights",
        "outs.append": "context",
        "return self.o_proj": "output",
    },
    "Fused": {
        "qkv =": "q, k, v",
        "q, k, v =": "q, k, v",
        "q = q *": "q × scale",
        "attn =": "weights",
        "return": "output",
    },
    "Library": {"out, _ =": "output"},
}

# Where wrong code parts: the beginning of the line, the stage, why, and part of the evidence.
WRONG: dict[str, tuple[str, str | None, str, str]] = {
    "unscaled": ("weights =", "weights", "values", "they are the softmax of the scores"),
    "over_queries": ("weights =", "weights", "values", "they sum to 1 over query, not over key"),
    "keys_as_values": ("return weights @ k", "context", "values", "values differ"),
    "one_key_short": ("row =", "scores", "values", "without the last key"),
    "ViewedHeads": ("return t.view(t.shape[0]", "q", "arrangement", "mixes its axes"),
    "Unmerged": ("z = z.reshape", "merged", "arrangement", "mixes its axes"),
    "NoOutput": ("return F.scaled", "output", "values", "what is returned is merged heads"),
    "NotContiguous": ("z = z.view", None, "raises", "strides (120, 8, 40, 1)"),
    "raises_at_once": ("raise ValueError", None, "raises", "ValueError: not done"),
    "halved": ("s = (q.half()", "scores", "precision", "computed in float16"),
}


@cache
def adapted(name: str) -> Adapted:
    """Each piece of code once, in this process."""
    said = Said()
    if name[0].isupper():
        takes = {"Fused": "dim=24,num_heads=3", "Library": "embed_dim=24,num_heads=3"}
        said = say(init=takes.get(name, LAYER))
    return adapt(f"{IMPLS}:{name}", said, session=LocalSession())


def question_for(code: Adapted) -> Question:
    """Queries and keys of different lengths where the code takes them, under a mask."""
    call = code.plan.call
    sizes = Sizes(queries=5, keys=7 if call.lengths_may_differ else None)
    layout = next((one for one in ("BHLD", "BLD", "LD") if one in call.layouts), call.layouts[0])
    return draw_question(
        code.plan, code.parameters, sizes, name="q", masked=call.mask is not None, layout=layout
    )


@pytest.fixture(scope="module")
def traces() -> dict[str, CodeTrace]:
    """Filled by `trace_of`, so that every piece of code is asked once."""
    return {}


def trace_of(name: str, traces: dict[str, CodeTrace]) -> CodeTrace:
    if name not in traces:
        if name in ("NotContiguous", "raises_at_once"):
            traces[name] = _of_code_that_raises(name)
        else:
            code = adapted(name)
            traces[name] = traced(code, question_for(code))
    return traces[name]


def _of_code_that_raises(name: str) -> CodeTrace:
    """Nothing can be found out by calling such code: its plan is that of its right sibling."""
    right = adapted("Layer" if name[0].isupper() else "one_call")
    session = LocalSession()
    session.ask({"op": "load", "file": str(IMPLS), "name": name})
    session.ask({"op": "set", "values": dict(right.numbers.values)})
    return traced(replace(right, session=session), question_for(right))


def line_that_begins(trace: CodeTrace, text: str) -> Any:
    found = [line for line in trace.lines if line.source.startswith(text)]
    assert found, f"no line begins with {text}: {[line.source for line in trace.lines]}"
    return found[0]


def operation(trace: CodeTrace, source: str) -> Operation:
    return next(o for line in trace.lines for o in line.operations if o.source == source)


@pytest.mark.parametrize("name", RIGHT)
def test_lines_of_right_code_are_stages(name: str, traces: dict[str, CodeTrace]) -> None:
    trace = trace_of(name, traces)
    assert trace.output_agrees
    assert trace.first_parting is None
    labels = {text: line_that_begins(trace, text).label for text in RIGHT[name]}
    assert labels == RIGHT[name]
    assert not [line for line in trace.lines if line.agrees is False]


@pytest.mark.parametrize("name", WRONG)
def test_wrong_code_parts_on_the_line_of_its_mistake(
    name: str, traces: dict[str, CodeTrace]
) -> None:
    begins, stage, why, evidence = WRONG[name]
    trace = trace_of(name, traces)
    parting = trace.first_parting
    assert parting is not None
    assert parting.source.startswith(begins)
    assert (parting.stage, parting.why) == (stage, why)
    assert evidence in parting.detail
    assert parting.line == line_that_begins(trace, begins).line


def test_a_line_that_parts_says_what_it_should_be(traces: dict[str, CodeTrace]) -> None:
    trace = trace_of("over_queries", traces)
    weights = line_that_begins(trace, "weights =")
    assert (weights.should_be, weights.agrees, weights.label) == ("weights", False, None)
    assert line_that_begins(trace, "energy =").agrees
    assert line_that_begins(trace, "return").should_be == "context"


def test_the_inner_expressions_of_a_line_have_labels_of_their_own(
    traces: dict[str, CodeTrace],
) -> None:
    trace = trace_of("Layer", traces)
    assert operation(trace, "q @ k.transpose(-2, -1)").stages == ("scores",)
    whole = operation(trace, "q @ k.transpose(-2, -1) / q.size(-1) ** 0.5")
    assert (whole.name, whole.stages, whole.outer) == ("/", ("scaled",), False)
    assert operation(trace, "self.q_proj(x)").name == "Linear"
    assert operation(trace, "self.split(self.q_proj(x))").own


def test_strides_copies_and_views_are_told(traces: dict[str, CodeTrace]) -> None:
    trace = trace_of("Layer", traces)  # batch 2, 5 tokens, 3 heads of 8
    turned = operation(trace, "(p @ v).transpose(1, 2)")
    assert (turned.shape, turned.strides) == ((2, 5, 3, 8), (120, 8, 40, 1))
    assert (turned.contiguous, turned.copied) == (False, False)
    assert turned.axes == ("batch", "query", "head", "d_v")
    made = operation(trace, "(p @ v).transpose(1, 2).contiguous()")
    assert (made.strides, made.contiguous, made.copied) == ((120, 24, 8, 1), True, True)
    assert made.before is not None
    assert made.before.strides == (120, 8, 40, 1)


def test_strides_of_numpy_are_in_elements(traces: dict[str, CodeTrace]) -> None:
    turned = operation(trace_of("numpy_steps", traces), "k.T")
    assert (turned.shape, turned.strides, turned.dtype) == ((8, 7), (1, 8), "float64")
    assert (turned.contiguous, turned.copied) == (False, False)


def test_a_loop_is_one_line_with_a_count(traces: dict[str, CodeTrace]) -> None:
    line = line_that_begins(trace_of("HeadByHead", traces), "dots =")
    assert (line.count, line.operations[-1].shape) == (3, (2, 5, 5))


def test_axes_of_a_run_are_its_own(traces: dict[str, CodeTrace]) -> None:
    trace = trace_of("no_library", traces)
    assert line_that_begins(trace, "w =").operations[-1].axes == ("key",)
    assert line_that_begins(trace, "w =").count == 5
    trace = trace_of("HeadByHead", traces)
    assert operation(trace, "dots.softmax(-1)").axes == ("batch", "query", "key")


def test_what_was_done_before_an_exception_is_told(traces: dict[str, CodeTrace]) -> None:
    trace = trace_of("NotContiguous", traces)
    assert trace.output_agrees is None
    assert line_that_begins(trace, "z = (p @ v)").label == "context"
    (raised,) = [o for line in trace.lines for o in line.operations if o.raised]
    assert (raised.name, raised.layout) == ("view", None)
    assert raised.before is not None
    assert (raised.before.strides, raised.before.contiguous) == ((120, 8, 40, 1), False)


def test_a_line_that_raises_at_once_is_a_line(traces: dict[str, CodeTrace]) -> None:
    trace = trace_of("raises_at_once", traces)
    assert trace.lines[-1].source == 'raise ValueError("not done")'
    assert line_that_begins(trace, "scores =").label == "scores"


def test_line_of_a_stage(traces: dict[str, CodeTrace]) -> None:
    trace = trace_of("over_queries", traces)
    scores, weights = trace.line_of("scores"), trace.line_of("weights")
    assert scores is not None
    assert scores.source.startswith("energy =")
    assert weights is not None
    assert weights.source.startswith("weights =")
    assert trace.line_of("output") is None


def request(code: Adapted, op: str) -> dict[str, Any]:
    matrices = argument_matrices(code.plan, code.parameters)
    call = call_of(code.plan, question_for(code), dtype="float64", weights=matrices)
    return {
        "op": op,
        "calls": [call],
        "lib": code.plan.call.lib,
        "dtype": "float64",
        "init": init_json(code.plan),
    }


@pytest.mark.parametrize("name", [*RIGHT, "halved", "ViewedHeads"])
def test_observation_changes_no_bit(name: str) -> None:
    code = adapted(name)
    plain = code.session.ask(request(code, "call"))["ok"]
    watched = code.session.ask(request(code, "trace"))["ok"]["answer"]["ok"]
    again = code.session.ask(request(code, "call"))["ok"]
    for other in (watched, again):
        np.testing.assert_equal(_without_time(other), _without_time(plain))


def _without_time(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**call, "seconds": 0} for call in calls]


def test_functions_have_their_own_code_again_afterwards() -> None:
    code = adapted("Layer")
    session = code.session
    assert isinstance(session, LocalSession)
    forward = session.worker.target.forward
    before = forward.__code__
    session.ask(request(code, "trace"))
    assert forward.__code__ is before
    assert not hasattr(builtins, SAW)


def test_the_same_is_seen_in_a_process_of_its_own(traces: dict[str, CodeTrace]) -> None:
    with adapt(f"{IMPLS}:numpy_steps") as code:
        trace = traced(code, question_for(code))
    assert trace.to_dict() == trace_of("numpy_steps", traces).to_dict()


def test_an_object_of_this_process_is_traced() -> None:
    def mine(q, k, v):  # type: ignore[no-untyped-def]
        """q, k, v: (tokens, dim), NumPy"""
        p = np.exp(q @ k.T / np.sqrt(q.shape[1]))
        return p / p.sum(1, keepdims=True) @ v

    with adapt_object(mine, name="mine") as code:
        trace = traced(code, question_for(code))
    assert trace.output_agrees
    assert line_that_begins(trace, "return p").label == "context"
    assert operation(trace, "p / p.sum(1, keepdims=True)").stages == ("weights",)


def test_code_without_source_is_said_to_be_unseen() -> None:
    namespace: dict[str, Any] = {"np": np}
    text = "def f(q, k, v):\n    p = np.exp(q @ k.T / 8**0.5)\n    return p / p.sum(1)[:, None] @ v"
    exec(text, namespace)
    said = said_of({"call": PLAIN_CALL})
    with adapt_object(namespace["f"], said, name="f") as code:
        trace = traced(code, question_for(code))
    assert trace.output_agrees
    assert trace.lines == ()
    assert trace.notes == (
        "no line was seen: the source of the code cannot be read, or it is compiled",
    )


PLAIN_CALL = {
    "kind": "function",
    "lib": "numpy",
    "inputs": ["q", "k", "v"],
    "layouts": ["LD"],
    "lengths_may_differ": True,
    "returns": ["out"],
}


@pytest.mark.parametrize(
    ("name", "users"),
    [
        ("/home/me/mine.py", True),
        ("/home/me/parts/layers.py", True),
        ("/home/meow/other.py", False),
        ("/home/me/venv/lib/python3/site-packages/torch/nn.py", False),
        (traced.__code__.co_filename, False),
        ("<string>", False),
    ],
)
def test_which_files_are_the_users(name: str, users: bool) -> None:
    assert is_users(name, "/home/me/mine.py") is users


def test_attn_does_not_watch_itself() -> None:
    below = str(Path(attn_cli.__file__).parents[1] / "mine.py")
    assert not is_users(traced.__code__.co_filename, below)


def test_json_is_plain(traces: dict[str, CodeTrace]) -> None:
    for name in ("over_queries", "NotContiguous", "in_place", "no_library"):
        told = trace_of(name, traces).to_dict()
        assert json.loads(json.dumps(told, allow_nan=False)) == told
        assert {"line", "source", "label", "stage", "agrees", "operations"} <= set(told["lines"][0])
