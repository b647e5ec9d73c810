"""Real rows: which queries and keys of a call are tokens of the input, and no padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attn_cli.core.masks import BoolArray
from attn_cli.core.model_calls import CallFacts

if TYPE_CHECKING:
    from attn_cli.models.hf.inputs import ModelInputs


def real_queries(inputs: ModelInputs, facts: CallFacts) -> BoolArray:
    """(B, L): True where a query is no padding; all of a sequence that no padding is known of."""
    read = inputs.reads_text(facts)
    return _real(inputs if read else None, facts, facts.queries, decoder=in_decoder(inputs, facts))


def real_keys(inputs: ModelInputs, facts: CallFacts) -> BoolArray:
    """(B, S): the same of the keys, which cross-attention takes from the encoder."""
    decoder = in_decoder(inputs, facts) and not facts.cross
    read = inputs.reads_text_keys(facts)
    return _real(inputs if read else None, facts, facts.keys, decoder=decoder)


def in_decoder(inputs: ModelInputs, facts: CallFacts) -> bool:
    """Whether a call's queries are those of an encoder-decoder's decoder."""
    return bool(inputs.decoder_tokens) and "decoder" in facts.place.path


def _real(inputs: ModelInputs | None, facts: CallFacts, length: int, *, decoder: bool) -> BoolArray:
    """All are real where no `inputs` say another."""
    shape = facts.batch, length
    return np.ones(shape, bool) if inputs is None else unpadded(inputs, shape, decoder=decoder)


def unpadded(inputs: ModelInputs, shape: tuple[int, int], *, decoder: bool) -> BoolArray:
    """(B, n): what the attention mask of a sequence of this shape keeps; all without one."""
    mask = inputs.tensors.get("decoder_attention_mask" if decoder else "attention_mask")
    if mask is None or tuple(mask.shape) != shape:
        return np.ones(shape, bool)
    there: BoolArray = mask.detach().cpu().numpy() != 0
    return there
