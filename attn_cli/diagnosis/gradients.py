"""Gradients: asks PyTorch code what reaches its inputs and its matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from attn_cli.core.layer import merge_heads
from attn_cli.diagnosis.arguments import call_of, to_layout
from attn_cli.diagnosis.drawing import draw
from attn_cli.diagnosis.host.trouble import Trouble, trouble_of
from attn_cli.diagnosis.meaning import reference
from attn_cli.diagnosis.plan import HEADED
from attn_cli.diagnosis.question import Question
from attn_cli.diagnosis.subject import Adapted, argument_matrices, init_json
from attn_cli.errors import UnsupportedError

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """∂ Σ output · cotangent / ∂ each thing, in float64; None where no gradient arrives.

    `given` maps roles (q, x, …) to arrays in the code's own layout, `learned` the names of its
    parameters to theirs. `cotangent` has the shape of the reference's output.
    """

    given: Mapping[str, Array | None] = field(default_factory=dict)
    learned: Mapping[str, Array | None] = field(default_factory=dict)
    cotangent: Array | None = None
    trouble: Trouble | None = None


def gradients(
    code: Adapted, question: Question, *, dtype: str = "float64", seed: int = 0
) -> Gradients:
    """The gradients for a fixed, drawn cotangent. UnsupportedError for code without PyTorch."""
    plan = code.plan
    if plan.call.lib != "torch":
        raise UnsupportedError(f"gradients need PyTorch, and the code takes {plan.call.lib}")
    right = reference(question)[question.stage]
    cotangent = draw(seed, 70, right.shape)
    theirs = cotangent
    if question.stage == "context" and question.layout not in HEADED:
        theirs = merge_heads(cotangent)
    weights = argument_matrices(plan, code.parameters)
    step = call_of(plan, question, dtype=dtype, weights=weights)["steps"][0]
    names = {_argument(entry, place): entry for place, entry in enumerate(plan.call.inputs)}
    place = plan.call.returns.index("out")
    where = plan.call.keys[place] if plan.call.keys else place
    request = {
        "op": "gradients",
        "step": step,
        "of": list(names),
        "where": where if len(plan.call.returns) > 1 or plan.call.keys else None,
        "cotangent": {"array": to_layout(theirs, question.layout), "as": "float"},
        "lib": plan.call.lib,
        "dtype": dtype,
        "init": init_json(plan),
    }
    answer = code.session.ask(request, limit=code.limit)
    if "trouble" in answer:
        return Gradients(trouble=trouble_of(answer))
    found = answer["ok"]
    given = {names[n].rpartition("=")[2]: g for n, g in found["given"].items()}
    return Gradients(given, found["learned"], cotangent)


def _argument(entry: str, place: int) -> str:
    """How the worker calls an argument: by its keyword, or by its place."""
    return entry.rpartition("=")[0] or str(place)
