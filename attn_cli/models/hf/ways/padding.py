"""padding: a text with padding behind it or before it is the text alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from attn_cli.core.results_model_ways import WayCheck
from attn_cli.models.hf.inputs import ModelInputs, pad_id
from attn_cli.models.hf.ways.bench import Bench, Text, unfit
from attn_cli.models.hf.ways.holding import Holding
from attn_cli.models.hf.ways.spans import Span, Spans

LEAST, SHARE = 3, 4  # so much padding, or a quarter of the text
SIDES: tuple[Literal["right", "left"], ...] = ("right", "left")
PLACES = {"right": "behind", "left": "before"}


def padding(bench: Bench, text: Text) -> Iterator[WayCheck]:
    """Padding on the right, then on the left with the positions that count the tokens alone."""
    for side in SIDES:
        why = _why_not(bench, text, side)
        count = 0 if text.ids is None else _count(bench, text)
        words = f"padding {PLACES[side]} the text"
        if why:
            yield unfit("padding", side, words, why)
            continue
        inputs, spans, extra = _padded(bench, text, side, count)
        held = Holding(text.alone, spans)
        bench.run(held, inputs, **extra)
        yield bench.result("padding", side, words, text, held)


def _count(bench: Bench, text: Text) -> int:
    count = max(LEAST, text.length // SHARE)
    limit = bench.loaded.positions
    return count if limit is None else min(count, limit - text.length)


def _why_not(bench: Bench, text: Text, side: str) -> str:
    loaded = bench.loaded
    if text.ids is None:
        return "only a text of ids alone can be padded"
    if not loaded.takes("attention_mask"):
        return f"{loaded.architecture} takes no attention_mask, which would hide the padding"
    if _count(bench, text) < 1:
        return f"the text fills all {loaded.positions:,} positions"
    if side == "left" and bench.absolute and not _positions_known(bench):
        return f"{loaded.architecture} takes no position_ids: padding moves its tokens"
    return ""


def _positions_known(bench: Bench) -> bool:
    """Whether positions are given, or counted by the model from where the padding is not."""
    return bench.loaded.takes("position_ids") or bench.counted_pad is not None


def _padded(
    bench: Bench, text: Text, side: Literal["right", "left"], count: int
) -> tuple[ModelInputs, Spans, dict[str, Any]]:
    """The padded text, where its tokens are, and the positions that it is given."""
    assert text.ids is not None
    pads, size = (_pad(bench),) * count, text.length
    row = (*text.ids, *pads) if side == "right" else (*pads, *text.ids)
    under = None if text.under is None else [text.under]
    inputs = bench.of_ids([row], under)
    real = [1] * size + [0] * count if side == "right" else [0] * count + [1] * size
    inputs = inputs.with_tensors(attention_mask=bench.tensor([real]))
    extra: dict[str, Any] = {}
    own = bench.counted_pad is not None or bench.loaded.config.is_encoder_decoder
    if side == "left" and bench.loaded.takes("position_ids") and not own:
        extra["position_ids"] = bench.tensor([[0] * count + list(range(size))])
    at = 0 if side == "right" else count
    decoder = None if text.under is None else Span(count=len(text.under))
    return inputs, Spans(Span(at=at, count=size), decoder), extra


def _pad(bench: Bench) -> int:
    """The tokenizer's padding; without one the id that the model counts as no position."""
    tokenizer, counted = bench.loaded.tokenizer, bench.counted_pad
    if counted is not None and (tokenizer is None or tokenizer.pad_id is None):
        return counted
    return pad_id(bench.loaded)
