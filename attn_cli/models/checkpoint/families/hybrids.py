"""Hybrids: layers of softmax attention among others, and models that have none of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from attn_cli.errors import InputError
from attn_cli.models.checkpoint import rules
from attn_cli.models.checkpoint.families.decoders import BIASED, HEAD_NORMS, WIDE_NORMS
from attn_cli.models.checkpoint.family import At, Attention, Family, Mixer, Stack

_MAMBA2 = Mixer("state-space", "mamba-2", "mamba")
_WORDS = {"linear_attention": _MAMBA2, "mamba": _MAMBA2}
_DELTA = Mixer("linear", "gated delta-net", "linear_attn")
_NO_POSITIONS = rules.always(None)
_PATTERN = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def nemotron_word(at: At) -> str | None:
    """Nemotron-H: one letter a layer, M for Mamba, * for attention, - for an MLP, E for experts."""
    pattern = at.fields.text("hybrid_override_pattern")
    if not pattern:
        return rules.listed("layers_block_type", "layer_types")(at)
    if len(pattern) < at.count:
        raise InputError(
            f"{at.fields.place}has {len(pattern)} letters in hybrid_override_pattern for "
            f"{at.count} layers: expected one a layer"
        )
    return _PATTERN.get(pattern[at.index], pattern[at.index])


def bamba_word(at: At) -> str | None:
    """Attention in the layers that attn_layer_indices lists."""
    return "attention" if at.index in at.fields.items("attn_layer_indices") else "mamba"


def lfm2_word(at: At) -> str | None:
    """Attention in the layers that full_attn_idxs lists, else everywhere."""
    places = at.fields.items("full_attn_idxs")
    return "full_attention" if not places or at.index in places else "conv"


def minimax_word(at: At) -> str | None:
    """MiniMax: attn_type_list says 1 for softmax attention; without it every other layer is."""
    said = at.fields.items("attn_type_list")
    softmax = said[at.index] == 1 if at.index < len(said) else bool((at.index + 1) % 2)
    return "full_attention" if softmax else "linear_attention"


def delta_word(at: At) -> str | None:
    """Qwen3-Next: attention in every fourth layer, unless layer_types say else."""
    step = at.fields.count("full_attention_interval") or 4
    return "linear_attention" if (at.index + 1) % step else "full_attention"


def _state_space(says: str, module: str = "mixer", layers: str = "layers.{}") -> Family:
    mixer = Mixer("state-space", says, module)
    stack = Stack(layers=layers, attention=(), mixers={"mixer": mixer})
    return Family((replace(stack, kinds=rules.always("mixer")),))


_QWEN_NEXT = Stack(
    attention=(Attention(gated=True, bias={"qkvo": "attention_bias"}, also=HEAD_NORMS),),
    kinds=rules.listed("layer_types", otherwise=delta_word),
    mixers={"linear_attention": _DELTA},
)

HYBRIDS: Mapping[str, Family] = {
    "jamba": Family(
        (
            Stack(
                attention=(Attention(),),
                kinds=rules.period("attn_layer_period", "attn_layer_offset"),
                positions=_NO_POSITIONS,
            ),
        )
    ),
    "bamba": Family(
        (
            Stack(
                attention=(BIASED,),
                kinds=rules.listed("layers_block_type", "layer_types", otherwise=bamba_word),
                mixers=_WORDS,
            ),
        )
    ),
    "granitemoehybrid": Family(
        (
            Stack(
                attention=(BIASED,),
                kinds=rules.listed(
                    "layer_types", "layers_block_type", otherwise=rules.always("mamba")
                ),
                mixers=_WORDS,
                scale=rules.number("attention_multiplier"),
                positions=rules.chosen("position_embedding_type", {"rope": "rope"}, None),
            ),
        )
    ),
    "falcon_h1": Family((Stack(attention=(BIASED,), both=_MAMBA2),)),
    "nemotron_h": Family(
        (
            Stack(
                attention=(replace(BIASED, module="mixer"),),
                kinds=nemotron_word,
                mixers={
                    "mamba": replace(_MAMBA2, module="mixer"),
                    "linear_attention": replace(_MAMBA2, module="mixer"),
                },
                positions=_NO_POSITIONS,
                counted_by=("hybrid_override_pattern", "layers_block_type", "layer_types"),
            ),
        )
    ),
    "lfm2": Family(
        (
            Stack(
                attention=(
                    Attention(
                        o="out_proj",
                        also={"q_layernorm.weight": "d_k", "k_layernorm.weight": "d_k"},
                    ),
                ),
                kinds=rules.listed("layer_types", otherwise=lfm2_word),
            ),
        )
    ),
    "recurrent_gemma": Family(
        (
            Stack(
                attention=(
                    Attention(module="temporal_block", bias={"qkv": "attention_bias", "o": True}),
                ),
                kinds=rules.repeated("block_types"),
                window=rules.everywhere("attention_window_size"),
            ),
        )
    ),
    "qwen3_next": Family((_QWEN_NEXT,)),
    "qwen3_5_text": Family((_QWEN_NEXT,)),
    "qwen3_5_moe_text": Family((_QWEN_NEXT,)),
    "olmo_hybrid": Family(
        (
            Stack(
                attention=(replace(BIASED, also=WIDE_NORMS),),
                kinds=rules.listed("layer_types", otherwise=delta_word),
                mixers={"linear_attention": _DELTA},
            ),
        )
    ),
    "minimax": Family(
        (
            Stack(
                kinds=rules.listed("layer_types", otherwise=minimax_word),
                mixers={"linear_attention": Mixer("linear", "lightning attention", "self_attn")},
                window=rules.everywhere(),
            ),
        )
    ),
    "mamba": _state_space("mamba"),
    "falcon_mamba": _state_space("mamba"),
    "mamba2": _state_space("mamba-2"),
    "rwkv": _state_space("RWKV", "attention", "blocks.{}"),
}
