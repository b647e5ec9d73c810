"""Decoders with separate projections, as Llama names them: q_proj, k_proj, v_proj, o_proj."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from attn_cli.models.checkpoint import rules
from attn_cli.models.checkpoint.family import At, Attention, Family, Stack

HEAD_NORMS = {"q_norm.weight": "d_k", "k_norm.weight": "d_k"}
WIDE_NORMS = {"q_norm.weight": "heads*d_k", "k_norm.weight": "kv_heads*d_k"}
EACH_NORMS = {"q_norm.weight": "heads d_k", "k_norm.weight": "kv_heads d_k"}

PLAIN = Attention()
BIASED = Attention(bias={"qkvo": "attention_bias"})
QKV_BIASED = Attention(bias={"qkv": "attention_bias"})


def nope(at: At) -> str | None:
    """Positions of a layer that no_rope_layers may say has none, else every fourth."""
    turned = at.fields.items("no_rope_layers")
    if len(turned) > at.index:
        return "rope" if turned[at.index] else None
    step = at.fields.count("no_rope_layer_interval") or 4
    return "rope" if (at.index + 1) % step else None


def rope_where_sliding(at: At) -> str | None:
    """Positions of a model whose full layers have none, as long as there is a window at all."""
    plain = at.fields.count("sliding_window") is not None and at.word == "full_attention"
    return None if plain else "rope"


def chunks(at: At) -> int | None:
    """Llama 4 attends in chunks where it turns q and k, unless the types of the layers say else."""
    chunked = at.word == "chunked_attention"
    return at.fields.count("attention_chunk_size") if chunked else None


def chunk_words(at: At) -> str | None:
    """What Llama 4 calls a layer for which there are no layer_types."""
    return "full_attention" if nope(at) is None else "chunked_attention"


def nope_words(at: At) -> str | None:
    """SmolLM 3 slides, where it does, in the layers without positions."""
    slides = at.fields.flag("use_sliding_window") and nope(at) is None
    return "sliding_attention" if slides else "full_attention"


def in_use(at: At) -> int | None:
    """The same window in every layer where use_sliding_window is true."""
    return at.fields.count("sliding_window") if at.fields.flag("use_sliding_window") else None


def gemma_window(at: At) -> int | None:
    """Gemma 3's window; where it attends both ways it is given as the keys of both sides."""
    window = rules.sliding()(at)
    both = window is not None and at.fields.flag("use_bidirectional_attention")
    return window // 2 + 1 if both and window is not None else window


def moe_words(at: At) -> str | None:
    """Qwen 2 MoE: every other layer slides, below max_window_layers."""
    below = at.index < (at.fields.count("max_window_layers") or 0)
    slides = at.fields.flag("use_sliding_window") and below and (at.index + 1) % 2
    return "sliding_attention" if slides else "full_attention"


def _family(attention: Attention = PLAIN, stack: Stack | None = None) -> Family:
    return Family((replace(stack or Stack(), attention=(attention,)),))


_SLIDING = Stack(window=rules.everywhere())
_FROM_LAYER = Stack(
    kinds=rules.listed("layer_types", otherwise=rules.from_layer("max_window_layers")),
    window=rules.sliding(flag="use_sliding_window"),
)


def _alternating(full: int, **more: object) -> Stack:
    """One layer of `full` sees everything, the last of each; layer_types say so where given."""
    otherwise = rules.every("sliding_window_pattern", full=full)
    stack = Stack(kinds=rules.listed("layer_types", otherwise=otherwise), window=rules.sliding())
    return replace(stack, **more)  # type: ignore[arg-type]


_GEMMA_SCALE = rules.inverse_root("query_pre_attn_scalar")
_MULTIPLIER = Stack(scale=rules.number("attention_multiplier"))

DECODERS: Mapping[str, Family] = {
    "llama": _family(BIASED),
    "mistral": _family(PLAIN, _SLIDING),
    "ministral3": _family(PLAIN, _SLIDING),
    "mixtral": _family(PLAIN, _SLIDING),
    "phimoe": _family(BIASED, _SLIDING),
    "qwen2": _family(Attention(bias={"qkv": True}), _FROM_LAYER),
    "qwen2_moe": _family(
        Attention(bias={"qkv": "qkv_bias"}),
        replace(_FROM_LAYER, kinds=rules.listed("layer_types", otherwise=moe_words)),
    ),
    "qwen3": _family(replace(BIASED, also=HEAD_NORMS), _FROM_LAYER),
    "qwen3_moe": _family(replace(BIASED, also=HEAD_NORMS), Stack(window=in_use)),
    "gemma": _family(BIASED),
    "gemma2": _family(
        BIASED,
        _alternating(2, scale=_GEMMA_SCALE, softcap=rules.number("attn_logit_softcapping")),
    ),
    "gemma3_text": _family(
        replace(BIASED, also=HEAD_NORMS),
        _alternating(
            6,
            scale=_GEMMA_SCALE,
            softcap=rules.number("attn_logit_softcapping"),
            causal="!use_bidirectional_attention",
            window=gemma_window,
        ),
    ),
    "vaultgemma": _family(
        BIASED,
        _alternating(2, scale=_GEMMA_SCALE, softcap=rules.number("attn_logit_softcapping")),
    ),
    "olmo": _family(BIASED),
    "olmo2": _family(replace(BIASED, also=WIDE_NORMS)),
    "olmo3": _family(replace(BIASED, also=WIDE_NORMS), _alternating(4)),
    "olmoe": _family(replace(BIASED, also=WIDE_NORMS)),
    "flex_olmo": _family(replace(BIASED, also=WIDE_NORMS)),
    "cohere": _family(replace(BIASED, also=EACH_NORMS, also_if="use_qk_norm")),
    "cohere2": _family(BIASED, _alternating(4, positions=rope_where_sliding)),
    "granite": _family(BIASED, _MULTIPLIER),
    "granitemoe": _family(BIASED, _MULTIPLIER),
    "starcoder2": _family(Attention(bias={"qkvo": "use_bias"}), _SLIDING),
    "stablelm": _family(Attention(bias={"qkv": "use_qkv_bias"})),
    "smollm3": _family(
        BIASED,
        Stack(
            kinds=rules.listed("layer_types", otherwise=nope_words),
            window=rules.sliding(flag="use_sliding_window"),
            positions=nope,
        ),
    ),
    "phi": _family(Attention(o="dense", bias={"qkvo": True})),
    "gpt_oss": _family(replace(BIASED, also={"sinks": "heads"}), _alternating(2, sinks=True)),
    "llama4_text": _family(
        BIASED,
        Stack(
            kinds=rules.listed("layer_types", otherwise=chunk_words), chunk=chunks, positions=nope
        ),
    ),
    "glm": _family(QKV_BIASED),
    "glm4": _family(QKV_BIASED),
    "glm4_moe": _family(
        replace(QKV_BIASED, also=HEAD_NORMS, also_if="use_qk_norm"),
        Stack(extra_layers="num_nextn_predict_layers"),
    ),
    "exaone4": _family(Attention(also=HEAD_NORMS), _alternating(4, positions=rope_where_sliding)),
    "ernie4_5": _family(Attention(bias={"qkvo": "use_bias"})),
    "ernie4_5_moe": _family(Attention(bias={"qkvo": "use_bias"})),
    "helium": _family(QKV_BIASED),
    "arcee": _family(BIASED),
    "apertus": _family(replace(BIASED, also=HEAD_NORMS)),
    "nemotron": _family(BIASED),
    "bitnet": _family(replace(BIASED, also={"attn_sub_norm.weight": "d_model"})),
    "seed_oss": _family(Attention(bias={"qkv": "attention_bias", "o": "attention_out_bias"})),
    "minimax_m2": _family(replace(PLAIN, also=WIDE_NORMS), Stack(extra_layers="num_mtp_modules")),
    "opt": _family(
        Attention(o="out_proj", bias={"qkvo": "enable_bias"}),
        Stack(positions=rules.always("learned")),
    ),
    "biogpt": _family(
        Attention(o="out_proj", bias={"qkvo": True}), Stack(positions=rules.always("learned"))
    ),
    "xglm": _family(
        Attention(o="out_proj", bias={"qkvo": True}), Stack(positions=rules.always("sinusoidal"))
    ),
}
