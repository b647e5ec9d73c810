"""Decoders of the GPT line, and others whose q, k and v come out of one matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attn_cli.errors import InputError
from attn_cli.models.checkpoint import rules
from attn_cli.models.checkpoint.family import ANYWHERE, At, Attention, Family, Stack
from attn_cli.models.checkpoint.fields import Fields
from attn_cli.models.checkpoint.sizes import Size

_LEARNED = rules.always("learned")
_ONE = Size(1, "multi_query (one key/value head)", "multi_query")


def falcon_kv_heads(fields: Fields) -> Size | None:
    """Falcon's key/value heads: as many as said in the new architecture, else one or all."""
    if fields.flag("new_decoder_architecture"):
        return fields.size("kv_heads")
    return _ONE if fields.flag("multi_query") else None


def one_if_multi_query(fields: Fields) -> Size | None:
    """One key/value head with multi_query, else as many as heads."""
    return _ONE if fields.flag("multi_query") else None


def gpt2_scale(at: At) -> float:
    """1/√d_k unless switched off, and divided by the layer's number where that is asked for."""
    scale: float = at.d_k**-0.5 if at.fields.flag("scale_attn_weights") else 1.0
    by_layer = at.fields.flag("scale_attn_by_inverse_layer_idx")
    return scale / (at.index + 1) if by_layer else scale


def neo_word(at: At) -> str | None:
    """GPT-Neo: attention_types [[["global", "local"], 12]], each list so many times."""
    words: list[Any] = at.fields.items("attention_layers")
    if not words:
        for entry in at.fields.items("attention_types"):
            if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], list)):
                raise InputError(f"{at.fields.place}has attention_types that are no pairs")
            times = entry[1] if type(entry[1]) is int else 0
            words += entry[0] * min(times, at.count)
    return str(words[at.index]) if at.index < len(words) else "global"


GPT2 = Attention(
    module="attn",
    qkv="c_attn",
    o="c_proj",
    conv1d=True,
    bias={"qkvo": True},
)

FUSED: Mapping[str, Family] = {
    "gpt2": Family(
        (Stack(layers="h.{}", attention=(GPT2,), scale=gpt2_scale, positions=_LEARNED),)
    ),
    "openai-gpt": Family((Stack(layers="h.{}", attention=(GPT2,), positions=_LEARNED),)),
    "gpt_bigcode": Family(
        (
            Stack(
                layers="h.{}",
                attention=(
                    Attention(module="attn", qkv="c_attn", o="c_proj", bias={"qkvo": True}),
                ),
                kv_heads=one_if_multi_query,
                scale=lambda at: None if at.fields.flag("scale_attn_weights") else 1.0,
                positions=_LEARNED,
            ),
        )
    ),
    "gpt_neo": Family(
        (
            Stack(
                layers="h.{}",
                attention=(Attention(module="attn.attention", o="out_proj", bias={"o": True}),),
                kinds=neo_word,
                window=rules.sliding("window_size"),
                scale=rules.constant(1.0),
                positions=_LEARNED,
            ),
        )
    ),
    "gpt_neox": Family(
        (
            Stack(
                attention=(
                    Attention(
                        module="attention",
                        qkv="query_key_value",
                        o="dense",
                        bias={"qkvo": "attention_bias"},
                    ),
                )
            ),
        )
    ),
    "gptj": Family((Stack(layers="h.{}", attention=(Attention(module="attn", o="out_proj"),)),)),
    "codegen": Family(
        (
            Stack(
                layers="h.{}",
                attention=(
                    Attention(
                        module="attn", qkv="qkv_proj", o="out_proj", ignored=("causal_mask",)
                    ),
                ),
            ),
        )
    ),
    "bloom": Family(
        (
            Stack(
                layers="h.{}",
                attention=(
                    Attention(
                        module="self_attention",
                        qkv="query_key_value",
                        o="dense",
                        bias={"qkvo": True},
                    ),
                ),
                positions=rules.always("alibi"),
            ),
        )
    ),
    "falcon": Family(
        (
            Stack(
                layers="h.{}",
                attention=(
                    Attention(
                        module="self_attention",
                        qkv="query_key_value",
                        o="dense",
                        bias={"qkvo": "bias"},
                    ),
                ),
                kv_heads=falcon_kv_heads,
                positions=rules.either("alibi", "alibi", "rope"),
            ),
        )
    ),
    "mpt": Family(
        (
            Stack(
                layers="blocks.{}",
                attention=(Attention(module="attn", qkv="Wqkv", o="out_proj"),),
                scale=rules.number("attn_config.softmax_scale"),
                positions=rules.either("attn_config.alibi", "alibi", "learned"),
            ),
        )
    ),
    "phi3": Family((Stack(attention=(Attention(qkv="qkv_proj"),), window=rules.everywhere()),)),
    "persimmon": Family(
        (
            Stack(
                attention=(Attention(qkv="query_key_value", o="dense", bias={"qkvo": True}),),
                kv_heads=lambda fields: None,
            ),
        )
    ),
    "modernbert-decoder": Family(
        (
            Stack(
                attention=(Attention(module="attn", o="Wo", bias={"qkvo": "attention_bias"}),),
                kv_heads=lambda fields: None,
                kinds=rules.listed(
                    "layer_types",
                    otherwise=rules.every("global_attn_every_n_layers", last=False, full=3),
                ),
                window=lambda at: _half(rules.sliding("local_attention")(at), own=False),
            ),
        )
    ),
    "nomic_bert": Family(
        (
            Stack(
                layers="encoder.layers.{}",
                within=ANYWHERE,
                attention=(Attention(module="attn", qkv="Wqkv", o="out_proj"),),
                causal=False,
            ),
        )
    ),
    "modernbert": Family(
        (
            Stack(
                within=ANYWHERE,
                attention=(
                    Attention(module="attn", qkv="Wqkv", o="Wo", bias={"qkvo": "attention_bias"}),
                ),
                causal=False,
                kinds=rules.listed(
                    "layer_types",
                    otherwise=rules.every("global_attn_every_n_layers", last=False, full=3),
                ),
                window=lambda at: _half(rules.sliding("local_attention")(at)),
            ),
        )
    ),
}


def _half(window: int | None, *, own: bool = True) -> int | None:
    """Of so many keys on both sides together, those of one side, and the query's own."""
    return None if window is None else window // 2 + own
