"""attn.plan/1: a plan as JSON objects, and what somebody said of one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attn_cli.diagnosis.fields import Fields, wrong
from attn_cli.diagnosis.plan import (
    ALIGNMENTS,
    DTYPES,
    INPUTS,
    KINDS,
    LAYOUTS,
    LIBRARIES,
    MASK_KINDS,
    RETURNS,
    ROPE_LAYOUTS,
    SCHEMA,
    WEIGHT_TYPES,
    Call,
    Init,
    Intent,
    MaskSpec,
    Plan,
    Rope,
    WeightsSpec,
)
from attn_cli.errors import InputError

CALL_FIELDS = tuple(f.name for f in dataclasses.fields(Call))
INTENT_FIELDS = tuple(f.name for f in dataclasses.fields(Intent))
LARGEST = 1_000_000  # bytes of a plan file
MOST = 4096  # heads, and numbers in one: every question has so many columns


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody said of a plan; what is not said is worked out from the code.

    `call` and `intent` are the fields that were there, checked. `mask_means` says what True in the
    mask means, whichever argument takes it: keep, hidden or additive; `mask_at` which argument that
    is, by its place or its name. `names` maps names of matrices to q, k, v, qkv, kv and o.
    `unknown` are fields that attn.plan/1 does not have.
    """

    call: Mapping[str, Any] = field(default_factory=dict)
    intent: Mapping[str, Any] = field(default_factory=dict)
    mask_means: str | None = None
    mask_at: int | str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def over(self, call: Mapping[str, Any], intent: Mapping[str, Any]) -> Plan:
        """The plan that has what was said, and the rest from `call` and `intent`."""
        return plan_of({**call, **self.call}, {**intent, **self.intent})


def read_plan(text: str | bytes) -> Said:
    """What a plan file says; InputError where it is no JSON, or a field is not what it must be."""
    if len(text) > LARGEST:
        raise InputError(f"the plan has {len(text)} bytes: expected at most {LARGEST}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"the plan is no JSON{where}") from None
    return said_of(value)


def said_of(value: object) -> Said:
    """What an object of attn.plan/1 says. `schema` may be left out."""
    top = Fields(value, "the plan")
    if (schema := top.get("schema")) not in (None, SCHEMA):
        raise wrong("the plan's schema", SCHEMA, schema)
    call, intent = top.get("call"), top.get("intent")
    if call is None and intent is None:
        raise InputError(
            "the plan has neither call nor intent", hint="docs/plan.md describes attn.plan/1"
        )
    call_fields = Fields({} if call is None else call, "call")
    intent_fields = Fields({} if intent is None else intent, "intent")
    _call(call_fields), _intent(intent_fields)
    unknown = (*top.unknown(), *call_fields.unknown(), *intent_fields.unknown())
    return Said(
        {name: v for name, v in call_fields.value.items() if name in CALL_FIELDS},
        {name: v for name, v in intent_fields.value.items() if name in INTENT_FIELDS},
        unknown=unknown,
    )


def plan_of(call: Mapping[str, Any], intent: Mapping[str, Any]) -> Plan:
    """The plan of two JSON objects. Call fields without which nothing can be called raise."""
    fields = Fields(call, "call")
    read = _call(fields)
    for name in ("kind", "lib", "inputs", "layouts", "lengths_may_differ", "returns"):
        if read.get(name) in (None, ()):
            raise InputError(f"call.{name} is missing", hint="docs/plan.md describes attn.plan/1")
    return Plan(Call(**read), Intent(**_intent(Fields(intent, "intent"))))


def to_json(plan: Plan) -> dict[str, Any]:
    """The plan as attn.plan/1: what `plan_of` reads back equal."""
    call = _without_nothing(dataclasses.asdict(plan.call))
    call.setdefault("mask", None)
    if plan.call.mask is not None:
        call["mask"] = _without_nothing(dataclasses.asdict(plan.call.mask))
    if plan.call.init is not None:
        call["init"] = init_json(plan.call.init)
    intent = _without_nothing(dataclasses.asdict(plan.intent))
    if plan.intent.weights is not None:
        spec = plan.intent.weights
        intent["weights"] = {"type": spec.type, **spec.names}
    return {"schema": SCHEMA, "call": call, "intent": intent}


def init_json(init: Init) -> dict[str, Any]:
    """How the code is built, as `call.init` of attn.plan/1."""
    return _without_nothing(dataclasses.asdict(init))


def _without_nothing(fields: Mapping[str, Any]) -> dict[str, Any]:
    kept = {}
    for name, value in fields.items():
        kept_false = name in ("lengths_may_differ", "widths_may_differ") and value is False
        if not kept_false and value in (None, False, {}, ()):
            continue
        kept[name] = list(value) if isinstance(value, tuple) else value
    return kept


def _call(fields: Fields) -> dict[str, Any]:
    layouts = fields.texts("layouts")
    returns = fields.texts("returns")
    inputs = fields.texts("inputs")
    for names, known, where in (
        (layouts, LAYOUTS, "call.layouts"),
        (returns, RETURNS, "call.returns"),
        (inputs and tuple(name.rpartition("=")[2] for name in inputs), INPUTS, "call.inputs"),
    ):
        for name in names or ():
            if name not in known:
                raise wrong(where, f"names among {', '.join(known)}", name)
    keys = fields.texts("keys")
    if keys is not None and returns is not None and len(keys) != len(returns):
        raise wrong("call.keys", f"{len(returns)} names, one for each of call.returns", keys)
    return {
        "kind": fields.one_of("kind", KINDS),
        "lib": fields.one_of("lib", LIBRARIES),
        "inputs": inputs or (),
        "layouts": layouts or (),
        "lengths_may_differ": fields.flag("lengths_may_differ"),
        "mask": _mask(fields.object("mask")),
        "returns": returns or (),
        "keys": keys,
        "init": _init(fields.object("init")),
        "dim": fields.count("dim", 1 << 16),
        "constants": fields.plain("constants"),
        "widths_may_differ": fields.flag("widths_may_differ"),
    }


def _mask(fields: Fields | None) -> MaskSpec | None:
    if fields is None:
        return None
    arg, kind = fields.text("arg"), fields.one_of("kind", tuple(MASK_KINDS))
    dtype = fields.one_of("dtype", DTYPES)
    if arg is None or kind is None or dtype is None:
        raise InputError("call.mask lacks one of arg, kind and dtype: a mask has all three")
    spec = MaskSpec(arg, kind, dtype, fields.flag("required") or False)
    if spec.means in ("additive", "bias") and dtype != "float":
        raise wrong("call.mask.dtype", f"float, for {kind} is added to the scores", dtype)
    return spec


def _init(fields: Fields | None) -> Init | None:
    if fields is None:
        return None
    args = fields.get("args")
    if args is not None and not isinstance(args, list | tuple):
        raise wrong("call.init.args", "a list", args)
    return Init(
        args=tuple(args or ()),
        kwargs=fields.plain("kwargs"),
        config_class=fields.text("config_class"),
        config=fields.plain("config"),
        config_attr=fields.text("config_attr"),
    )


def _intent(fields: Fields) -> dict[str, Any]:
    counts = {name: fields.count(name, MOST) for name in ("heads", "kv_heads", "head_dim")}
    counts |= {name: fields.count(name) for name in ("window", "context_dim")}
    numbers = {name: fields.number(name) for name in ("scale", "softcap", "dropout")}
    names = {name: fields.text(name) for name in ("sink", "positions", "cache_arg", "mask")}
    flags = {name: fields.flag(name) or False for name in ("causal", "alibi")}
    if (softcap := numbers["softcap"]) is not None and softcap <= 0:
        raise wrong("intent.softcap", "a positive number", softcap)
    return {
        **counts,
        **numbers,
        **names,
        **flags,
        "align": fields.one_of("align", ALIGNMENTS),
        "rope": _rope(fields),
        "weights": _weights(fields.object("weights")),
    }


def _rope(fields: Fields) -> Rope | None:
    if fields.get("rope") in (None, False):
        return None
    if fields.get("rope") is True:
        return Rope()
    rope = fields.object("rope")
    assert rope is not None
    base = rope.number("base")
    if base is not None and base <= 1:
        raise wrong("intent.rope.base", "a number above 1", base)
    return Rope(base or Rope().base, rope.one_of("layout", ROPE_LAYOUTS) or Rope().layout)


def _weights(fields: Fields | None) -> WeightsSpec | None:
    if fields is None:
        return None
    kind = fields.one_of("type", tuple(WEIGHT_TYPES))
    if kind is None:
        raise wrong("intent.weights.type", f"one of {', '.join(WEIGHT_TYPES)}", None)
    needed, allowed = WEIGHT_TYPES[kind]
    names = {name: fields.text(name) for name in (*needed, *allowed)}
    for name in needed:
        if names[name] is None:
            raise InputError(f"intent.weights.{name} is missing: {kind} needs {', '.join(needed)}")
    return WeightsSpec(kind, {name: value for name, value in names.items() if value is not None})
