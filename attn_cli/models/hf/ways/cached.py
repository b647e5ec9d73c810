"""cache and chunks: a text read piece by piece, with a cache, is the text read at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from attn_cli.core.results_model_ways import WayCheck
from attn_cli.models.hf.ways.bench import Bench, Text, unfit
from attn_cli.models.hf.ways.holding import Holding
from attn_cli.models.hf.ways.spans import Span, Spans

NAMES = ("cache", "past_key_values")  # as forwards have called it, the newest first
STEPS = 8  # tokens that are decoded one by one
CHUNKS = 3


def cache(bench: Bench, text: Text) -> Iterator[WayCheck]:
    """Prefill, then a token at a time: as many as STEPS, half the text at most."""
    size = _size(text)
    steps = min(STEPS, max(1, size // 2))
    cuts = [0, *range(size - steps, size + 1)]
    words = f"prefill of {size - steps:,}, then {steps} token{'s' if steps > 1 else ''} one by one"
    yield _pieces(bench, text, "cache", words, cuts)


def chunks(bench: Bench, text: Text) -> Iterator[WayCheck]:
    """The prefill in CHUNKS parts."""
    size = _size(text)
    step = max(1, -(-size // CHUNKS))
    cuts = [*range(0, size, step), size]
    yield _pieces(bench, text, "chunks", f"prefill in chunks of {step:,} tokens", cuts)


def _size(text: Text) -> int:
    """The length of the text that is generated."""
    return len(text.under or text.ids or ())


def _pieces(bench: Bench, text: Text, name: str, words: str, cuts: Sequence[int]) -> WayCheck:
    why = _why_not(bench, text)
    if why:
        words = {"cache": "prefill, then one token at a time", "chunks": "prefill in chunks"}[name]
        return unfit(name, name, words, why)
    given = next(each for each in NAMES if bench.loaded.takes(each))
    held, extra = Holding(text.alone, _spans(text, 0, 0)), dict[str, Any]()
    for start, stop in pairwise(cuts):
        held.spans = _spans(text, start, stop)
        inputs = _piece(bench, text, start, stop)
        more = {**extra, **_positions(bench, start, stop)}
        raw = bench.run(held, inputs, use_cache=True, **more).raw
        kept = next((raw[each] for each in NAMES if raw.get(each) is not None), None)
        if kept is None:
            why = f"{bench.loaded.architecture} returns no cache"
            return unfit(name, name, words, why)
        extra[given] = kept
        if text.under is not None:
            extra["encoder_outputs"] = (raw["encoder_last_hidden_state"],)
    return bench.result(name, name, words, text, held)


def _why_not(bench: Bench, text: Text) -> str:
    loaded = bench.loaded
    if text.ids is None:
        return "only a text of ids alone is read piece by piece"
    if loaded.kind == "encoder":
        return "an encoder has no cache: every token sees those behind it"
    if not (loaded.takes("use_cache") and any(map(loaded.takes, NAMES))):
        return f"{loaded.architecture} takes no cache"
    if _size(text) < 2:
        which = "the decoder's text" if text.under is not None else "the text"
        return f"{which} is one token: nothing would come out of a cache"
    return ""


def _spans(text: Text, start: int, stop: int) -> Spans:
    piece = Span(at=0, first=start, count=stop - start)
    if text.under is None:
        return Spans(piece)
    return Spans(Span(count=text.length), piece)


def _piece(bench: Bench, text: Text, start: int, stop: int) -> Any:
    """Ids of the piece; the mask has all tokens until its end."""
    if text.under is not None:
        assert text.ids is not None
        inputs = bench.of_ids([text.ids], [text.under[start:stop]])
        tensors = dict(inputs.tensors)
        tensors.pop("decoder_attention_mask", None)
        return replace(inputs, tensors=tensors)
    assert text.ids is not None
    inputs = bench.of_ids([text.ids[start:stop]])
    if "attention_mask" in inputs.tensors:
        inputs = inputs.with_tensors(attention_mask=bench.tensor([[1] * stop]))
    return inputs


def _positions(bench: Bench, start: int, stop: int) -> dict[str, Any]:
    """position_ids, as generation gives them."""
    loaded = bench.loaded
    if loaded.kind != "decoder" or not loaded.takes("position_ids"):
        return {}
    first = bench.first_position
    return {"position_ids": bench.tensor([range(first + start, first + stop)])}
