"""attn.plan/1: what is read, what is refused and in which words, and the way back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from attn_cli.diagnosis.plan import Rope, WeightsSpec
from attn_cli.diagnosis.plan_json import plan_of, read_plan, said_of, to_json
from attn_cli.errors import InputError

CALL: dict[str, Any] = {
    "kind": "module",
    "lib": "torch",
    "init": {"kwargs": {"d_model": 32, "n_heads": 4}},
    "inputs": ["x", "memory=context"],
    "layouts": ["BLD"],
    "lengths_may_differ": True,
    "mask": {"arg": "mask", "kind": "keep_pad", "dtype": "int"},
    "returns": ["out", "weights"],
}
INTENT: dict[str, Any] = {
    "heads": 4,
    "causal": True,
    "rope": {"base": 500.0, "layout": "interleaved"},
    "weights": {"type": "separate", "q": "w_q", "k": "w_k", "v": "w_v", "o": "w_o"},
}


def test_a_plan_is_read() -> None:
    plan = plan_of(CALL, INTENT)
    assert plan.call.roles == ("x", "context")
    assert plan.call.init is not None
    assert plan.call.init.kwargs == {"d_model": 32, "n_heads": 4}
    assert plan.intent.rope == Rope(500.0, "interleaved")
    assert plan.intent.weights == WeightsSpec(
        "separate", {"q": "w_q", "k": "w_k", "v": "w_v", "o": "w_o"}
    )
    assert plan.intent.window is None


def test_what_is_written_is_read_back_equal() -> None:
    plan = plan_of(CALL, INTENT)
    text = json.dumps(to_json(plan))
    assert json.loads(text)["schema"] == "attn.plan/1"
    assert read_plan(text).over({}, {}) == plan


def test_what_is_not_said_is_left_open() -> None:
    said = said_of({"call": {"kind": "function"}, "intent": {"causal": True}})
    plan = said.over({**CALL, "causal": False}, {"heads": 2})
    assert plan.call.kind == "function"
    assert plan.call.lib == "torch"
    assert (plan.intent.heads, plan.intent.causal) == (2, True)


def test_a_null_mask_is_said_and_a_missing_one_is_not() -> None:
    assert said_of({"call": {"mask": None}}).over(CALL, {}).call.mask is None
    mask = said_of({"call": {}}).over(CALL, {}).call.mask
    assert mask is not None
    assert (mask.axes, mask.means) == ("BS", "keep")


def test_unknown_fields_are_named_wherever_they_are() -> None:
    said = said_of(
        {
            "call": {"layout": "BLD", "mask": {**CALL["mask"], "fill": 0}},
            "intent": {"rope": {"theta": 3}},
            "colour": 1,
        }
    )
    assert said.unknown == ("the plan.colour", "call.layout", "call.mask.fill", "intent.rope.theta")


@pytest.mark.parametrize(
    "text, message",
    [
        ("[1]", "the plan is [1]: expected an object"),
        ("{", "the plan is no JSON: Expecting property name"),
        ("[" * 100_000, "the plan is no JSON"),
        ("{}", "the plan has neither call nor intent"),
        ('{"schema": "attn.plan/2", "call": {}}', "the plan's schema is 'attn.plan/2'"),
        ('{"call": {"kind": "method"}}', "call.kind is 'method': expected one of function"),
        ('{"call": {"lib": 3}}', "call.lib is 3: expected a name"),
        ('{"call": {"layouts": ["BLX"]}}', "call.layouts is 'BLX': expected names among LD"),
        ('{"call": {"inputs": "q"}}', "call.inputs is 'q': expected a list of names"),
        ('{"call": {"inputs": ["q", "z"]}}', "call.inputs is 'z': expected names among q"),
        ('{"call": {"dim": 0}}', "call.dim is 0: expected a whole number from 1 to 65536"),
        (
            '{"intent": {"head_dim": 99999}}',
            "intent.head_dim is 99999: expected a whole number from 1 to 4096",
        ),
        ('{"call": {"dim": true}}', "call.dim is True: expected a whole number"),
        ('{"call": {"mask": {"arg": "m"}}}', "call.mask lacks one of arg, kind and dtype"),
        (
            '{"call": {"mask": {"arg": "m", "kind": "additive_tt", "dtype": "bool"}}}',
            "call.mask.dtype is 'bool': expected float",
        ),
        ('{"call": {"init": {"args": 3}}}', "call.init.args is 3: expected a list"),
        ('{"call": {"returns": ["out"], "keys": ["a", "b"]}}', "call.keys is ('a', 'b')"),
        ('{"intent": {"scale": "big"}}', "intent.scale is 'big': expected a number"),
        ('{"intent": {"scale": NaN}}', "intent.scale is nan: expected a finite number"),
        ('{"intent": {"softcap": -1}}', "intent.softcap is -1.0: expected a positive number"),
        ('{"intent": {"causal": 1}}', "intent.causal is 1: expected true or false"),
        ('{"intent": {"rope": {"base": 1}}}', "intent.rope.base is 1.0: expected a number above 1"),
        ('{"intent": {"weights": {"type": "wide"}}}', "intent.weights.type is 'wide'"),
        ('{"intent": {"weights": {"type": "fused"}}}', "intent.weights.qkv is missing"),
        ('{"intent": {"weights": {}}}', "intent.weights.type is None: expected one of separate"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_plan(text)
    assert caught.value.message.startswith(message)


def test_a_huge_plan_is_not_parsed() -> None:
    with pytest.raises(InputError, match="expected at most 1000000"):
        read_plan(" " * 2_000_000)


@pytest.mark.parametrize("field", ["kind", "lib", "inputs", "layouts", "returns"])
def test_nothing_can_be_called_without_these(field: str) -> None:
    with pytest.raises(InputError, match=f"call.{field} is missing"):
        plan_of({name: value for name, value in CALL.items() if name != field}, {})
