"""Completing: what was said of a plan, and the rest worked out, tried on the code itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attn_cli.core.findings import Finding, note
from attn_cli.diagnosis.asking import Sizes
from attn_cli.diagnosis.drawing import Parameters
from attn_cli.diagnosis.host.session import LIMIT, Session
from attn_cli.diagnosis.host.trouble import Trouble
from attn_cli.diagnosis.infer.constructor import Construction, NeedsArguments, construct
from attn_cli.diagnosis.infer.intent import heads_of, read_intent, settings_of
from attn_cli.diagnosis.infer.layouts import layouts_to_try
from attn_cli.diagnosis.infer.masks import add_mask
from attn_cli.diagnosis.infer.names import FORWARD, word
from attn_cli.diagnosis.infer.projections import find_projections
from attn_cli.diagnosis.infer.signature import Signature, read_signature
from attn_cli.diagnosis.infer.source import Source, read_source
from attn_cli.diagnosis.infer.trials import EQUAL, QUERIES, Trials, with_call
from attn_cli.diagnosis.plan import Plan, WeightsSpec
from attn_cli.diagnosis.plan_json import Said, to_json
from attn_cli.diagnosis.subject import Built, Numbers, build, init_json, left_out, set_numbers
from attn_cli.diagnosis.unusable import Unusable
from attn_cli.errors import InputError

_FULL = ("kind", "lib", "inputs", "layouts", "lengths_may_differ", "mask", "returns")

# What a second call would meet again, each time at the cost of a new process.
_LAST = ("time", "died", "exit")


@dataclass(frozen=True, slots=True)
class Completed:
    """A plan that the code has answered a first call by, the numbers in it, and what was chosen."""

    plan: Plan
    parameters: Parameters
    numbers: Numbers
    findings: tuple[Finding, ...]


def complete(
    session: Session,
    facts: Mapping[str, Any],
    said: Said,
    *,
    name: str,
    seed: int = 0,
    limit: float = LIMIT,
) -> Completed:
    """The plan: as said where all of `call` is said, else completed from the code.

    Raises Unusable where the code cannot be built, or raises whatever it is given; InputError
    where something must be said first.
    """
    if all(field in said.call for field in _FULL):
        return _as_said(session, said, name, seed, limit)
    return _Completing(session, facts, said, name, seed, limit).run()


def _as_said(session: Session, said: Said, name: str, seed: int, limit: float) -> Completed:
    plan = said.over({}, {})
    built = Built({}) if plan.call.kind == "function" else build(session, init_json(plan), name)
    parameters, numbers = set_numbers(session, plan, built, seed=seed)
    trials = Trials(session, parameters, limit)
    trouble = _first_call(trials, plan)
    if trouble is not None:
        raise Unusable(name, trouble, tried=tried(plan))
    return Completed(_widths(plan, trials), parameters, numbers, left_out(built, numbers))


def _widths(plan: Plan, trials: Trials) -> Plan:
    """Whether values may be wider than keys: tried, where no layer fixes them."""
    if plan.call.widths_may_differ is not None or trials.parameters.projections is not None:
        return plan
    if "v" not in plan.call.roles:
        return plan
    return with_call(plan, widths_may_differ=trials.widths_may_differ(plan) is None)


def _first_call(trials: Trials, plan: Plan) -> Trouble | None:
    """The trouble of a plain question, None where some plain question has an answer of an array.

    Code that transposes all axes runs only where all sizes are equal; it is wrong, not unusable.
    """
    first: Trouble | None = None
    needs_mask = plan.call.mask is not None
    for sizes in (Sizes(), Sizes(batch=1, queries=1), EQUAL):
        for layout in plan.call.layouts:
            for masked in (False, True) if needs_mask else (False,):
                question = trials.question(plan, layout, sizes=sizes, masked=masked)
                trouble = trials.fits(plan, question)
                if trouble is None or trouble.kind == "shape":
                    return None
                if trouble.kind in _LAST:
                    return trouble
                first = first or trouble
    return first


def tried(plan: Plan) -> str:
    """The call in words: attention(q, k, v, mask=…)."""
    mask = [] if plan.call.mask is None else [f"{plan.call.mask.arg}=…"]
    return f"({', '.join([*plan.call.inputs, *mask])})"


class _Completing:
    """The steps from facts to a plan; each uses what the steps before found."""

    def __init__(
        self,
        session: Session,
        facts: Mapping[str, Any],
        said: Said,
        name: str,
        seed: int,
        limit: float,
    ) -> None:
        self.session, self.facts, self.said = session, facts, said
        self.name, self.seed, self.limit = name, seed, limit
        self.source: Source = read_source(dict(facts))
        self.findings: list[Finding] = []

    def run(self) -> Completed:
        construction, built = self._build()
        tensors = built.tensors
        spec = self._spec(built)
        settings = settings_of(construction.words, built.settings)
        heads, kv_heads = heads_of(settings, spec, tensors)
        heads = self.said.intent.get("heads", heads)
        parameters = built.parameters or self.facts["call"]
        signature = self._signature(parameters, spec, heads)
        if spec is None and any("w_" in entry for entry in signature.inputs):
            spec = WeightsSpec("arguments")
        intent, why = read_intent(
            self.source,
            settings,
            tensors,
            name=self.facts["name"],
            causal=signature.causal,
        )
        self.findings += why
        if heads is None and any(signature.constants):
            heads = next((v for v in signature.constants.values() if isinstance(v, int)), None)
        intent |= {"heads": heads, "kv_heads": kv_heads, "cache_arg": signature.cache}
        if spec is not None:
            intent["weights"] = {"type": spec.type, **spec.names}
        return self._try(construction, built, signature, intent)

    def _build(self) -> tuple[Construction, Built]:
        try:
            construction = construct(self.facts, self.said.call.get("init"), self.source)
        except NeedsArguments as error:
            trouble = Trouble("build", "arguments", error.message)
            raise Unusable(self.name, trouble, hint=error.hint) from None
        rest = {name: v for name, v in self.said.call.items() if name != "init"}
        self.said = dataclasses.replace(self.said, call=rest)  # construction.init has it
        if construction.guessed:
            init = construction.init or {}
            values = {**init.get("kwargs", {}), **init.get("config", {})}
            shown = ", ".join(f"{n}={values[n]!r}" for n in construction.guessed)
            self.findings.append(note("plan-init", f"built with {shown}, for nothing was said"))
        if construction.init is None and self.facts["kind"] == "function":
            return construction, Built({}, kind="function")
        return construction, build(self.session, construction.init, self.name)

    def _spec(self, built: Built) -> WeightsSpec | None:
        if "weights" in self.said.intent:
            return self.said.over(_PLACEHOLDER, {}).intent.weights
        spec = find_projections(built.tensors, self.said.names, self.source)
        if spec is not None and spec.names.get("q", "").endswith(".0") and not self.said.names:
            names = ", ".join(spec.names.values())
            self.findings.append(note("plan-map", f"{names} are taken for q, k, v and o in turn"))
        return spec

    def _signature(
        self, parameters: Sequence[Mapping[str, Any]], spec: WeightsSpec | None, heads: int | None
    ) -> Signature:
        if "inputs" in self.said.call:
            return self._said_signature(parameters)
        return read_signature(parameters, has_weights=spec is not None, heads=heads)

    def _said_signature(self, parameters: Sequence[Mapping[str, Any]]) -> Signature:
        """What --call says; a mask only where it says one, by its place or its name."""
        at = self.said.mask_at
        names = [p["name"] for p in parameters]
        if isinstance(at, int):
            if at >= len(names):
                raise InputError(
                    f"--call says a mask at place {at}, and the parameters are {', '.join(names)}"
                )
            at = names[at]
        caches = [n for n in names if word(n, FORWARD) == "cache"]
        return Signature(
            tuple(self.said.call["inputs"]),
            masks=() if at is None else (at,),
            cache=caches[0] if caches else None,
            constants=self.said.call.get("constants", {}),
            mask_required=any(p["required"] for p in parameters if p["name"] == at),
        )

    def _try(
        self,
        construction: Construction,
        built: Built,
        signature: Signature,
        intent: dict[str, Any],
    ) -> Completed:
        """Calls the code: for its layout, what it returns, its mask, and its lengths."""
        libs = self._libraries(built)
        troubles: dict[str, Trouble] = {}
        for lib in libs:
            call = self._call(construction, built, signature, lib)
            plan = self.said.over(call, intent)
            parameters, numbers = set_numbers(self.session, plan, built, seed=self.seed)
            trials = Trials(self.session, parameters, self.limit)
            found, trouble = self._layouts(plan, trials, built, signature)
            if found is not None:
                self.findings += left_out(built, numbers)
                return self._finish(found, trials, signature, numbers)
            assert trouble is not None
            troubles[lib] = trouble
            if trouble.kind in _LAST:
                break
        # Lists are but a guess where the file uses a library: what is said of them is no news.
        told = [lib for lib in troubles if lib in self.facts["uses"]] or list(troubles)
        raise Unusable(self.name, troubles[told[0]], tried=tried(plan))

    def _call(
        self, construction: Construction, built: Built, signature: Signature, lib: str
    ) -> dict[str, Any]:
        kind = {"function": "function", "module": "module"}.get(built.kind, "object")
        return {
            "kind": kind,
            "lib": lib,
            "inputs": list(signature.inputs),
            "layouts": ["BLD"],
            "lengths_may_differ": False,
            "mask": None,
            "returns": ["out"],
            "init": construction.init,
            "constants": dict(signature.constants),
        }

    def _libraries(self, built: Built) -> tuple[str, ...]:
        """Which arrays the code wants: by what its text uses, the others after it."""
        if "lib" in self.said.call:
            return (self.said.call["lib"],)
        if built.kind == "module":
            return ("torch",)
        words = self.source.identifiers()
        used = [
            lib
            for lib, names in (("torch", ("torch", "nn", "f")), ("numpy", ("np", "numpy")))
            if words & set(names) and lib in self.facts["uses"]
        ]
        # Text that names no library may be for lists; what is for tensors fails on them at once.
        order = [*used, *self.facts["uses"], "list"] if used else ["list", *self.facts["uses"]]
        return tuple(dict.fromkeys([*order, "numpy"]))

    def _layouts(
        self, plan: Plan, trials: Trials, built: Built, signature: Signature
    ) -> tuple[Plan | None, Trouble | None]:
        """The plan with the layouts that work and what comes back in them."""
        names = [p["name"] for p in built.parameters or self.facts["call"]]
        choices, every = layouts_to_try(
            self.source,
            names,
            separate=plan.call.separate,
            lib=plan.call.lib,
            tensors=built.tensors,
            batch_first=built.settings.get("batch_first"),
        )
        if "layouts" in self.said.call:
            choices, every = tuple(self.said.call["layouts"]), True
        works: list[Plan] = []
        first: Trouble | None = None
        loose: Plan | None = None
        for layout in dict.fromkeys(choices):
            tried_plan = self._masked_if_needed(plan, signature, layout)
            masked = tried_plan.call.mask is not None
            found, trouble = trials.returns(tried_plan, layout, masked=masked)
            if trouble is not None and trouble.step == "call" and layout == choices[0]:
                found, trouble = self._equal(tried_plan, layout, trials, every, trouble)
            if found is not None and trouble is None:
                works.append(found)
                if not every:
                    break
            else:
                first = first or trouble
                loose = loose or found
                if trouble is not None and trouble.kind in _LAST:
                    break
        if works:
            layouts = tuple(w.call.layouts[0] for w in works)
            return with_call(works[0], layouts=layouts, mask=plan.call.mask), None
        if loose is not None and first is not None and first.kind == "shape":
            return with_call(loose, mask=plan.call.mask), None
        return None, first

    def _equal(
        self, plan: Plan, layout: str, trials: Trials, every: bool, trouble: Trouble
    ) -> tuple[Plan | None, Trouble | None]:
        """A documented layout in which the code runs only where all sizes are equal is kept."""
        if every or trouble.kind in _LAST:
            return None, trouble
        found, again = trials.returns(plan, layout, sizes=EQUAL)
        if found is None or again is not None:
            return None, trouble
        where = f" on line {trouble.line}" if trouble.line else ""
        message = f"other sizes than equal ones: {trouble.kind}{where}: {trouble.message}"
        self.findings.append(note("sizes-raise", message))
        return found, None

    def _masked_if_needed(self, plan: Plan, signature: Signature, layout: str) -> Plan:
        """Code that cannot be called without its mask gets None for it in the first calls."""
        if not signature.mask_required or plan.call.mask is not None:
            return plan
        constants = {**plan.call.constants, signature.masks[0]: None}
        return with_call(plan, constants=constants)

    def _finish(
        self, plan: Plan, trials: Trials, signature: Signature, numbers: Numbers
    ) -> Completed:
        parameters = trials.parameters
        plan = trials.flags(plan, signature.optional_flags)
        if signature.mask_required:
            kept = {n: v for n, v in plan.call.constants.items() if n != signature.masks[0]}
            plan = with_call(plan, constants=kept)
        if "mask" not in self.said.call:
            plan, findings = add_mask(plan, signature, self.source, trials, self.said.mask_means)
            self.findings += findings
        if "lengths_may_differ" not in self.said.call:
            plan = self._lengths(plan, trials)
        plan = _widths(plan, trials)
        call = to_json(plan)["call"] | {"dim": _dim(parameters)}
        if "cache" not in plan.call.returns:
            plan = self.said.over(call, to_json(plan)["intent"] | {"cache_arg": None})
        else:
            plan = self.said.over(call, to_json(plan)["intent"])
        return Completed(plan, parameters, numbers, tuple(self.findings))

    def _lengths(self, plan: Plan, trials: Trials) -> Plan:
        """Whether there may be more keys than queries: tried, where nothing compares positions."""
        two = plan.call.separate or "context" in plan.call.roles
        if not two:
            return plan
        compares = plan.intent.causal or plan.intent.window is not None or plan.intent.mask
        if compares and plan.intent.align is None:
            message = "as many keys as queries: how they line up is not said (--align)"
            self.findings.append(note("plan-lengths", message))
            return plan
        trouble = trials.lengths_may_differ(plan)
        if trouble is None:
            return with_call(plan, lengths_may_differ=True)
        where = f" on line {trouble.line}" if trouble.line else ""
        message = f"{QUERIES} queries and more keys: {trouble.kind}{where}: {trouble.message}"
        self.findings.append(note("lengths-raise", message))
        return plan


_PLACEHOLDER = {
    "kind": "function",
    "lib": "torch",
    "inputs": ["q"],
    "layouts": ["BLD"],
    "lengths_may_differ": False,
    "returns": ["out"],
}


def _dim(parameters: Parameters) -> int | None:
    layer = parameters.projections
    return None if layer is None else len(layer.w_q)
