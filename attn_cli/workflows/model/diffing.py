"""diff of two models: the other one loaded, given the same tokens, and held layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from attn_cli.core.model_calls import CallFacts
from attn_cli.core.results_model_diff import ModelDiff, ModelSide
from attn_cli.errors import InputError

if TYPE_CHECKING:
    from attn_cli.models.hf.inputs import ModelInputs
    from attn_cli.models.hf.loaded import LoadedModel
    from attn_cli.models.hf.options import InputOptions, LoadOptions
    from attn_cli.workflows.model.report import Watched

Busy = Callable[[str], None]


def diff_models(watched: Watched, other: LoadOptions, given: InputOptions, tell: Busy) -> ModelDiff:
    """The watched model on the left, the other one on the right.

    InputError or UnsupportedError where the other cannot be loaded or does not take this input;
    UndecidedError where it gives another output while it is watched.
    """
    from attn_cli.models.hf.capture import capture
    from attn_cli.models.hf.loading import load
    from attn_cli.models.hf.ways.comparing import OneSide, compare_models
    from attn_cli.models.hf.ways.holding import Seen
    from attn_cli.models.hf.ways.pairing import unpaired

    right = load(other)
    loaded, inputs, coverage = watched.loaded, watched.inputs, watched.capture.coverage
    said = _tokens(right, inputs, given)
    if said:
        return ModelDiff(
            left=_side(loaded, coverage.calls),
            right=_side(right, ()),
            layers=(),
            output=None,
            tokens=said,
        )
    tell("running both models")
    moved = _moved(inputs, right)
    theirs = capture(right, moved).coverage
    one = inputs.batch == 1  # of several items nobody can say whose token a position is
    tokens, under = (
        side if one and side else ((),) for side in (inputs.tokens, inputs.decoder_tokens)
    )
    seen = Seen(coverage, tokens[0], under[0])
    found = compare_models(OneSide(loaded, inputs, coverage), OneSide(right, moved, theirs), seen)
    return ModelDiff(
        left=_side(loaded, coverage.calls),
        right=_side(right, theirs.calls),
        layers=found.layers,
        output=found.output,
        output_fault=found.output_fault,
        unpaired=unpaired(coverage.calls, theirs.calls),
    )


def _side(loaded: LoadedModel, calls: Sequence[CallFacts]) -> ModelSide:
    return ModelSide(
        source=loaded.source,
        architecture=loaded.architecture,
        dtype=loaded.dtype,
        backend=loaded.backend,
        device=str(loaded.device),
        calls=len(calls),
    )


def _moved(inputs: ModelInputs, right: LoadedModel) -> ModelInputs:
    """The left side's tensors for the right side: on its device, in its precision.

    InputError where the right side takes other things.
    """
    unknown = [name for name in inputs.tensors if not right.takes(name)]
    if unknown and unknown != ["attention_mask"]:
        raise InputError(
            f"the right side, {right.architecture}, takes no {' and no '.join(unknown)}, which the "
            "left side was given",
            hint="two models that read the same kind of input can be compared",
        )
    tensors = {
        name: tensor.to(right.device, right.model.dtype if tensor.is_floating_point() else None)
        for name, tensor in inputs.tensors.items()
        if name not in unknown
    }
    return replace(inputs, tensors=tensors)


def _tokens(right: LoadedModel, inputs: ModelInputs, given: InputOptions) -> str:
    """How the right side reads other tokens in the same text, in words; empty where it does not."""
    ids = inputs.tensors.get("input_ids")
    if ids is None:
        return ""
    size, largest = int(right.text_config.vocab_size), int(ids.max())
    if (given.texts or given.text_file or given.tokens_file) and right.tokenizer is not None:
        from attn_cli.models.hf.reading import read_inputs

        try:
            theirs = read_inputs(right, given)
        except InputError as error:
            return f"the right side cannot read the input: {error.message}"
        return _parting(inputs, theirs)
    if largest >= size:
        return f"the right side has no token {largest:,}: its vocabulary has {size:,}"
    return ""


def _parting(left: ModelInputs, right: ModelInputs) -> str:
    """The first token in which two readings part."""
    ours, theirs = left.tensors["input_ids"].tolist(), right.tensors["input_ids"].tolist()
    for item, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if mine == other:
            continue
        place = next((n for n, (a, b) in enumerate(zip(mine, other, strict=False)) if a != b), None)
        place = min(len(mine), len(other)) if place is None else place
        at = f"item {item}, token {place}" if len(ours) > 1 else f"token {place}"
        sides = (left.tokens[item], mine), (right.tokens[item], other)
        a, b = (_called(labels, ids, place) for labels, ids in sides)
        lengths = f"{len(mine):,} and {len(other):,} tokens"
        return f"the tokenizers read the text differently: {lengths}, first at {at}: {a} and {b}"
    return ""


def _called(labels: Sequence[str], ids: Sequence[int], place: int) -> str:
    return f"{labels[place]!r} ({ids[place]})" if place < len(ids) else "nothing"
