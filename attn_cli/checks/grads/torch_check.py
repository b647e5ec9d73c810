"""Check: every leaf of one question, autograd beside finite differences."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from attn_cli.checks.grads.leaves import Leaf, leaves
from attn_cli.checks.grads.torch_gradcheck import gradcheck_report
from attn_cli.checks.grads.torch_gradients import gradients
from attn_cli.checks.grads.torch_groups import group_sums
from attn_cli.checks.grads.torch_likeness import likeness
from attn_cli.checks.grads.torch_numeric import Differences, Function, best_step, differences
from attn_cli.checks.grads.torch_objective import Objective, Point, noise, stairs
from attn_cli.checks.grads.torch_sampling import affordable, culprit, sample, signs, threads_for
from attn_cli.checks.grads.torch_subject import Differentiable
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results_grads import CaseGrads, CaseSizes, InputGrads, Reason, Spot, Verdict

PRECISE = 1e-3  # of an input's largest derivative: beyond it the differences decide nothing
# Of Σ |cotangent · output|, for a leaf whose numbers are about 1: a derivative below it is 0 for
# the purpose.
VANISHING = 1e-6
OF_VALUES = ("v", "w_v", "b_v", "w_o", "b_o")  # leaves that move no score
TRIED = 8  # coordinates that a step is chosen by
VERDICTS: dict[Reason, Verdict] = {"": "right", "zero": "right", "imprecise": "undecided"}


def check_case(
    subject: Differentiable,
    name: str,
    inputs: AttentionInputs,
    *,
    seed: int,
    layer: int | None = None,
    most: int | None = None,
) -> CaseGrads:
    """Every gradient of the question, head by head.

    `most` limits the coordinates of a leaf that are moved; None: as the work allows. Where the
    output is not finite nothing is compared, and `why` says so. Raises UnsupportedError for a
    subject that torch cannot differentiate.
    """
    with threads_for(inputs):
        return _case(
            subject, CaseGrads(name=name, sizes=sizes(inputs), layer=layer), inputs, seed, most
        )


def _case(
    subject: Differentiable, case: CaseGrads, inputs: AttentionInputs, seed: int, most: int | None
) -> CaseGrads:
    read = {leaf.name: leaf for leaf in leaves(inputs) if subject.takes(leaf.name)}
    totals = [leaf.array.size for leaf in read.values()]
    most = affordable(inputs, totals) if most is None else most
    sampled = max(totals) > most
    objective = Objective(subject, inputs, seed, read, mixed=sampled)
    with torch.no_grad():
        output = objective.output(objective.point)
        if why := _not_finite(output):
            return replace(case, why=why)
        around = noise(objective, objective.point, seed)
        sizes_of = objective.summed((objective.cotangent * output).abs())
        coarse = torch.maximum(around, stairs(objective, sizes_of))
    found, size = gradients(objective), float(sizes_of.sum())
    checked = tuple(
        _Check(
            objective,
            leaf,
            found[leaf.name],
            around if leaf.name in OF_VALUES else coarse,
            size,
            stream,
        ).result(most, seed)
        for stream, leaf in enumerate(read.values())
    )
    return replace(case, inputs=checked, groups=tuple(group_sums(subject, inputs, seed)))


def sizes(inputs: AttentionInputs) -> CaseSizes:
    """The question's sizes by the names of its axes."""
    B, H, L, S = inputs.shape
    numbers = {"batch": B, "heads": H, "kv_heads": inputs.kv_heads, "queries": L, "keys": S}
    numbers |= {"d_k": inputs.q.shape[-1], "d_v": inputs.v.shape[-1]}
    if inputs.origin is not None:
        numbers["d_model"] = inputs.origin.x.shape[-1]
    return numbers


def _not_finite(output: Tensor) -> str:
    """Where the output holds NaN or inf first; empty where it does not."""
    bad = ~torch.isfinite(output)
    if not bad.any():
        return ""
    where = tuple(int(i) for i in bad.nonzero()[0])
    axes = ("batch", "head", "query", "d_v") if bad.ndim == 4 else ("batch", "query", "feature")
    places = ", ".join(f"{axis} {index}" for axis, index in zip(axes, where, strict=True))
    value = float(output[where])
    return f"the output holds {'NaN' if math.isnan(value) else f'{value:g}'} at {places}"


@dataclass(frozen=True, slots=True, eq=False)
class _Check:
    """One leaf under test: `analytic` (heads, numbers) or None, `noise` (heads,) of φ."""

    objective: Objective
    leaf: Leaf
    analytic: Tensor | None
    noise: Tensor
    size: float
    stream: int

    @property
    def function(self) -> Function:
        """φ of this leaf alone."""
        point: Point = self.objective.point
        name = self.leaf.name
        return lambda tensor: self.objective({**point, name: tensor})

    @property
    def found(self) -> Tensor:
        """(heads, numbers): autograd's gradient, 0 where it has none."""
        if self.analytic is not None:
            return self.analytic
        return torch.zeros(len(self.noise), self.leaf.array.size, dtype=torch.float64)

    def result(self, most: int, seed: int) -> InputGrads:
        tensor = torch.tensor(self.leaf.array)
        with torch.no_grad():
            chosen = sample(tensor.numel(), most, seed, 4 * self.stream)
            every = len(chosen) == tensor.numel()
            step = best_step(self.function, tensor, self._some(chosen, seed), self.noise)
            chosen = sorted({*chosen, *self._conspicuous(tensor, step, seed, every=every)})
            numeric = differences(self.function, tensor, chosen, self.noise, step)
        report = self._gradcheck(tensor, numeric, every=every)
        return self._judged(chosen, numeric, report)

    def _some(self, chosen: list[int], seed: int) -> list[int]:
        """A few coordinates to choose a step by, of those that some output sees."""
        moving = [i for i in chosen if not self.leaf.zero.flat[i]] or chosen
        return [moving[i] for i in sample(len(moving), TRIED, seed, 4 * self.stream + 2)]

    def _conspicuous(self, tensor: Tensor, step: float, seed: int, *, every: bool) -> list[int]:
        """Coordinates that must be looked at whatever was drawn: the first of each suspicion."""
        found, zero = self.found, torch.tensor(self.leaf.zero.flatten())
        suspects = [~torch.isfinite(found).all(0), zero & found.ne(0).any(0)]
        picked = [int(hit.nonzero()[0]) for hit in suspects if hit.any()]
        if every or picked:
            return picked
        picked.append(int(found.abs().amax(0).argmax()))
        direction = signs(tensor.numel(), seed, 4 * self.stream + 1)
        guilty = culprit(self.function, tensor, found, self.noise, step, direction)
        return picked if guilty is None else [*picked, guilty]

    def _gradcheck(self, tensor: Tensor, numeric: Differences, *, every: bool) -> str | None:
        if self.analytic is None:
            return None  # it would only say that nothing requires a gradient
        allowed = float(numeric.allowed.max())
        return gradcheck_report(
            self.function, tensor, step=numeric.step, allowed=allowed, fast=not every
        )

    def _judged(self, chosen: list[int], numeric: Differences, report: str | None) -> InputGrads:
        analytic = self.found[:, chosen].T  # (coordinates, heads)
        apart = (analytic - numeric.values).abs()
        zero = torch.tensor(self.leaf.zero.flatten())
        not_zero = int((zero & self.found.ne(0).any(0)).sum())
        leaks = zero[chosen, None] & analytic.ne(0)
        broken = ~torch.isfinite(analytic)
        differs = ~(apart <= numeric.allowed)
        reason = self._reason(broken, leaks, differs, numeric, report)
        wrong = {"nan": broken, "leak": leaks}.get(reason, differs)
        worst = self._worst(chosen, analytic, numeric, wrong if wrong.any() else None)
        largest = float(numeric.values.abs().max())
        furthest = float(apart.max()) if not broken.any() else float("nan")
        return InputGrads(
            name=self.leaf.name,
            axes=self.leaf.axes,
            shape=self.leaf.array.shape,
            verdict=VERDICTS.get(reason, "wrong"),
            reason=reason,
            checked=len(chosen),
            total=self.leaf.array.size,
            step=numeric.step,
            max_abs=furthest,
            max_rel=furthest / largest if largest else 0.0 if furthest == 0 else float("inf"),
            worst=worst,
            zeros=int(zero.sum()),
            not_zero=not_zero,
            heads=self._heads(wrong),
            like=self._like(analytic, numeric) if reason == "differs" else "",
            gradcheck=report,
        )

    def _reason(
        self,
        broken: Tensor,
        leaks: Tensor,
        differs: Tensor,
        numeric: Differences,
        report: str | None,
    ) -> Reason:
        if broken.any():
            return "nan"
        if self.analytic is None and differs.any():
            return "missing"
        if leaks.any():
            return "leak"
        if differs.any():
            return "differs"
        if report is not None:
            return "gradcheck"
        loose, largest = float(numeric.allowed.max()), float(numeric.values.abs().max())
        finite = np.isfinite(self.leaf.array)
        numbers = float(np.abs(self.leaf.array[finite]).max(initial=1.0))
        if not loose <= max(PRECISE * largest, VANISHING * self.size / numbers):
            return "imprecise"
        return "" if self.found.any() else "zero"

    def _worst(
        self, chosen: list[int], analytic: Tensor, numeric: Differences, among: Tensor | None
    ) -> Spot:
        """The coordinate where it is furthest off, of those that are wrong if any is."""
        apart = (analytic - numeric.values).abs().nan_to_num(nan=float("inf"))
        if among is not None:
            apart = apart.masked_fill(~among, -1.0)
        row, head = np.unravel_index(int(apart.argmax()), tuple(apart.shape))
        index = np.unravel_index(chosen[int(row)], self.leaf.array.shape)
        return Spot(
            at={axis: int(i) for axis, i in zip(self.leaf.axes, index, strict=True)},
            head=int(head) if self.objective.per_head else None,
            analytic=float(analytic[row, head]),
            numeric=float(numeric.values[row, head]),
            allowed=float(numeric.allowed[row, head]),
        )

    def _like(self, analytic: Tensor, numeric: Differences) -> str:
        d_k = self.objective.inputs.q.shape[-1]
        return likeness(analytic, numeric.values, self.leaf.array.shape, d_k)

    def _heads(self, wrong: Tensor) -> tuple[int, ...]:
        if not self.objective.per_head:
            return ()
        return tuple(int(head) for head in wrong.any(0).nonzero()[:, 0])
