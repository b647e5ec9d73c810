"""explain_model: one row of one layer of a model, as one would write it on paper."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from attn_cli.core.dump import Dump
from attn_cli.core.engine import Ask
from attn_cli.core.explanation import Explanation
from attn_cli.core.findings import Finding, note
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.trace import Trace
from attn_cli.engines import ENGINES
from attn_cli.models.passage import Passage, passages
from attn_cli.recognize.one_array import load_array
from attn_cli.workflows.explain import ExplainOptions, Worked, explanation, work_out
from attn_cli.workflows.layers import trace_in_model
from attn_cli.workflows.model_reading import ModelReading, read_model
from attn_cli.workflows.one_kind import refuse_files
from attn_cli.workflows.selection import checked

DTYPE = "float64"
OUTPUT = frozenset({"output"})


def explain_model(dump: Dump, options: ExplainOptions) -> Explanation:
    """The row of query `options.query` in layer `options.layer`, or in layer 0.

    The layers before it are run as ever. Raises InputError as reading a model does.
    """
    refuse_files(context=options.context, weights=options.weights)
    reading = read_model(dump, options.choices, options.text)
    layers = reading.model.config.layers
    (layer,) = checked("layer", "--layer", (options.layer or 0,), layers)
    passage, worked = _at_layer(reading, options, layer)
    said = list(reading.findings)
    if options.layer is None and layers > 1:
        chosen = f"layer {layer} of {layers} is written out; --layer picks another"
        said.append(note("first-layer", chosen))
    return explanation(_in_model(worked, passage, said), options, layer=layer)


def _at_layer(reading: ModelReading, options: ExplainOptions, layer: int) -> tuple[Passage, Worked]:
    """The row worked out in its layer, and what is around that layer's attention."""

    def attend(number: int, inputs: AttentionInputs) -> Worked | Trace:
        if number == layer:
            return work_out(reading.layer(inputs), options)
        return ENGINES["numpy"].run(inputs, Ask(keep=OUTPUT, dtype=DTYPE))

    layers = passages(
        reading.model,
        reading.words,
        dtype=DTYPE,
        attend=attend,
        output=lambda made: (made.trace if isinstance(made, Worked) else made)["output"],
        load=load_array,
    )
    return next((passage, made) for passage, made in layers if isinstance(made, Worked))


def _in_model(worked: Worked, passage: Passage, said: Iterable[Finding]) -> Worked:
    """The row with its layer's own words for x, and with what is said of the whole model."""
    trace = trace_in_model(worked.trace, passage)
    how = passage.before[-1].formula
    steps = (
        replace(step, formula=how) if step.stage == "x" else step for step in worked.page.steps
    )
    return replace(
        worked,
        trace=replace(trace, findings=(*said, *trace.findings)),
        page=replace(worked.page, steps=tuple(steps)),
    )
