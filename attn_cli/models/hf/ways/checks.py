"""The checks of core.results_model_ways.CHECKS by name, run on every text of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from attn_cli.core.model_calls import ModelCoverage
from attn_cli.core.results_model_ways import WayCheck, joined
from attn_cli.models.hf.inputs import ModelInputs
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.ways.batch import batch
from attn_cli.models.hf.ways.bench import Bench, Text
from attn_cli.models.hf.ways.cached import cache, chunks
from attn_cli.models.hf.ways.packing import packing
from attn_cli.models.hf.ways.padding import padding

Check = Callable[[Bench, Text], Iterator[WayCheck]]
RUNNERS: Mapping[str, Check] = {
    "padding": padding,
    "cache": cache,
    "batch": batch,
    "chunks": chunks,
    "packing": packing,
}


def run_checks(
    loaded: LoadedModel,
    inputs: ModelInputs,
    coverage: ModelCoverage,
    names: Sequence[str],
    items: Sequence[int],
) -> tuple[WayCheck, ...]:
    """One result for every way of every check, over the chosen items of the batch."""
    bench = Bench.of(loaded, inputs, coverage)
    found: dict[tuple[str, str], list[WayCheck]] = {}
    for item in items:
        text = bench.text(item)  # one at a time: its stages are held in memory
        for name in names:
            for result in RUNNERS[name](bench, text):
                found.setdefault((result.name, result.way), []).append(result)
    return tuple(joined(results) for results in found.values())
