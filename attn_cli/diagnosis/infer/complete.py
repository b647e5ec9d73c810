"""Completing: what was said of a plan, and the rest worked out, tried on the code itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from attn_cli.core.findings import Finding, note
from attn_cli.diagnosis.allowance import TRIALS, Allowance, TimeUp
from attn_cli.diagnosis.asking import Sizes
from attn_cli.diagnosis.drawing import Parameters
from attn_cli.diagnosis.host.session import LIMIT, Session
from attn_cli.diagnosis.host.trouble import Trouble
from attn_cli.diagnosis.infer import documents
from attn_cli.diagnosis.infer.as_said import Completed, as_said, tried, widths
from attn_cli.diagnosis.infer.constructor import Construction, NeedsArguments, construct
from attn_cli.diagnosis.infer.influence import looks_back
from attn_cli.diagnosis.infer.intent import heads_of, read_intent, settings_of
from attn_cli.diagnosis.infer.layouts import layouts_to_try
from attn_cli.diagnosis.infer.masks import add_mask, hiding_nothing
from attn_cli.diagnosis.infer.names import FORWARD, word
from attn_cli.diagnosis.infer.projections import find_projections
from attn_cli.diagnosis.infer.signature import Signature, read_signature
from attn_cli.diagnosis.infer.source import Source, read_source
from attn_cli.diagnosis.infer.trials import DIFFERENT, EQUAL, LAST, QUERIES, Trials, with_call
from attn_cli.diagnosis.plan import Plan, WeightsSpec
from attn_cli.diagnosis.plan_json import Said, to_json
from attn_cli.diagnosis.subject import Built, Numbers, build, left_out, set_numbers
from attn_cli.diagnosis.unusable import Unusable
from attn_cli.errors import InputError

_FULL = ("kind", "lib", "inputs", "layouts", "lengths_may_differ", "mask", "returns")


def complete(
    session: Session,
    facts: Mapping[str, Any],
    said: Said,
    *,
    name: str,
    seed: int = 0,
    limit: float = LIMIT,
    allowance: Allowance | None = None,
) -> Completed:
    """The plan: as said where all of `call` is said, else completed from the code.

    Raises Unusable where the code cannot be built, or raises whatever it is given; InputError
    where something must be said first.
    """
    allowance = allowance or Allowance()
    try:
        if all(field in said.call for field in _FULL):
            return as_said(session, facts, said, name, seed, limit, allowance)
        return _Completing(session, facts, said, name, seed, limit, allowance).run()
    except TimeUp:
        seconds = TRIALS * allowance.seconds
        message = f"after {seconds:g} seconds of trial calls it was not clear how it is called"
        hint = "say all by --plan, so that less is tried, or give attn check impl more --total-time"
        raise Unusable(name, Trouble("call", "time", message), hint=hint) from None


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
        allowance: Allowance,
    ) -> None:
        self.session, self.facts, self.said = session, facts, said
        self.name, self.seed, self.limit, self.allowance = name, seed, limit, allowance
        self.source: Source = read_source(dict(facts))
        self.findings: list[Finding] = []
        self.open = True  # whether no argument says if the code is causal

    def run(self) -> Completed:
        construction, built = self._build()
        tensors = built.tensors
        spec = self._spec(built)
        parameters = built.parameters or self.facts["call"]
        defaults = {p["name"]: p["default"] for p in parameters if not p["required"]}
        settings = settings_of(construction.words, {**defaults, **built.settings})
        heads, kv_heads = heads_of(settings, spec, tensors)
        heads = self.said.intent.get("heads", heads)
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
        told = (settings.get("causal"), signature.causal)
        self.open = not any(isinstance(value, bool) for value in told)
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
            trials = Trials(self.session, parameters, self.allowance, self.limit)
            found, trouble = self._layouts(plan, trials, built, signature)
            if trouble is not None and (single := trials.in_float32(plan, trouble)) is not None:
                trials = single
                found, again = self._layouts(plan, trials, built, signature)
                trouble = trouble if again is not None else None
            if found is not None:
                self.findings += left_out(built, numbers)
                return self._finish(found, trials, signature, numbers)
            assert trouble is not None
            troubles[lib] = trouble
            if trouble.kind in LAST:
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
        any_rank = "*" in documents.layouts(self.source.documents())
        works: list[Plan] = []
        first: Trouble | None = None
        loose: Plan | None = None
        for layout in dict.fromkeys(choices):
            found, trouble = self._returns(plan, signature, layout, trials)
            stated = any_rank if every else layout == choices[0]
            if trouble is not None and trouble.step == "call" and stated:
                found, trouble = self._equal(plan, signature, layout, trials, trouble)
            if found is not None and trouble is None:
                works.append(found)
                if not every:
                    break
            else:
                first = first or trouble
                loose = loose or found
                if trouble is not None and trouble.kind in LAST:
                    break
        if works:
            layouts = tuple(w.call.layouts[0] for w in works)
            return self._again(works[0], plan, layouts), None
        if loose is not None and first is not None and first.kind == "shape":
            return self._again(loose, plan, loose.call.layouts), None
        return None, first

    @staticmethod
    def _again(found: Plan, plan: Plan, layouts: tuple[str, ...]) -> Plan:
        """What was found, with the mask and the constants as they were before it was tried."""
        return with_call(found, layouts=layouts, mask=plan.call.mask, constants=plan.call.constants)

    def _returns(
        self,
        plan: Plan,
        signature: Signature,
        layout: str,
        trials: Trials,
        sizes: Sizes = DIFFERENT,
    ) -> tuple[Plan | None, Trouble | None]:
        """What comes back in a layout; code that must be given a mask gets None for it, or one
        that hides nothing."""
        masked = plan.call.mask is not None
        if masked or not signature.mask_required:
            return trials.returns(plan, layout, masked=masked, sizes=sizes)
        constants = {**plan.call.constants, signature.masks[0]: None}
        without = with_call(plan, constants=constants)
        found, trouble = trials.returns(without, layout, sizes=sizes)
        if found is not None or trouble is None or trouble.kind in LAST:
            return found, trouble
        there = with_call(plan, layouts=(layout,))
        for spec in hiding_nothing(there, signature, self.source, self.said.mask_means):
            given = with_call(there, mask=spec)
            found, again = trials.returns(given, layout, sizes=sizes)
            if found is not None and again is None:
                return found, None
        return None, trouble

    def _equal(
        self,
        plan: Plan,
        signature: Signature,
        layout: str,
        trials: Trials,
        trouble: Trouble,
    ) -> tuple[Plan | None, Trouble | None]:
        """A documented layout in which the code runs only where all sizes are equal is kept."""
        if trouble.kind in LAST:
            return None, trouble
        found, again = self._returns(plan, signature, layout, trials, EQUAL)
        if found is None or again is not None:
            return None, trouble
        where = f" on line {trouble.line}" if trouble.line else ""
        message = f"other sizes than equal ones: {trouble.kind}{where}: {trouble.message}"
        self.findings.append(note("sizes-raise", message))
        return found, None

    def _finish(
        self, plan: Plan, trials: Trials, signature: Signature, numbers: Numbers
    ) -> Completed:
        parameters = trials.parameters
        plan = self._causal(plan, trials)
        if "mask" not in self.said.call:
            plan, findings = add_mask(plan, signature, self.source, trials, self.said.mask_means)
            self.findings += findings
        if signature.mask_required and plan.call.mask is not None:
            plan = with_call(plan, mask=dataclasses.replace(plan.call.mask, required=True))
        plan = trials.flags(plan, signature.optional_flags)
        if "lengths_may_differ" not in self.said.call:
            plan = self._lengths(plan, trials)
        plan = widths(plan, trials)
        call = to_json(plan)["call"] | {"dim": _dim(parameters)}
        if "cache" not in plan.call.returns:
            plan = self.said.over(call, to_json(plan)["intent"] | {"cache_arg": None})
        else:
            plan = self.said.over(call, to_json(plan)["intent"])
        return Completed(plan, parameters, numbers, tuple(self.findings))

    def _causal(self, plan: Plan, trials: Trials) -> Plan:
        """Code of which nothing says that it is causal, and that is: it is meant to be."""
        said = {"causal", "mask"} & set(self.said.intent)
        if plan.intent.causal or said or not self.open:
            return plan
        if (why := looks_back(plan, trials)) is None:
            return plan
        self.findings.append(note("plan-intent", f"causal: {why}"))
        intent = dataclasses.replace(plan.intent, causal=True)
        return dataclasses.replace(plan, intent=intent)

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
