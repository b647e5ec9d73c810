"""Trials: calls that show which layouts, masks and lengths the code takes, and what it returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from attn_cli.diagnosis.allowance import TRIALS, Allowance, TimeUp
from attn_cli.diagnosis.answers import observe
from attn_cli.diagnosis.arguments import call_of
from attn_cli.diagnosis.asking import Sizes, draw_question
from attn_cli.diagnosis.drawing import Parameters
from attn_cli.diagnosis.host.session import LIMIT, Session
from attn_cli.diagnosis.host.trouble import Trouble, trouble_of
from attn_cli.diagnosis.infer.returned import classify
from attn_cli.diagnosis.plan import Call, MaskSpec, Plan
from attn_cli.diagnosis.question import Question
from attn_cli.diagnosis.subject import argument_matrices, init_json
from attn_cli.errors import AttnError

# What a second call would meet again, each time at the cost of a new process.
LAST = ("time", "died", "exit")
# All different, so that a shape tells its axes.
BATCH, QUERIES, KEYS, HEADS, WIDTH = 2, 5, 7, 3, 8
DIFFERENT = Sizes(BATCH, QUERIES, None, HEADS, WIDTH)
# All equal: code that mixes axes up runs here at least, and is wrong rather than unusable.
EQUAL = Sizes(WIDTH, WIDTH, None, WIDTH, WIDTH)


@dataclass(frozen=True, slots=True)
class Trials:
    """Somebody's code with its numbers set, to be called by plans that are tried."""

    session: Session
    parameters: Parameters
    allowance: Allowance
    limit: float = LIMIT
    dtype: str = "float64"

    def call(self, plan: Plan, question: Question) -> dict[str, Any]:
        """What came back, as the worker says it; or {"trouble"}. Raises TimeUp."""
        if self.allowance.over(TRIALS):
            raise TimeUp
        matrices = argument_matrices(plan, self.parameters)
        request = {
            "op": "call",
            "calls": [call_of(plan, question, dtype=self.dtype, weights=matrices)],
            "lib": plan.call.lib,
            "dtype": self.dtype,
            "init": init_json(plan),
        }
        return self.session.ask(request, limit=self.limit)

    def in_float32(self, plan: Plan, trouble: Trouble) -> Self | None:
        """The same in float32, where that may help: code may take no other precision."""
        raised = trouble.step == "call" and trouble.kind not in LAST
        if not raised or plan.call.lib == "list" or self.dtype == "float32":
            return None
        return dataclasses.replace(self, dtype="float32")

    def question(
        self,
        plan: Plan,
        layout: str,
        *,
        sizes: Sizes = DIFFERENT,
        masked: bool = False,
    ) -> Question:
        return draw_question(
            plan, self.parameters, sizes, name="trial", layout=layout, masked=masked
        )

    def returns(
        self, plan: Plan, layout: str, *, masked: bool = False, sizes: Sizes = DIFFERENT
    ) -> tuple[Plan | None, Trouble | None]:
        """The plan with what the code returns in a layout; else the trouble that it had."""
        question = self.question(plan, layout, masked=masked, sizes=sizes)
        answer = self.call(plan, question)
        if "trouble" in answer:
            return None, trouble_of(answer)
        result = answer["ok"][0]["repeats"][0][0]
        try:
            names, keys = classify(result, question)
        except ValueError as error:
            return None, Trouble("answer", "answer", str(error))
        found = with_call(plan, returns=names, keys=keys, layouts=(layout,))
        trouble = observe(found, question, answer).trouble
        return found, trouble

    def fits(self, plan: Plan, question: Question) -> Trouble | None:
        """Why the code gives no answer of the right shape, None where it gives one."""
        return observe(plan, question, self.call(plan, question)).trouble

    def lengths_may_differ(self, plan: Plan) -> Trouble | None:
        """Why queries and keys cannot differ in number, None where they can."""
        wider = with_call(plan, lengths_may_differ=True)
        sizes = Sizes(BATCH, QUERIES, KEYS, HEADS, WIDTH)
        return self.fits(wider, self.question(wider, plan.call.layouts[0], sizes=sizes))

    def widths_may_differ(self, plan: Plan) -> Trouble | None:
        """Why values cannot be narrower than keys, None where they can."""
        wider = with_call(plan, widths_may_differ=True)
        sizes = Sizes(BATCH, QUERIES, None, HEADS, WIDTH, value_width=WIDTH - 2)
        return self.fits(wider, self.question(wider, plan.call.layouts[0], sizes=sizes))

    def mask(
        self, plan: Plan, argument: str, kinds: Sequence[str], dtypes: Sequence[str]
    ) -> tuple[MaskSpec | None, dict[str, Trouble]]:
        """The first kind and dtype that the code takes; the troubles of the others by dtype."""
        troubles: dict[str, Trouble] = {}
        for dtype in dtypes:
            for kind in kinds:
                spec = MaskSpec(argument, kind, dtype)
                trouble = self._masked(with_call(plan, mask=spec))
                if trouble is None:
                    return spec, troubles
                troubles.setdefault(dtype, trouble)
        return None, troubles

    def _masked(self, plan: Plan) -> Trouble | None:
        """Why the code does not take the plan's mask in all of its layouts."""
        for layout in plan.call.layouts:
            try:
                trouble = self.fits(plan, self.question(plan, layout, masked=True))
            except AttnError as error:
                trouble = Trouble("call", "mask", error.message)
            if trouble is not None:
                return trouble
        return None

    def flags(self, plan: Plan, names: Sequence[str]) -> Plan:
        """The plan with those flags set that make the code return its weights."""
        for name in names:
            constants: Mapping[str, Any] = {**plan.call.constants, name: True}
            tried = with_call(plan, constants=constants)
            found, trouble = self.returns(tried, plan.call.layouts[0])
            more = found is not None and len(found.call.returns) > len(plan.call.returns)
            if found is not None and trouble is None and more:
                return with_call(found, layouts=plan.call.layouts)
        return plan


def with_call(plan: Plan, **changes: Any) -> Plan:
    """The plan with fields of its call replaced."""
    call: Call = dataclasses.replace(plan.call, **changes)
    return dataclasses.replace(plan, call=call)
