"""Behaviour: properties that attention has, each tried on the code without a reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.results_impl import Behaviour, Status
from attn_cli.diagnosis.allowance import BEHAVIOUR
from attn_cli.diagnosis.answers import Observed
from attn_cli.diagnosis.formula.run import run
from attn_cli.diagnosis.formula.work import Setting, Work
from attn_cli.diagnosis.gradients import gradients
from attn_cli.diagnosis.interviewing import Interview, answer
from attn_cli.diagnosis.meaning import ask
from attn_cli.diagnosis.probes.probe import Seen, gaps
from attn_cli.diagnosis.question import Question
from attn_cli.diagnosis.subject import Adapted
from attn_cli.errors import AttnError

Array = NDArray[Any]

STILL = 1e-5  # of the largest value: what moves less has not moved


def behaviour(adapted: Adapted, told: Interview) -> tuple[Behaviour, ...]:
    """Every line, in the order in which they are read; none for which there is no time left."""
    return tuple(_Trying(adapted, told).lines())


@dataclass(frozen=True, slots=True, eq=False)
class _Trying:
    """The code, the interview, and the experiments on both."""

    adapted: Adapted
    told: Interview

    def lines(self) -> Iterator[Behaviour]:
        base = self._base()
        if base is None:
            return
        yield from self._sums()
        tried: dict[str, Callable[[], Iterator[Behaviour]]] = {
            "causality": lambda: self._causality(base),
            "batch independence": lambda: self._batch(base),
            "permutation equivariance": lambda: self._permutation(base),
            "padding invariance": self._padding,
            "empty rows": self._empty_rows,
            "float32, float16, bfloat16": lambda: self._precisions(base),
            "gradients": lambda: self._gradients(base),
        }
        for name, lines in tried.items():
            if not self.adapted.allowance.spent(BEHAVIOUR, name):
                yield from lines()

    def _base(self) -> Seen | None:
        """A plain question that has an answer."""
        ordinary = [
            one
            for one in self.told.seen
            if not one.failed and one.probe.boundary is None and not one.question.steps
        ]
        plain = [one for one in ordinary if one.question.keep is None and one.question.bias is None]
        several = [one for one in plain or ordinary if one.question.shape[0] > 1]
        found = several or plain or ordinary
        return found[0] if found else None

    def _ask(self, base: Question, given: Mapping[str, Array], **changes: Any) -> Question:
        spec = self.told.setting.mask
        kept = {"keep": base.keep, "bias": base.bias, **changes}
        return ask(
            self.adapted.plan,
            self.adapted.parameters,
            given,
            name="changed",
            layout=base.layout,
            left_padded=spec is not None and spec.kind == "keep_pad_left",
            **kept,
        )

    def _answer(self, question: Question, dtype: str | None = None) -> Observed:
        return self.adapted.attend(question, dtype=dtype or self.told.dtype)

    def _moved(self, base: Seen, given: Mapping[str, Array]) -> Array | None:
        """How far each element of the output moves when other numbers are given."""
        came = self._answer(self._ask(base.question, given)).output
        if came is None or base.observed.output is None:
            return None
        return gaps(came, base.observed.output)

    def _sums(self) -> Iterator[Behaviour]:
        maps = [
            one
            for one in self.told.seen
            if one.observed.weights is not None and one.probe.boundary is None
        ]
        if not maps:
            return
        worst = 0.0
        for one in maps:
            assert one.observed.weights is not None
            with np.errstate(over="ignore", invalid="ignore"):
                sums = np.broadcast_to(one.observed.weights.sum(-1), one.question.shape[:3])
                off = np.abs(sums - 1)[one.question.judged]
            worst = max(worst, float(np.nan_to_num(off, nan=np.inf).max(initial=0.0)))
        if self.told.setting.plan.intent.sink is not None:
            detail = (
                f"rows sum to less than 1 by design, by up to {worst:.2g}: the sink has the rest"
            )
            yield Behaviour("rows sum to 1", "note", detail)
            return
        fine = worst < STILL
        detail = "every row that sees a key" if fine else f"a row is {worst:.2g} off"
        yield Behaviour("rows sum to 1", "holds" if fine else "fails", detail)

    def _causality(self, base: Seen) -> Iterator[Behaviour]:
        """Moves the last token: rows that do not see it must stay."""
        intent = self.told.setting.plan.intent
        L, S = base.question.shape[2:]
        if not intent.causal or L != S or L < 2:
            return
        given = {
            role: _with_last(array, array[..., -1:, :] + 1)
            for role, array in base.question.given.items()
        }
        moved = self._moved(base, given)
        if moved is None:
            return
        rows = moved[..., :-1, :].max(-1)
        fine = bool(rows.max() <= STILL * _size(base))
        detail = "the last token moves no earlier row"
        if not fine:
            row = int(np.argmax(rows.reshape(-1, L - 1).max(0) > STILL * _size(base)))
            detail = f"moving token {L - 1} moves row {row}, which comes before it"
        yield Behaviour("causality", _status(fine), detail)

    def _batch(self, base: Seen) -> Iterator[Behaviour]:
        """Moves one item of the batch: the others must stay."""
        if base.question.shape[0] < 2:
            return
        given = {role: array.copy() for role, array in base.question.given.items()}
        for array in given.values():
            array[1:] += 1
        moved = self._moved(base, given)
        if moved is None:
            return
        fine = bool(moved[0].max() <= STILL * _size(base))
        detail = "changing one item moves no other"
        if not fine:
            detail = "changing item 1 moves item 0 as well"
        yield Behaviour("batch independence", _status(fine), detail)

    def _permutation(self, base: Seen) -> Iterator[Behaviour]:
        """Turns the tokens round: rows must follow, where order does not count."""
        intent = self.told.setting.plan.intent
        ordered = (intent.rope, intent.positions) != (None, None) or intent.alibi
        keep = base.question.keep
        if ordered or self.told.setting.own_mask or (keep is not None and not keep.all()):
            return
        if base.question.bias is not None or base.question.shape[2] < 2:
            return
        given = {role: array[..., ::-1, :].copy() for role, array in base.question.given.items()}
        came = self._answer(self._ask(base.question, given)).output
        if came is None or base.observed.output is None:
            return
        moved = gaps(came[..., ::-1, :], base.observed.output)
        fine = bool(moved.max() <= STILL * _size(base))
        detail = "permuting the tokens permutes the rows"
        if not fine:
            detail = "permuting the tokens does not permute the rows"
        yield Behaviour("permutation equivariance", _status(fine), detail)

    def _padding(self) -> Iterator[Behaviour]:
        """An item alone, without its padding, against the same in its padded batch."""
        spec = self.told.setting.mask
        if spec is None or not self.told.setting.hides or "L" in spec.axes:
            return
        for one in self.told.seen:
            question = one.question
            hidden = question.keep is not None and not question.keep.all()
            if one.failed or not hidden or one.probe.boundary is not None or question.steps:
                continue
            if (found := self._unpadded(one)) is not None:
                yield found
                return

    def _unpadded(self, one: Seen) -> Behaviour | None:
        question, keep = one.question, one.question.keep
        assert keep is not None
        item = int(np.argmin(keep[:, 0, 0].sum(-1)))
        seen = keep[item, 0, 0]
        itself = "x" in question.given and "context" not in question.given
        given = {}
        for role, array in question.given.items():
            rows = seen if itself or role in ("k", "v", "context") else slice(None)
            given[role] = array[item : item + 1, ..., rows, :]
        alone_keep = np.ones((1, 1, 1, int(seen.sum())), dtype=bool)
        came = self._answer(self._ask(question, given, keep=alone_keep)).output
        if came is None or one.observed.output is None:
            return None
        padded = one.observed.output[item]
        padded = padded[..., seen, :] if itself else padded
        moved = gaps(came[0], padded)
        fine = bool(moved.max() <= STILL * _size(one))
        detail = "an item alone gives what it gives in its padded batch"
        if not fine:
            detail = f"an item alone is {moved.max():.2g} off what it gives in its padded batch"
        return Behaviour("padding invariance", _status(fine), detail)

    def _empty_rows(self) -> Iterator[Behaviour]:
        """A row that sees nothing: what it becomes is a convention."""
        spec = self.told.setting.mask
        if spec is None or not self.told.setting.hides:
            return
        for one in self.told.seen:
            keep = one.question.keep
            if one.failed or keep is None or one.probe.boundary or one.question.steps:
                continue
            none = keep.copy()
            none[-1] = False
            try:
                question = self._ask(one.question, one.question.given, keep=none)
            except AttnError:
                continue
            came = self._answer(question)
            yield Behaviour("empty rows", "note", _empty_words(came, question, self.told.setting))
            return

    def _precisions(self, base: Seen) -> Iterator[Behaviour]:
        if self.told.setting.plan.call.lib == "list":
            return
        names = ["float32", "float16"]
        names += ["bfloat16"] if self.told.setting.plan.call.lib == "torch" else []
        for name in names:
            came = self._answer(base.question, name)
            if came.output is None:
                yield Behaviour(name, "note", f"not taken: {answer(came)}")
            elif not np.isfinite(came.output).all():
                yield Behaviour(name, "note", "gives NaN or inf on ordinary numbers")
            else:
                yield Behaviour(name, "holds", f"gives {came.dtype}")

    def _gradients(self, base: Seen) -> Iterator[Behaviour]:
        try:
            found = gradients(self.adapted, base.question)
        except AttnError:
            return
        if found.trouble is not None:
            yield Behaviour("gradients", "note", f"none: {found.trouble.message}")
            return
        missing = [name for name, array in found.learned.items() if array is None]
        missing += [name for name, array in found.given.items() if array is None]
        total = len(found.learned) + len(found.given)
        if total == 0:
            return
        detail = f"reach {total} of {total} inputs and parameters"
        if missing:
            detail = f"none reaches {', '.join(missing[:5])}"
        yield Behaviour("gradients", _status(not missing), detail)


def _with_last(array: Array, last: Array) -> Array:
    changed = array.copy()
    changed[..., -1:, :] = last
    return changed


def _size(one: Seen) -> float:
    """The largest finite value of an output, at least 1e-30."""
    assert one.observed.output is not None
    finite = np.where(np.isfinite(one.observed.output), one.observed.output, 0)
    return float(np.abs(finite).max(initial=1e-30))


def _status(fine: bool) -> Status:
    return "holds" if fine else "fails"


def _empty_words(came: Observed, question: Question, setting: Setting) -> str:
    """What the rows that see nothing became."""
    if came.output is None:
        return f"it fails: {answer(came)}"
    rows = question.empty.all(1) if came.output.ndim == 3 else question.empty
    values = came.output[rows]
    if not values.size:
        return "no row is empty"
    if np.isnan(values).all():
        return "become NaN"
    if not np.isfinite(values).all():
        return "become NaN or inf in part"
    if (values == 0).all():
        return "become 0"
    known = {"become 0": _zero, "become uniform: the mean of all values": _uniform}
    for words, softmax in known.items():
        said = run(question, setting, {"softmax": softmax}).output
        if said is not None and np.allclose(values, said[rows], atol=1e-5):
            return words
    return "become other finite numbers"


def _zero(work: Work) -> None:
    work.weights = np.zeros_like(work.scores)


def _uniform(work: Work) -> None:
    work.weights = np.full_like(work.scores, 1 / work.scores.shape[-1])
