"""model: load a checkpoint, run it once with attention watched, and say what the heads do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.findings import Finding
from attn_cli.core.masks import BoolArray
from attn_cli.core.model_calls import CallFacts
from attn_cli.core.provenance import provenance
from attn_cli.core.results_model import (
    CallFigures,
    HeadView,
    MaskProbe,
    ModelMask,
    ModelRead,
    ModelReport,
)
from attn_cli.core.statistics import RowSums
from attn_cli.errors import InputError, UndecidedError
from attn_cli.stats import STATISTICS
from attn_cli.workflows.model.asking import Watching, answers, watching
from attn_cli.workflows.model.distances import uniform_distance
from attn_cli.workflows.model.figures import call_figures
from attn_cli.workflows.model.findings import fine_words, report_findings
from attn_cli.workflows.model.full import Question, head_view
from attn_cli.workflows.model.masks import ReadMask, model_masks, read_seen
from attn_cli.workflows.model.options import ModelOptions
from attn_cli.workflows.model.probing import probed
from attn_cli.workflows.model.real_rows import real_queries
from attn_cli.workflows.model.runs import with_runs
from attn_cli.workflows.model.selection import (
    check_heads,
    checked_items,
    chosen_calls,
    chosen_heads,
)

if TYPE_CHECKING:
    from attn_cli.models.hf.around import AroundCalls
    from attn_cli.models.hf.call_keeper import CallKeeper
    from attn_cli.models.hf.capture import Capture
    from attn_cli.models.hf.inputs import ModelInputs
    from attn_cli.models.hf.loaded import LoadedModel
    from attn_cli.models.hf.mask_keeper import MaskKeeper
    from attn_cli.models.hf.row_statistics import RowStatistics

Array = NDArray[Any]
Busy = Callable[[str], None]  # what is being done, where nobody can say how far it is


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """One captured forward: what it read, what it returned, and what its observers hold."""

    loaded: LoadedModel
    inputs: ModelInputs
    capture: Capture
    statistics: RowStatistics
    masks: MaskKeeper
    calls: CallKeeper
    around: AroundCalls
    read: tuple[ReadMask, ...]
    asked: Watching

    def mask_of(self, facts: CallFacts) -> ReadMask:
        """The mask that a call had."""
        return self.read[self.masks.of[facts.place]]

    def visible(self, facts: CallFacts) -> BoolArray | None:
        """(b, h, L, S), or None where everything is visible."""
        return self.mask_of(facts).visible


def model(options: ModelOptions, *, busy: Busy | None = None) -> ModelReport:
    """Everything that there is to say of a model's attention on one input.

    InputError or UnsupportedError for what cannot be loaded, read or is not there. UndecidedError
    where the model gives another output while it is watched, and where none of its layers is
    softmax attention.
    """
    from attn_cli.models.hf.loading import load
    from attn_cli.models.hf.reading import read_inputs

    tell = busy or (lambda words: None)
    _check_options(options)
    tell("loading the model")
    loaded = load(options.load)
    inputs = read_inputs(loaded, options.given)
    items = checked_items(options.items, inputs.batch)
    tell("running the model")
    watched = watch(loaded, inputs, options)
    report = with_runs(_report(options, watched, items, tell), options, watched, items, tell)
    if options.prometheus is None:
        return report
    from attn_cli.workflows.model.prometheus import write_prometheus

    write_prometheus(report, options.prometheus)
    return replace(report, saved=(*report.saved, options.prometheus))


def _check_options(options: ModelOptions) -> None:
    for given, option in ((options.queries, "--query"), (options.all_rows or None, "--rows")):
        if given is not None and not options.full:
            raise InputError(
                f"{option} is for the rows of one head's view, and no head is chosen",
                hint="for example --layer 0 --head 0",
            )
    if options.save is not None:
        from attn_cli.workflows.model.saving import check_destination

        check_destination(options.save, force=options.force)
    if options.prometheus is not None:
        from attn_cli.workflows.model.prometheus import check_prometheus

        check_prometheus(options.prometheus, force=options.force)


def watch(loaded: LoadedModel, inputs: ModelInputs, options: ModelOptions) -> Watched:
    """The model run once, with what the report needs kept; UndecidedError as in `model`."""
    from attn_cli.models.hf.around import AroundCalls
    from attn_cli.models.hf.call_keeper import CallKeeper
    from attn_cli.models.hf.capture import capture
    from attn_cli.models.hf.diagonals import NEXT_WEIGHT, PREVIOUS_WEIGHT, SELF_WEIGHT
    from attn_cli.models.hf.mask_keeper import MaskKeeper
    from attn_cli.models.hf.row_statistics import RowStatistics

    wanted = options.layers if options.full or options.save is not None else ()
    ahead = [] if loaded.kind == "decoder" else [NEXT_WEIGHT]
    rows = [STATISTICS[name] for name in STATISTICS]
    figures: list[Any] = [*rows, SELF_WEIGHT, PREVIOUS_WEIGHT, *ahead]
    statistics = RowStatistics(figures)
    masks, around = MaskKeeper(), AroundCalls()
    calls = CallKeeper(lambda facts: wanted is None or facts.layer in wanted)
    asked = watching(options.questions, inputs, options.given)
    with around.watching(loaded.model):
        seen = capture(loaded, inputs, [statistics, masks, calls, around, *asked.observers])
    if not seen.coverage.calls:
        raise UndecidedError(
            f"no layer of {loaded.architecture} is softmax attention: there is nothing to report",
            hint=seen.coverage.sentence,
        )
    read = tuple(read_seen(mask) for mask in masks.masks)
    return Watched(loaded, inputs, seen, statistics, masks, calls, around, read, asked)


def _report(
    options: ModelOptions, watched: Watched, items: tuple[int, ...], tell: Busy
) -> ModelReport:
    coverage = watched.capture.coverage
    chosen = chosen_calls(coverage.calls, options.layers)
    check_heads(chosen, options.heads)
    figures = tuple(_figures(options, watched, chosen, items))
    views = tuple(_views(options, watched, chosen, items)) if options.full else ()
    tell("changing tokens")
    checks = probed(watched)
    saved: tuple[str, ...] = ()
    if options.save is not None:
        from attn_cli.workflows.model.saving import save_calls

        tell("saving stages")
        saved = save_calls(options, watched, chosen)
    found = answers(watched.asked, watched, chosen, options.heads, figures, tell)
    assert watched.capture.check is not None
    return ModelReport(
        read=_read(options, watched),
        coverage=coverage,
        output=watched.capture.check,
        calls=figures,
        masks=tuple(_masks(watched)),
        checks=checks,
        findings=(*_findings(watched, figures, checks), *found.findings),
        provenance=provenance(watched.loaded.dtype, str(watched.loaded.device)),
        transformers=str(sys.modules["transformers"].__version__),
        narrowed=options.layers is not None or options.heads is not None,
        fine=(*fine_words(() if views else figures, checks), *found.fine),
        views=views,
        saved=saved,
        answers=found,
    )


def _figures(
    options: ModelOptions, watched: Watched, chosen: tuple[CallFacts, ...], items: tuple[int, ...]
) -> Iterator[CallFigures]:
    far: dict[tuple[int, int | None], Array] = {}
    for facts in chosen:
        index = watched.masks.of[facts.place]
        key = (index, facts.q_offset)
        if key not in far:
            far[key] = uniform_distance(
                watched.visible(facts), facts.queries, facts.keys, facts.q_offset or 0
            )
        picked = items if facts.batch == watched.inputs.batch else tuple(range(facts.batch))
        every = far[key]
        yield call_figures(
            facts,
            _picked(watched.statistics.values(facts.place), picked),
            _of_items(watched.statistics.rows[facts.place], picked),
            real_queries(watched.inputs, facts)[list(picked)],
            every if every.shape[0] == 1 else every[list(picked)],
            mask=index,
            heads=chosen_heads(facts, options.heads),
        )


def _picked(values: Mapping[str, Array], items: tuple[int, ...]) -> dict[str, Array]:
    return {name: value[list(items)] for name, value in values.items()}


def _of_items(sums: RowSums, items: tuple[int, ...]) -> RowSums:
    """The rows of some batch items."""
    names = ("maximum", "lse", "log_z", "weight_sum", "shifted", "visible", "empty")
    arrays = {name: getattr(sums, name)[list(items)] for name in names}
    return RowSums(**arrays, expected=_picked(sums.expected, items), aligned=sums.aligned)


def _views(
    options: ModelOptions, watched: Watched, chosen: tuple[CallFacts, ...], items: tuple[int, ...]
) -> Iterator[HeadView]:
    """The one head in every call of the one layer, an item each."""
    assert options.heads is not None
    (head,) = options.heads
    for facts in chosen:
        if head >= facts.heads:
            continue
        for item in items if facts.batch == watched.inputs.batch else range(facts.batch):
            if (asked := _question(watched, facts, item, head)) is not None:
                listed, every = options.rows_listed, options.all_rows
                yield head_view(asked, options.queries, listed=listed, every=every)


def _question(watched: Watched, facts: CallFacts, item: int, head: int) -> Question | None:
    """None where an item is nothing but padding."""
    rows = np.flatnonzero(real_queries(watched.inputs, facts)[item])
    if not rows.size:
        return None
    queries, keys = watched.inputs.labels_of(facts)
    return Question(
        call=watched.calls.kept[facts.place],
        head=head,
        item=item,
        rows=rows,
        mask=watched.mask_of(facts),
        source=str(facts.place),
        query_labels=None if queries is None else queries[item],
        key_labels=None if keys is None else keys[item],
        before=watched.around.before(facts.place),
        after=watched.around.after(facts.place),
    )


def _masks(watched: Watched) -> Iterator[ModelMask]:
    calls = watched.capture.coverage.calls
    return model_masks(
        calls,
        watched.masks.masks,
        watched.read,
        {facts.order: watched.masks.of[facts.place] for facts in calls},
        {facts.order: real_queries(watched.inputs, facts) for facts in calls},
    )


def _findings(
    watched: Watched, figures: tuple[CallFigures, ...], checks: tuple[MaskProbe, ...]
) -> tuple[Finding, ...]:
    notes = (*watched.loaded.notes, *watched.inputs.notes)
    odd = (finding for read in watched.read for finding in read.findings)
    said = {finding.message: finding for finding in (*notes, *odd)}
    return (*said.values(), *report_findings(figures, checks))


def _read(options: ModelOptions, watched: Watched) -> ModelRead:
    loaded, inputs = watched.loaded, watched.inputs
    return ModelRead(
        source=options.load.source,
        architecture=loaded.architecture,
        kind=loaded.kind,
        dtype=loaded.dtype,
        device=str(loaded.device),
        backend=loaded.backend,
        positions=loaded.positions,
        random_weights=loaded.random,
        seed=options.load.seed,
        given=_given(options),
        batch=inputs.batch,
        tokens=inputs.tokens,
        decoder_tokens=inputs.decoder_tokens,
        lengths=inputs.lengths,
    )


def _given(options: ModelOptions) -> str:
    """What was read, in a word or two."""
    given = options.given
    if given.drawn is not None:
        return f"a random input, seed {given.seed}"
    named = {"image": given.image, "text file": given.text_file, "tokens": given.tokens_file}
    said = [f"{word} {name}" for word, name in named.items() if name is not None]
    said += ["text"] if given.texts else []
    said += ["ids"] if given.input_ids else []
    return " and ".join(said)
