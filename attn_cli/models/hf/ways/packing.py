"""packing: a text packed between two others in one row is the text alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attn_cli.core.model_calls import CallPlace
from attn_cli.core.results_model_ways import WayCheck
from attn_cli.errors import InputError
from attn_cli.formats.names import quoted
from attn_cli.models.hf.blocks import stages_of
from attn_cli.models.hf.call import FILL, AttentionCall
from attn_cli.models.hf.inputs import ModelInputs
from attn_cli.models.hf.loading_errors import first_line
from attn_cli.models.hf.ways.bench import Bench, Text, unfit
from attn_cli.models.hf.ways.holding import Holding
from attn_cli.models.hf.ways.spans import Span, Spans

WAYS = {
    "position ids": "packed between two texts, by positions that restart",
    "document mask": "packed between two texts, by a mask of documents",
}


def packing(bench: Bench, text: Text) -> Iterator[WayCheck]:
    """By position ids that restart, and by a mask (1, 1, n, n) beside them."""
    for way, words in WAYS.items():
        why = _why_not(bench, text, masked=way == "document mask")
        yield unfit("packing", way, words, why) if why else _packed(bench, text, way, words)


def _packed(bench: Bench, text: Text, way: str, words: str) -> WayCheck:
    rows = [text.other, text.ids or (), text.other]
    at = len(text.other)
    inputs = _inputs(bench, rows, masked=way == "document mask")
    name = bench.loaded.architecture
    given = "a mask of documents" if way == "document mask" else "positions that restart"
    held = Watched(Holding(text.alone, Spans(Span(at=at, count=text.length))), at)
    try:
        bench.run(held, inputs)  # type: ignore[arg-type]
    except InputError as error:
        said = first_line(error.__cause__ or error)
        why = f"{name} cannot be given {given}: it stops with {quoted(said)}"
        return unfit("packing", way, words, why)
    if not held.parted:
        why = f"{name} does not part texts by {given}: each would see the others"
        return unfit("packing", way, words, why)
    return bench.result("packing", way, words, text, held.holding)


def _why_not(bench: Bench, text: Text, *, masked: bool) -> str:
    loaded = bench.loaded
    if text.ids is None:
        return "only a text of ids alone can be packed"
    if loaded.kind not in ("decoder", "encoder"):
        return f"{loaded.architecture} is no single stack that reads one row"
    if not loaded.takes("position_ids") and (bench.absolute or not masked):
        return f"{loaded.architecture} takes no position_ids: positions cannot restart"
    if bench.recurrent:
        return f"its {bench.recurrent} carries what it read from one text into the next"
    if masked and any(_windowed(facts.layer_type, facts.window) for facts in bench.coverage.calls):
        return "one mask for all layers would undo the windows of some"
    return ""


def _windowed(layer_type: str | None, window: int | None) -> bool:
    words = ("sliding", "chunked", "local")
    return window is not None or any(word in (layer_type or "") for word in words)


def _inputs(bench: Bench, rows: list[tuple[int, ...]], *, masked: bool) -> ModelInputs:
    inputs = bench.of_ids([rows[0]])  # each row is as long as the model reads, their sum may not be
    tensors = {"input_ids": bench.tensor([[i for row in rows for i in row]])}
    if bench.loaded.takes("position_ids"):
        first = bench.first_position
        counted = [[first + i for row in rows for i in range(len(row))]]
        tensors["position_ids"] = bench.tensor(counted)
    if masked:
        tensors["attention_mask"] = _document_mask(bench, [len(row) for row in rows])
    return replace(inputs, tensors=tensors, tokens=())


def _document_mask(bench: Bench, lengths: list[int]) -> Tensor:
    """0 within a document and the smallest number between two, as eager attention adds it."""
    device = bench.loaded.device
    owner = torch.repeat_interleave(torch.tensor(lengths))
    seen = owner[:, None] == owner
    if bench.loaded.kind == "decoder":
        seen = seen.tril()
    dtype = bench.loaded.model.dtype
    hidden = torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)
    return hidden[None, None].to(device)


class Watched:
    """Watcher: a holding, and whether any call hides the token before the text from its first."""

    def __init__(self, holding: Holding, at: int) -> None:
        self.holding, self.at, self.parted = holding, at, False

    def see(self, call: AttentionCall) -> None:
        if call.facts.queries > self.at:
            row = slice(self.at, self.at + 1)
            masked = stages_of(call, row, wanted=("biased", "masked"))
            before = masked["masked"][..., self.at - 1]
            self.parted |= bool((before <= FILL).all())
        self.holding.see(call)

    def layer(self, place: CallPlace, output: Any) -> None:
        self.holding.layer(place, output)

    def output(self, name: str, output: Any) -> None:
        self.holding.output(name, output)
