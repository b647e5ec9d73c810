"""ModelInputs: what a model's forward is given, and what its tokens are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from attn_cli.core.findings import Finding
from attn_cli.core.model_calls import CallFacts
from attn_cli.errors import InputError
from attn_cli.models.hf.loaded import LoadedModel

PICTURES = ("pixel_values", "flattened_patches", "image_patches", "image_pixel_values")
Labels = tuple[tuple[str, ...], ...]
PAD = "·"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ModelInputs:
    """The tensors by the names of the forward's parameters, a batch item a row.

    `tokens` are the labels of the main sequence, `decoder_tokens` those of the decoder of an
    encoder-decoder, `patches` those of a picture's or a sound's positions where they are known;
    padding has the pad token's label. `lengths` counts the real tokens of each item.
    """

    tensors: Mapping[str, Tensor]
    tokens: Labels = ()
    decoder_tokens: Labels = ()
    patches: Labels = ()
    lengths: tuple[int, ...] = ()
    notes: tuple[Finding, ...] = ()

    @property
    def batch(self) -> int:
        """How many items there are: texts, where there are any beside a picture."""
        first = next(iter(self.tensors.values()))
        return self.tensors.get("input_ids", first).shape[0]

    def labels_of(self, facts: CallFacts) -> tuple[Labels | None, Labels | None]:
        """What the queries and the keys of a call are called; None where that is not known."""
        return self._of_length(facts, facts.queries, facts.q_offset or 0), self._keys(facts)

    def only(self, item: int) -> ModelInputs:
        """One batch item alone, padding included; what all items share, such as a picture, stays.

        The only item stays as it is: a picture in pieces has a row for each.
        """
        if self.batch == 1:
            return self
        part = slice(item, item + 1)
        return replace(
            self,
            tensors={
                name: tensor[part] if tensor.shape[0] == self.batch else tensor
                for name, tensor in self.tensors.items()
            },
            tokens=self.tokens[part],
            decoder_tokens=self.decoder_tokens[part],
            patches=self.patches[part],
            lengths=self.lengths[part],
        )

    def with_tensors(self, **changed: Tensor) -> ModelInputs:
        """The same with some tensors in place of others; labels stay."""
        return replace(self, tensors={**self.tensors, **changed})

    def reads_text(self, facts: CallFacts) -> bool:
        """Whether a call's queries can be tokens: a tower may be as long as the text by chance."""
        return not facts.place.tower

    def reads_text_keys(self, facts: CallFacts) -> bool:
        """The same of its keys, which cross-attention beside a picture takes from the picture."""
        of_picture = facts.cross and not self.decoder_tokens and "input_ids" in self.tensors
        return not facts.place.tower and not (of_picture and self._pictured)

    @property
    def _pictured(self) -> bool:
        return any(name in self.tensors for name in PICTURES)

    def _keys(self, facts: CallFacts) -> Labels | None:
        if facts.cross:
            sides = (self.tokens if self.reads_text_keys(facts) else (), self.patches)
            return next((s for s in sides if s and len(s[0]) == facts.keys), None)
        return self._of_length(facts, facts.keys, 0)

    def _of_length(self, facts: CallFacts, length: int, start: int) -> Labels | None:
        """The sequence that a call is over, by its tower and its length."""
        in_decoder = "decoder" in facts.place.path and bool(self.decoder_tokens)
        tokens = self.tokens if self.reads_text(facts) else ()
        sides = (self.decoder_tokens,) if in_decoder else (tokens, self.patches)
        for side in sides:
            if side and len(side) == facts.batch and len(side[0]) in (length, start + length):
                return tuple(each[-length:] for each in side)
        return None


def inputs_of_ids(
    loaded: LoadedModel,
    rows: Sequence[Sequence[int]],
    *,
    decoder: Sequence[Sequence[int]] | None = None,
    labels: Labels | None = None,
    decoder_labels: Labels | None = None,
    side: Literal["right", "left"] = "right",
) -> ModelInputs:
    """A batch of ids, padded to the longest on one side, with its attention mask.

    An encoder-decoder without `decoder` ids starts from its start token. InputError for ids that
    are not in the vocabulary and rows that are empty or longer than the positions.
    """
    check_ids(loaded, rows)
    pad = pad_id(loaded)
    ids, mask = _padded(rows, pad, side)
    tensors = {"input_ids": ids, "attention_mask": mask}
    said = labels or tuple(tuple(_label(loaded, i) for i in row) for row in rows)
    made = ModelInputs(
        tensors={n: t.to(loaded.device) for n, t in tensors.items() if loaded.takes(n)},
        tokens=_even(said, _label(loaded, pad), side),
        lengths=tuple(len(row) for row in rows),
    )
    return with_decoder(loaded, made, decoder=decoder, labels=decoder_labels, side=side)


def with_decoder(
    loaded: LoadedModel,
    inputs: ModelInputs,
    *,
    decoder: Sequence[Sequence[int]] | None = None,
    labels: Labels | None = None,
    side: Literal["right", "left"] = "right",
) -> ModelInputs:
    """With what the decoder of an encoder-decoder reads: its start token where nothing is given.

    Any other model's inputs stay as they are. InputError as `inputs_of_ids`.
    """
    if not (loaded.config.is_encoder_decoder and loaded.takes("decoder_input_ids")):
        return inputs
    pad, starts = pad_id(loaded), decoder or [[_start(loaded)]] * inputs.batch
    check_ids(loaded, starts)
    ids, mask = _padded(starts, pad, side)
    tensors = {"decoder_input_ids": ids}
    if decoder and loaded.takes("decoder_attention_mask"):
        tensors["decoder_attention_mask"] = mask
    said = labels or tuple(tuple(_label(loaded, i) for i in row) for row in starts)
    made = inputs.with_tensors(**{name: each.to(loaded.device) for name, each in tensors.items()})
    return replace(made, decoder_tokens=_even(said, _label(loaded, pad), side))


def check_ids(loaded: LoadedModel, rows: Sequence[Sequence[int]]) -> None:
    """InputError unless every row fits the vocabulary and the positions."""
    size = loaded.text_config.vocab_size
    for number, row in enumerate(rows):
        which = f"text {number}" if len(rows) > 1 else "the text"
        if not row:
            raise InputError(f"{which} has no token")
        if loaded.positions is not None and len(row) > loaded.positions:
            raise InputError(
                f"{which} has {len(row):,} tokens and the model {loaded.positions:,} positions",
                hint=f"give at most {loaded.positions:,} tokens",
            )
        bad = next((i for i in row if not 0 <= i < size), None)
        if bad is not None:
            raise InputError(
                f"{which} has the id {bad}: the vocabulary has {size:,} (0 to {size - 1:,})"
            )


def _padded(rows: Sequence[Sequence[int]], pad: int, side: str) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), pad)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    for number, row in enumerate(rows):
        part = slice(0, len(row)) if side == "right" else slice(longest - len(row), longest)
        ids[number, part] = torch.tensor(list(row))
        mask[number, part] = 1
    return ids, mask


def _even(labels: Labels, pad: str, side: str) -> Labels:
    longest = max(map(len, labels))
    fill = [(pad,) * (longest - len(row)) for row in labels]
    pairs = zip(labels, fill, strict=True)
    return tuple(row + more if side == "right" else more + row for row, more in pairs)


def _label(loaded: LoadedModel, token_id: int) -> str:
    return f"#{token_id}" if loaded.tokenizer is None else loaded.tokenizer.label(token_id)


def pad_id(loaded: LoadedModel) -> int:
    """The id that fills up; it is masked, so that any will do where none is named."""
    own = None if loaded.tokenizer is None else loaded.tokenizer.pad_id
    said: Any = own if own is not None else getattr(loaded.text_config, "pad_token_id", None)
    return said if type(said) is int and 0 <= said < loaded.text_config.vocab_size else 0


def _start(loaded: LoadedModel) -> int:
    config = loaded.text_config
    names = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
    said = (getattr(source, name, None) for name in names for source in (loaded.config, config))
    return next((value for value in said if type(value) is int and value >= 0), 0)
