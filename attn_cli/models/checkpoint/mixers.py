"""Mixers: the words that configurations have for what mixes the tokens of a layer."""

from __future__ import annotations

from collections.abc import Mapping

from attn_cli.errors import InputError
from attn_cli.formats.names import quoted
from attn_cli.models.checkpoint.family import Mixer, Stack

SOFTMAX = Mixer("softmax", "attention")

MIXERS: Mapping[str, Mixer] = {
    "attention": SOFTMAX,
    "full_attention": SOFTMAX,
    "global": SOFTMAX,
    "sliding_attention": Mixer("softmax", "sliding-window attention"),
    "local": Mixer("softmax", "sliding-window attention"),
    "chunked_attention": Mixer("softmax", "chunked attention"),
    "linear_attention": Mixer("linear", "gated delta-net", "linear_attn"),
    "mamba": Mixer("state-space", "mamba", "mamba"),
    "mamba2": Mixer("state-space", "mamba-2", "mamba"),
    "conv": Mixer("convolution", "short convolution", "conv"),
    "recurrent": Mixer("state-space", "RG-LRU", "temporal_block"),
    "moe": Mixer("none", "feed-forward only"),
    "mlp": Mixer("none", "feed-forward only"),
}


def mixer_of(stack: Stack, word: str) -> Mixer:
    """What a word stands for in this stack; InputError where it is none that is known."""
    mixer = stack.mixers.get(word) or MIXERS.get(word)
    if mixer is None:
        raise InputError(
            f"config.json calls a layer {quoted(word)}, which this family does not have",
            hint=f"known: {', '.join({**MIXERS, **stack.mixers})}",
        )
    return mixer
