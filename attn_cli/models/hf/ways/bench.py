"""Bench: a model and its texts, each as it stands alone, for the ways that are held against it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attn_cli.core.model_calls import ModelCoverage
from attn_cli.core.results_model_ways import WayCheck
from attn_cli.models.hf.capture import Capture
from attn_cli.models.hf.inputs import ModelInputs, inputs_of_ids
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.ways.alone import Alone, run_alone
from attn_cli.models.hf.ways.holding import Holding, Seen
from attn_cli.models.hf.ways.running import layer_paths, run

TEXT = frozenset(("input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask"))
_POSITIONS = re.compile(r"^(w?pe|pos(ition)?s?_?(emb.*)?|embed_positions|.*position_embedding.*)$")


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """One item without padding. `ids` and `under` (the decoder's) are None of pictures and sound.

    `other` is another text of the same kind of ids, to stand beside it.
    """

    item: int
    inputs: ModelInputs
    ids: tuple[int, ...] | None
    under: tuple[int, ...] | None
    other: tuple[int, ...]
    alone: Alone

    @property
    def length(self) -> int:
        """How many tokens it has."""
        assert self.ids is not None
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """What all ways need: the model, what it was given, what is known of its layers."""

    loaded: LoadedModel
    inputs: ModelInputs
    coverage: ModelCoverage
    layers: tuple[str, ...]

    @classmethod
    def of(cls, loaded: LoadedModel, inputs: ModelInputs, coverage: ModelCoverage) -> Bench:
        return cls(loaded, inputs, coverage, layer_paths(coverage))

    def text(self, item: int) -> Text:
        """An item of the batch, run alone."""
        inputs = self.inputs.only(item)
        if not self.is_text:
            alone = run_alone(self.loaded, inputs, self.layers)
            return Text(item, inputs, None, None, (), alone)
        ids, under = self._ids(item, ""), self._ids(item, "decoder_")
        assert ids is not None
        inputs = self.of_ids([ids], None if under is None else [under])
        inputs = self._labelled(inputs, item)
        batch = self.inputs.batch
        other = ids[::-1] if batch == 1 else self._ids((item + 1) % batch, "") or ids
        alone = run_alone(self.loaded, inputs, self.layers)
        return Text(item, inputs, ids, under, other, alone)

    @property
    def is_text(self) -> bool:
        """Whether the input is ids alone, of which another text can be made."""
        return self.inputs.tensors.keys() <= TEXT and "input_ids" in self.inputs.tensors

    def of_ids(
        self, rows: Sequence[Sequence[int]], under: Sequence[Sequence[int]] | None = None
    ) -> ModelInputs:
        """Rows of ids of one length as inputs."""
        return inputs_of_ids(self.loaded, rows, decoder=under)

    def run(self, holding: Holding, inputs: ModelInputs, **extra: Any) -> Capture:
        """One forward, held."""
        return run(self.loaded, inputs, self.layers, holding, **extra)

    def result(self, name: str, way: str, words: str, text: Text, held: Holding) -> WayCheck:
        """What came of holding a text."""
        tokens = text.inputs.tokens[0] if text.inputs.tokens else ()
        under = text.inputs.decoder_tokens[0] if text.inputs.decoder_tokens else ()
        seen = Seen(self.coverage, tokens, under)
        return held.result(name, way, words, item=text.item, seen=seen)

    def tensor(self, values: Sequence[Sequence[int]]) -> Tensor:
        """Whole numbers on the model's device."""
        return torch.tensor([list(row) for row in values], device=self.loaded.device)

    @property
    def recurrent(self) -> str:
        """What else than softmax attention mixes tokens, in words; empty where nothing does."""
        for layer in self.coverage.layers:
            if not layer.softmax and layer.says != "no attention":
                return layer.says
            if "beside " in layer.says:
                return layer.says.partition("beside ")[2]
        return ""

    @property
    def absolute(self) -> bool:
        """Whether places in a text have embeddings of their own."""
        return bool(position_embeddings(self.loaded.model))

    @property
    def first_position(self) -> int:
        """The number of the first position: behind the padding's, where that has one."""
        return 0 if self.counted_pad is None else self.counted_pad + 1

    @property
    def counted_pad(self) -> int | None:
        """The id that is no position, of a model that counts positions by what is no padding."""
        tables = position_embeddings(self.loaded.model)
        numbers = (each.padding_idx for each in tables if isinstance(each, nn.Embedding))
        return next((number for number in numbers if number is not None), None)

    def _ids(self, item: int, side: str) -> tuple[int, ...] | None:
        ids = self.inputs.tensors.get(f"{side}input_ids")
        if ids is None:
            return None
        mask = self.inputs.tensors.get(f"{side}attention_mask")
        row = ids[item] if mask is None else ids[item][mask[item] != 0]
        return tuple(row.tolist())

    def _labelled(self, inputs: ModelInputs, item: int) -> ModelInputs:
        """With the labels that the input came with, less those of padding."""
        kept: dict[str, Any] = {}
        for name, side in (("tokens", ""), ("decoder_tokens", "decoder_")):
            said = getattr(self.inputs, name)
            mask = self.inputs.tensors.get(f"{side}attention_mask")
            if said and (mask is None or tuple(mask.shape) == (len(said), len(said[item]))):
                real = [True] * len(said[item]) if mask is None else (mask[item] != 0).tolist()
                row = tuple(token for token, own in zip(said[item], real, strict=True) if own)
                kept[name] = (row,)
        return replace(inputs, **kept)


def position_embeddings(model: nn.Module) -> list[Any]:
    """The tables of learned or fixed positions that a model adds to its tokens."""
    return [
        module
        for path, module in model.named_modules()
        if _POSITIONS.match(path.rpartition(".")[2])
        and "Embedding" in type(module).__name__
        and not any(word in type(module).__name__ for word in ("Rotary", "Relative", "Alibi"))
        and hasattr(module, "padding_idx")
    ]


def unfit(name: str, way: str, words: str, why: str) -> WayCheck:
    """A way that does not apply, and why."""
    return WayCheck(name=name, way=way, words=words, verdict=None, why=why)
