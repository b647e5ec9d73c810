"""Adapted: somebody's code, ready to be asked questions in attn's own terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding, note
from attn_cli.core.layer import Projections
from attn_cli.diagnosis import plan_json
from attn_cli.diagnosis.allowance import Allowance
from attn_cli.diagnosis.answers import Observed, observe
from attn_cli.diagnosis.arguments import call_of
from attn_cli.diagnosis.drawing import Parameters, draw, draw_matrices
from attn_cli.diagnosis.host.session import LIMIT, Session
from attn_cli.diagnosis.host.trouble import trouble_of
from attn_cli.diagnosis.plan import SINUSOIDAL, Plan
from attn_cli.diagnosis.question import Question
from attn_cli.diagnosis.unusable import Unusable
from attn_cli.diagnosis.weights import Layout, Tensor, layout_of
from attn_cli.errors import InputError, UnsupportedError
from attn_cli.positions.sinusoidal import sinusoidal

Array = NDArray[Any]

_SINUSOIDS = 512  # positions of the table: more than a probe has tokens


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """What was put into the code: tensor names → values, and how the projections lie in them."""

    values: Mapping[str, Array]
    layout: Layout | None = None

    def with_projections(self, projections: Projections) -> Self:
        """The numbers with other matrices; UnsupportedError where there are none to replace."""
        if self.layout is None:
            raise UnsupportedError("the code has no matrices that could be replaced")
        matrices = {}
        for role, shape in self.layout.roles().items():
            array = getattr(projections, role)
            matrices[role] = np.zeros(shape) if array is None else array
        return replace(self, values={**self.values, **self.layout.write(matrices)})


@dataclass(frozen=True, slots=True, eq=False)
class Adapted:
    """Somebody's code behind a plan.

    `name` is how the user named it, `plan` what is done with it, `parameters` the numbers that it
    was given (`numbers`: as they lie in it), `findings` what attn chose or found on the way. Each
    question finds the code as it is when it was just built: nothing is left of an earlier one.
    `limit` is the seconds that one question may take, `allowance` the time for all of them.
    """

    name: str
    file: str | None
    plan: Plan
    parameters: Parameters
    session: Session
    numbers: Numbers
    findings: tuple[Finding, ...] = ()
    limit: float = LIMIT
    weights_said: bool = False
    allowance: Allowance = field(default_factory=Allowance)

    def with_projections(self, projections: Projections) -> Self:
        """The same code with other matrices of the same shapes, biases that are None being 0.

        There is one process behind both: what was asked before this one keeps its matrices only
        until then. Raises UnsupportedError where the code has no matrices.
        """
        numbers = self.numbers.with_projections(projections)
        self.session.ask({"op": "set", "values": dict(numbers.values)}, limit=LIMIT)
        parameters = replace(self.parameters, projections=projections)
        return replace(self, parameters=parameters, numbers=numbers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.session.close()

    def attend(
        self,
        question: Question,
        *,
        dtype: str = "float64",
        train: bool = False,
        seed: int = 0,
        repeat: int = 1,
        after: Sequence[Question] = (),
    ) -> Observed:
        """What the code answers, in `dtype` (int64: whole numbers).

        `repeat` times with the same arguments, on the object that has answered the questions of
        `after` before. `train` runs a module in train mode; `seed` is that of every generator.
        Whatever the code raises, prints or exits with is in the answer.
        """
        weights = argument_matrices(self.plan, self.parameters)
        calls = [
            call_of(self.plan, asked, dtype=dtype, weights=weights, repeat=times)
            for asked, times in [*((q, 1) for q in after), (question, repeat)]
        ]
        request = {
            "op": "call",
            "calls": calls,
            "lib": self.plan.call.lib,
            "dtype": dtype,
            "train": train,
            "seed": seed,
            "init": init_json(self.plan),
        }
        return observe(self.plan, question, self.session.ask(request, limit=self.limit))


def argument_matrices(plan: Plan, parameters: Parameters) -> dict[str, Array]:
    """The matrices of a function that takes them as arguments: role → (in, out)."""
    layer = parameters.projections
    if layer is None:
        return {}
    roles = [role for role in plan.call.roles if role in ("w_q", "w_k", "w_v", "w_o")]
    return {role: getattr(layer, role) for role in roles}


def init_json(plan: Plan) -> dict[str, Any] | None:
    """How the code is built, as the worker reads it; None for a function."""
    if plan.call.init is None:
        return {} if plan.call.kind != "function" else None
    return plan_json.init_json(plan.call.init)


@dataclass(frozen=True, slots=True)
class Built:
    """What the worker says of the built object."""

    tensors: Mapping[str, Tensor]  # of tied ones each name has the same tensor
    settings: Mapping[str, Any] = field(default_factory=dict)
    parameters: tuple[Mapping[str, Any], ...] = ()
    kind: str = ""


def build(session: Session, init: dict[str, Any] | None, file: str) -> Built:
    """Builds the object; Unusable says why it cannot be."""
    answer = session.ask({"op": "build", "init": init, "dtype": "float64"}, limit=LIMIT)
    if "trouble" in answer:
        raise Unusable(file, trouble_of(answer))
    described = answer["ok"]
    tensors: dict[str, Tensor] = {}
    for t in described["tensors"]:
        own = Tensor(t["name"], tuple(t["shape"]), t["owner"], t["family"], t["learned"])
        tensors[t["name"]] = tensors.get(t["same_as"], own)
    return Built(
        tensors,
        described["settings"],
        tuple(described["call"]),
        described["kind"],
    )


def set_numbers(
    session: Session, plan: Plan, built: Built, *, seed: int
) -> tuple[Parameters, Numbers]:
    """Draws every matrix that the plan knows, puts it into the code, and gives it back."""
    intent = plan.intent
    heads = intent.heads or 1
    values: dict[str, Array] = {}
    projections: Projections | None = None
    layout: Layout | None = None
    if intent.weights is not None and intent.weights.type == "arguments":
        projections = _drawn_arguments(plan, seed)
    elif intent.weights is not None:
        layout = layout_of(
            intent.weights, built.tensors, heads=heads, kv_heads=intent.kv_heads or heads
        )
        values = layout.write(draw_matrices(layout.roles(), seed))
        projections = layout.read(values)
    sinks, table = _sinks(plan, built, seed), _positions(session, plan, built, seed)
    if intent.positions == SINUSOIDAL and table is None and projections is not None:
        table = sinusoidal(np.arange(_SINUSOIDS), len(projections.w_q))
    if sinks is not None and intent.sink is not None:
        values[intent.sink] = sinks
    name = _positions_name(plan, built)
    if table is not None and name is not None and built.tensors[name].learned:
        values[name] = table.reshape(built.tensors[name].shape)
    if values:
        answer = session.ask({"op": "set", "values": values}, limit=LIMIT)
        assert "ok" in answer
    return Parameters(projections, sinks, table), Numbers(values, layout)


def _drawn_arguments(plan: Plan, seed: int) -> Projections:
    dim = plan.call.dim or 16
    shapes = {role: (dim, dim) for role in plan.call.roles if role.startswith("w_")}
    return Projections(**draw_matrices(shapes, seed))


def _sinks(plan: Plan, built: Built, seed: int) -> Array | None:
    if (name := plan.intent.sink) is None:
        return None
    if name not in built.tensors:
        raise InputError(
            f"the code has no {name} for its sinks",
            hint=f"its tensors: {some(built.tensors) or 'none'}",
        )
    return draw(seed, 100, (int(np.prod(built.tensors[name].shape)),))


def _positions_name(plan: Plan, built: Built) -> str | None:
    name = plan.intent.positions
    if name is None or (name == SINUSOIDAL and name not in built.tensors):
        return None
    return name if name in built.tensors else f"{name}.weight"


def _positions(session: Session, plan: Plan, built: Built, seed: int) -> Array | None:
    """The table that is added to x (n, d_model): drawn where it is learned, else as it is."""
    if (name := _positions_name(plan, built)) is None:
        return None
    if name not in built.tensors:
        raise InputError(
            f"the code has no {plan.intent.positions} for its positions",
            hint=f"its tensors: {some(built.tensors) or 'none'}",
        )
    tensor = built.tensors[name]
    rows, width = [size for size in tensor.shape if size != 1][-2:]
    if tensor.learned:
        return draw(seed, 101, (rows, width))
    request = {"op": "read", "names": [name], "init": init_json(plan), "dtype": "float64"}
    table: Array = session.ask(request, limit=LIMIT)["ok"][name]
    return table.reshape(rows, width)


def left_out(built: Built, numbers: Numbers) -> tuple[Finding, ...]:
    """What no part of the plan accounts for: learned tensors, among them a normalisation's."""
    values = numbers.values
    tensors = built.tensors.values()
    left = dict.fromkeys(t.name for t in tensors if t.learned and t.name not in values)
    if not left or not values:
        return ()
    norms = [name for name in left if built.tensors[name].family == "norm"]
    findings = [note("numbers-left", f"left as the code made them: {some(left)}")]
    if norms:
        message = f"the code normalises ({some(norms)}), which the reference does not"
        findings.append(Finding("norm-left", "warning", message))
    return tuple(findings)


def some(names: Iterable[str]) -> str:
    """The first names of many."""
    listed = list(names)
    return ", ".join(listed[:6]) + (", …" if len(listed) > 6 else "")
