"""Page: all steps of a row, with as few digits as make its results right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from attn_cli.core.explanation import Digits, Line, Step
from attn_cli.workflows.paper.given import keys_and_values, query, vector
from attn_cli.workflows.paper.output import context, outputs
from attn_cli.workflows.paper.row import Row
from attn_cli.workflows.paper.scores import hidden_keys, masked_scores
from attn_cli.workflows.paper.sheet import Decimals, Sheet, sheet_of
from attn_cli.workflows.paper.softmax import softmax

READABLE = 5  # digits of the results, and of all else where they suffice
MOST_DIGITS = 15  # float64 has hardly more
EPS = 2.0**-52

Place = tuple[str, int | None, int]  # stage, head, key or feature
Target = Callable[[Place], float]


@dataclass(frozen=True, slots=True)
class Difference:
    """A result and what it should be; `ratio` is how far they are apart, 1 the most allowed."""

    place: Place
    written: Decimal
    wanted: float
    ratio: float


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """The steps of a row; `difference` is the worst from the engine's float64 where one is too
    coarse for this row to come out as on paper."""

    digits: Digits
    steps: tuple[Step, ...]
    difference: Difference | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One head up to its masked scores: all that the number of carried digits decides."""

    sheet: Sheet
    steps: tuple[Step, ...]
    masked: Decimals
    v: Sequence[Decimals]

    def softmax(self, digits: Digits) -> tuple[Sequence[Step], Decimals]:
        """The steps to the weights, and the weights; none where the row sees no key."""
        if not self.sheet.visible:
            return [], []
        return softmax(replace(self.sheet, digits=digits), self.masked)


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """All heads up to their masked scores, and the steps that they share."""

    shared: Sequence[Step]
    parts: Sequence[Part]

    def weights(self, digits: Digits) -> list[Step]:
        return [step for part in self.parts for step in part.softmax(digits)[0]]

    def page(self, digits: Digits) -> Page:
        """The whole page with these digits."""
        steps, contexts = list(self.shared), {}
        for part in self.parts:
            made, weights = part.softmax(digits)
            sheet = replace(part.sheet, digits=digits)
            contexts[sheet.head] = context(sheet, weights, part.v)
            steps += [*part.steps, *made, contexts[sheet.head]]
        steps += outputs(replace(self.parts[0].sheet, digits=digits), contexts)
        return Page(digits, tuple(steps))


def settled(row: Row, heads: Sequence[int], terms: int | None) -> Page:
    """The page with the fewest digits whose results are the engine's to the last digit shown.

    Where there is none, since float64 itself rounds more than that, the results are those of paper.
    """

    def draft(carried: int) -> Draft:
        return _draft(row, heads, carried, terms)

    def traced(place: Place) -> float:
        return _traced(row, place)

    projected = row.inputs.output_projection is not None
    page = _search(draft, traced, projected=projected)
    if page is not None:
        return page
    exact = draft(MOST_DIGITS).page(Digits(*[MOST_DIGITS] * 4))
    wanted = {place: float(line.result) for place, line in _results(exact.steps)}
    page = _search(draft, wanted.__getitem__, projected=projected) or exact
    return replace(page, difference=_worst(exact.steps, traced))


def _search(draft: Callable[[int], Draft], target: Target, *, projected: bool) -> Page | None:
    """The first page that agrees with `target`, from the fewest carried digits to the most.

    Weights and context have no fewer digits than the output, and no more than are carried.
    """
    carried = READABLE
    while carried <= MOST_DIGITS:
        made = draft(carried)
        for weights in range(READABLE, carried + 1):
            digits = Digits(carried, weights, READABLE, READABLE)
            off = _ratio_of(made.weights(digits), target)
            if weights == READABLE:
                missing = off
            for before_output in range(READABLE, (weights if projected else READABLE) + 1):
                if off > 1:
                    break
                page = made.page(replace(digits, context=before_output))
                if _ratio_of(page.steps, target) <= 1:
                    return page
        carried += _more(missing)
    return None


def _more(ratio: float) -> int:
    """How many more digits to carry where results are off by so many times what is allowed."""
    return max(1, int(math.log10(ratio))) if 0 < ratio < math.inf else 1


def _ratio_of(steps: Sequence[Step], target: Target) -> float:
    worst = _worst(steps, target)
    return 0.0 if worst is None else worst.ratio


def _worst(steps: Sequence[Step], target: Target) -> Difference | None:
    """The result that is farthest from what it should be."""
    differences = (
        Difference(place, line.result, wanted, _ratio(line, wanted))
        for place, line in _results(steps)
        for wanted in [target(place)]
    )
    return max(differences, key=lambda difference: difference.ratio, default=None)


def _ratio(line: Line, wanted: float) -> float:
    """How far a result is from a number, relative to half of its last digit."""
    shown = line.result
    if math.isnan(wanted) or math.isinf(wanted):
        same = shown.is_nan() if math.isnan(wanted) else float(shown) == wanted
        return 0.0 if same else math.inf
    if not shown.is_finite():
        return math.inf
    half = float(Decimal(1).scaleb(line.ends.unit(shown))) / 2
    apart = float(abs(shown - Decimal(wanted)))
    return apart / (half * (1 + 1e-6) + 4 * EPS * abs(wanted) + 5e-324)


def _results(steps: Sequence[Step]) -> Iterator[tuple[Place, Line]]:
    """The results that are worked out and that the engine has, too.

    A context that is yet to be projected is none: it has the digits that the output needs.
    """
    projected = any(step.stage == "output" and step.operation == "dot" for step in steps)
    stages = ("weights", "output") if projected else ("weights", "context")
    for step in steps:
        if step.stage in stages and step.operation != "same":
            for line in step.lines:
                if line.terms and line.index is not None:
                    yield (step.stage, step.head, line.index), line


def _traced(row: Row, place: Place) -> float:
    stage, head, index = place
    return float(row[stage][index] if head is None else row[stage][head, index])


def _draft(row: Row, heads: Sequence[int], carried: int, terms: int | None) -> Draft:
    digits = Digits(*[carried] * 4)
    shared, x = vector(sheet_of(row, heads[0], digits, terms))
    return Draft(shared, [_part(sheet_of(row, head, digits, terms), x) for head in heads])


def _part(sheet: Sheet, x: Decimals) -> Part:
    """One head: where q, k and v came from, and the scores."""
    steps, q = query(sheet, x)
    made, k, v = keys_and_values(sheet)
    steps += made
    if not sheet.visible:
        hidden = hidden_keys(sheet)
        none = Step("masked", "hide", "−∞ where hidden", (), sheet.head, hidden=hidden)
        return Part(sheet, (*steps, none), [], v)
    scores, masked = masked_scores(sheet, q, k)
    return Part(sheet, (*steps, *scores), masked, v)
