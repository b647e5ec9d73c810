"""asking: the questions that one look into a model may be asked, and what watches for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attn_cli.core.findings import Finding, Place, note
from attn_cli.core.head_condition import Met, met
from attn_cli.core.masks import BoolArray
from attn_cli.core.model_answers import Answers
from attn_cli.core.model_calls import CallFacts
from attn_cli.core.model_health import Health
from attn_cli.core.results_model import CallFigures
from attn_cli.workflows.model.ablated_tokens import ablated
from attn_cli.workflows.model.ablation import Taken, ablation
from attn_cli.workflows.model.ablation_findings import ablation_findings
from attn_cli.workflows.model.alarms import alarm_findings
from attn_cli.workflows.model.findings import named
from attn_cli.workflows.model.flow import FlowMarks, flow
from attn_cli.workflows.model.health import health
from attn_cli.workflows.model.questions import Questions
from attn_cli.workflows.model.real_rows import real_queries
from attn_cli.workflows.model.sensitive import sensitive
from attn_cli.workflows.model.sequences import Marked

if TYPE_CHECKING:
    from attn_cli.models.hf.call import Observer
    from attn_cli.models.hf.head_likeness import HeadLikeness
    from attn_cli.models.hf.inputs import ModelInputs
    from attn_cli.models.hf.layer_kl import LayerKl
    from attn_cli.models.hf.options import InputOptions
    from attn_cli.models.hf.pair_weights import PairWeights
    from attn_cli.workflows.model.report import Watched

NAMED = 6  # heads that meet a condition and are named


@dataclass(frozen=True, slots=True, eq=False)
class Watching:
    """The observers of the questions that were asked, and the tokens that they are about."""

    questions: Questions
    flow: PairWeights | None = None
    sensitive: PairWeights | None = None
    matched: str = ""
    ablate: PairWeights | None = None
    taken: tuple[Marked, tuple[Any, ...]] | None = None
    likeness: HeadLikeness | None = None
    kl: LayerKl | None = None

    @property
    def observers(self) -> list[Observer]:
        """Those that there are."""
        every = (self.flow, self.sensitive, self.ablate, self.likeness, self.kl)
        return [each for each in every if each is not None]


def watching(questions: Questions, inputs: ModelInputs, given: InputOptions) -> Watching:
    """What has to watch the model's run; InputError where a question is about no token."""
    from attn_cli.models.hf.head_likeness import HeadLikeness
    from attn_cli.models.hf.layer_kl import LayerKl
    from attn_cli.models.hf.pair_weights import PairWeights
    from attn_cli.models.hf.reading import texts_of

    def real(facts: CallFacts) -> BoolArray:
        return real_queries(inputs, facts)

    made: dict[str, Any] = {}
    if questions.sides is not None:
        made["flow"] = PairWeights(FlowMarks(inputs, questions.sides))
    if questions.sensitive is not None:
        marked, made["matched"] = sensitive(inputs, questions.sensitive, texts_of(given))
        made["sensitive"] = PairWeights(marked.onto)
    if questions.ablate is not None:
        made["taken"] = ablated(inputs, questions.ablate)
        made["ablate"] = PairWeights(made["taken"][0].onto)
    if questions.health:
        made |= {"likeness": HeadLikeness(real), "kl": LayerKl(real)}
    return Watching(questions, **made)


def answers(
    watching: Watching,
    watched: Watched,
    chosen: Sequence[CallFacts],
    heads: tuple[int, ...] | None,
    figures: Sequence[CallFigures],
    tell: Callable[[str], None],
) -> Answers:
    """The answers: flows of the chosen calls and heads, health of all calls."""
    asked = watching.questions
    every = tuple(head for call in figures for head in call.heads)
    conditions = tuple(met(condition, every) for condition in asked.conditions)
    parts: dict[str, Any] = {}
    if watching.flow is not None:
        matched = "token" if any(s.pattern for s in asked.sides or ()) else ""
        parts["flow"] = flow(
            asked.flow or "", watching.flow, chosen, watched.inputs, heads, matched=matched
        )
    if watching.sensitive is not None:
        parts["sensitive"] = flow(
            asked.sensitive or "",
            watching.sensitive,
            chosen,
            watched.inputs,
            heads,
            matched=watching.matched,
        )
    if watching.ablate is not None:
        parts["ablation"] = _ablation(watching, watched, chosen, tell)
    if watching.likeness is not None:
        parts["health"] = _health(watching, watched)
    made = Answers(**parts, met=conditions)
    return Answers(**parts, met=conditions, findings=tuple(_findings(made)))


def _ablation(
    watching: Watching, watched: Watched, chosen: Sequence[CallFacts], tell: Callable[[str], None]
) -> Any:
    assert watching.taken is not None
    assert watching.ablate is not None
    marked, tokens = watching.taken
    taken = Taken(
        loaded=watched.loaded,
        inputs=watched.inputs,
        outputs=watched.capture.outputs,
        asked=watching.questions.ablate or "",
        tokens=tokens,
        marked=marked,
    )
    return ablation(taken, chosen, watching.ablate.sums, tell)


def _health(watching: Watching, watched: Watched) -> Health:
    assert watching.likeness is not None
    assert watching.kl is not None
    calls = watched.capture.coverage.calls
    rows = {}
    for facts in calls:
        values = watched.statistics.values(facts.place)
        empty = watched.statistics.rows[facts.place].empty
        real = real_queries(watched.inputs, facts)[:, None]
        rows[facts.order] = (
            values["normalized_entropy"],
            np.asarray(real & ~empty & (values["visible_keys"] > 1)),
        )
    return health(
        calls,
        rows,
        watching.likeness,
        watching.kl,
        texts=watched.inputs.batch,
        sustained=watching.questions.sustained,
    )


def _findings(made: Answers) -> Iterator[Finding]:
    if made.health is not None:
        yield from alarm_findings(made.health)
    for each in made.met:
        if each.heads:
            yield _condition(each)
        if each.lost:
            yield _no_numbers(each)
    if made.ablation is not None:
        yield from ablation_findings(made.ablation)
    if made.sensitive is not None:
        yield note(
            "sensitive",
            "what a token gives is passed on in later layers without being looked at again: a low "
            "weight here is no proof that nothing leaks",
        )


def _no_numbers(each: Met) -> Finding:
    """The heads that a condition cannot be asked of, which is no pass."""
    first = each.lost[0]
    many = "1 head" if len(each.lost) == 1 else f"{len(each.lost):,} heads"
    words = f"{each.condition} cannot be asked of {many}, whose numbers NaN or inf took"
    return Finding(
        "fail-if",
        "error",
        f"{words}: {named(each.lost)}",
        Place(stage="weights", layer=first.layer, head=first.head),
    )


def _condition(each: Met) -> Finding:
    """The heads that meet a condition, by name and value."""
    name, first = each.condition.name, each.heads[0]
    several = len({head.stack for head in each.heads}) > 1
    words = ", ".join(
        f"{head.name(tower=several)} ({head.figure(name):.4g})" for head in each.heads[:NAMED]
    )
    more = f" and {len(each.heads) - NAMED:,} more" if len(each.heads) > NAMED else ""
    many = "1 head" if len(each.heads) == 1 else f"{len(each.heads):,} heads"
    return Finding(
        "fail-if",
        "error",
        f"{each.condition} holds for {many}: {words}{more}",
        Place(stage="weights", layer=first.layer, head=first.head),
    )
