"""run_model: a model from Python, on a text, in one call."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath

from attn_cli import formats
from attn_cli.checks.run_checks import RunChecks
from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.model_results import ModelTrace
from attn_cli.core.settings import Choices, Scale
from attn_cli.core.trace import Trace
from attn_cli.engines import ENGINES
from attn_cli.errors import InputError
from attn_cli.models import is_model
from attn_cli.models.passage import Passage, passages
from attn_cli.recognize.one_array import load_array
from attn_cli.workflows.layers import trace_in_model
from attn_cli.workflows.model_reading import ModelReading, read_model
from attn_cli.workflows.predictions import predictions, said_of_logits
from attn_cli.workflows.run import RunOptions, compute


def run_model(
    model: str | PathLike[str],
    text: str,
    *,
    mask: str | Iterable[str] = (),
    scale: Scale | None = None,
    softcap: float | None = None,
    positions: str | None = None,
    engine: str = "numpy",
    dtype: str = "float64",
    device: str = "cpu",
) -> ModelTrace:
    """The model in a file on a text, as `attn run MODEL --text TEXT` computes it.

    `mask`, `scale`, `softcap` and `positions` change what the model's config says. Raises AttnError
    where the file holds no model or the text what is no token of it.

    >>> answer = run_model("sample_inputs/induction.safetensors", "a b c a")
    >>> answer.layers[1]["weights"].round(3)[0, 0, -1].tolist()  # `a` looks at `b`
    [0.0, 1.0, 0.0, 0.0]
    >>> answer.predictions[-1].next[0].token
    'b'
    """
    dump = formats.read(fspath(model))
    if not is_model(dump):
        raise InputError(f"{dump.source} holds no model", hint="attn_cli.run takes arrays")
    masks = (mask,) if isinstance(mask, str) else tuple(mask)
    choices = Choices(masks=masks, scale=scale, softcap=softcap, positions=positions)
    reading = read_model(dump, choices, text)
    around = _layers(reading, RunOptions(engine=engine, dtype=dtype, device=device))
    last, tokens = around[-1][0], reading.words.tokens
    return ModelTrace(
        tokens=tokens,
        layers=tuple(trace_in_model(trace, passage) for passage, trace in around),
        predictions=predictions(last, tokens, reading.model, range(len(tokens))),
        findings=(*reading.findings, *said_of_logits(last)),
    )


def _layers(reading: ModelReading, options: RunOptions) -> list[tuple[Passage, Trace]]:
    """Every layer's trace, with all of its stages, and the steps around it."""

    def attend(number: int, inputs: AttentionInputs) -> Trace:
        checks = RunChecks(inputs, file_precision=reading.summary.precision)
        return compute(
            reading.layer(inputs), options, checks, keep=ENGINES[options.engine].can.known(inputs)
        )

    layers = passages(
        reading.model,
        reading.words,
        dtype=options.dtype,
        attend=attend,
        output=lambda trace: trace["output"],
        load=load_array,
    )
    return list(layers)
