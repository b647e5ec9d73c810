"""What a run leaves behind: the stages that were asked for, watchers, progress, one trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.engine import Ask, Seen
from attn_cli.core.trace import CONTEXT_AXES, SCORE_AXES, STAGES, Trace
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from attn_cli.stats import STATISTICS
from tests.agreement.holding import STEPWISE, lse_of, run
from tests.agreement.samples import SAMPLES, drawn

every_engine = pytest.mark.parametrize("engine", STEPWISE)


def asked(engine: str, ask: Ask, sample: str = "everything") -> Trace:
    return ENGINES[engine].run(SAMPLES[sample](), ask)


@every_engine
def test_nothing_is_kept_that_nobody_asked_for(engine: str) -> None:
    trace = asked(engine, Ask())
    assert trace.stages == {}
    assert trace.stats == {}
    assert trace.top is None
    assert trace.cosine is None
    assert lse_of(trace).shape == trace.empty.shape == (2, 4, 6)


@every_engine
def test_what_is_kept_comes_in_the_order_of_the_formula(engine: str) -> None:
    trace = asked(engine, Ask(keep=frozenset({"context", "scores", "weights"})))
    assert list(trace.stages) == ["scores", "weights", "context"]
    assert trace.stages["weights"].axes == SCORE_AXES
    assert trace.stages["context"].axes == CONTEXT_AXES


@every_engine
def test_a_step_that_was_not_taken_shows_the_stage_before_it(engine: str) -> None:
    inputs = drawn(1, batch=2, scale=1.0)
    trace = ENGINES[engine].run(inputs, Ask(keep=frozenset({"masked", "scaled"})))
    scores = run(engine, inputs)["scores"]
    for name in ("scaled", "masked"):
        np.testing.assert_array_equal(trace[name], scores)


@every_engine
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_arrays_have_the_precision_that_was_asked_for(engine: str, dtype: str) -> None:
    trace = run(engine, drawn(1), dtype)
    for name in STAGES:
        assert trace[name].dtype == dtype, name
        assert trace.stages[name].dtype == dtype
    assert (trace.provenance.dtype, trace.provenance.device) == (dtype, "cpu")


@every_engine
def test_watchers_see_every_item_and_what_is_visible(engine: str) -> None:
    seen: list[Seen] = []
    kept: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []

    def watch(stage: Seen) -> None:
        seen.append(stage)
        kept.append(stage.array.copy())

    ask = Ask(watch={"masked": [watch], "context": [watch]}, keep=frozenset({"masked", "context"}))
    trace = asked(engine, ask)
    assert [(s.stage, s.batch) for s in seen] == [
        ("masked", 0), ("context", 0), ("masked", 1), ("context", 1),
    ]  # fmt: skip
    for stage, array in zip(seen, kept, strict=True):
        np.testing.assert_array_equal(array, trace[stage.stage][stage.batch])
        np.testing.assert_array_equal(stage.visible, SAMPLES["everything"]().visible(stage.batch))


@every_engine
def test_watchers_see_all_stages_also_of_steps_that_change_nothing(engine: str) -> None:
    names: list[str] = []
    watch = {stage: [lambda seen: names.append(seen.stage)] for stage in STAGES}
    ENGINES[engine].run(drawn(1, scale=1.0), Ask(watch=watch))
    assert names == list(STAGES)


@every_engine
def test_progress_counts_items(engine: str) -> None:
    told: list[tuple[int, int]] = []
    asked(engine, Ask(progress=lambda done, total: told.append((done, total))), "heads")
    assert told == [(1, 3), (2, 3), (3, 3)]


@every_engine
def test_numbers_do_not_depend_on_what_is_kept(engine: str) -> None:
    lean = asked(engine, Ask(stats=[STATISTICS["entropy"]], top=2))
    whole = run(engine, SAMPLES["everything"]())
    np.testing.assert_array_equal(lean.stats["entropy"], whole.stats["entropy"])
    assert lean.top
    assert whole.top
    np.testing.assert_array_equal(lean.top.keys, whole.top.keys[..., :2])


def test_a_stage_that_is_not_there_is_named_with_those_that_are() -> None:
    trace = asked("numpy", Ask(keep=frozenset({"weights"})))
    with pytest.raises(InputError, match=r"does not hold 'masked' \(it holds weights\)"):
        trace["masked"]


@every_engine
def test_inputs_are_left_as_they_came(engine: str) -> None:
    inputs = SAMPLES["everything"]()
    before = replace(inputs, q=inputs.q.copy(), k=inputs.k.copy(), v=inputs.v.copy())
    for array in (inputs.q, inputs.k, inputs.v):
        array.flags.writeable = False
    run(engine, inputs, "float32")
    for name in ("q", "k", "v"):
        np.testing.assert_array_equal(getattr(inputs, name), getattr(before, name))
