"""Encoders: BERT and its kin, and the towers of images and sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from attn_cli.models.checkpoint import rules
from attn_cli.models.checkpoint.family import ANYWHERE, At, Attention, Family, Mixer, Stack
from attn_cli.models.checkpoint.fields import Fields

_LEARNED = rules.always("learned")
_KINDS_OF_POSITIONS: dict[str, str | None] = {
    "relative_key": "relative",
    "relative_key_query": "relative",
    "rotary": "rope",
}

BERT_ATTENTION = Attention(
    module="attention",
    q="self.query",
    k="self.key",
    v="self.value",
    o="output.dense",
    bias={"qkvo": True},
    ignored=(r"^self\.distance_embedding\.",),
)
BERT = Stack(
    layers="encoder.layer.{}",
    within=ANYWHERE,
    attention=(BERT_ATTENTION,),
    causal="is_decoder",
    positions=rules.chosen("position_embedding_type", _KINDS_OF_POSITIONS, "learned"),
)

# ViT calls the module of q, k, v by its parent's name.
VIT_ATTENTION = Attention(
    module="attention",
    q="attention.query",
    k="attention.key",
    v="attention.value",
    o="output.dense",
    bias={"qkv": "qkv_bias", "o": True},
)
VIT = Stack(
    layers="encoder.layer.{}",
    within=ANYWHERE,
    attention=(VIT_ATTENTION,),
    causal=False,
    positions=_LEARNED,
)

BART_ATTENTION = Attention(o="out_proj", bias={"qkvo": True})
CLIP = Stack(
    layers="encoder.layers.{}",
    within=ANYWHERE,
    attention=(BART_ATTENTION,),
    causal=False,
    positions=_LEARNED,
)

_SOUND = Stack(
    layers="encoder.layers.{}",
    within=ANYWHERE,
    attention=(replace(BART_ATTENTION, module="attention"),),
    causal=False,
    positions=rules.always(None),
)
_QWEN_VISION = Stack(
    layers="blocks.{}",
    within=ANYWHERE,
    attention=(Attention(module="attn", qkv="qkv", o="proj", bias={"qkvo": True}),),
    causal=False,
    words={"layers": ("depth",), "heads": ("num_heads",)},
)
_TILES = {"tiles": Mixer("softmax", "attention within tiles of the picture")}
_T5_RELATIVE = rules.always("relative")


def albert_group(fields: Fields, index: int) -> int:
    """ALBERT's layers share weights in groups of neighbours."""
    layers = fields.needed("layers").value
    groups = fields.count("num_hidden_groups") or 1
    return int(index / (layers / groups))


def tiled_word(at: At) -> str | None:
    """Qwen 2.5 VL: all of the picture in the blocks of fullatt_block_indexes, else its tiles."""
    return "attention" if at.index in at.fields.items("fullatt_block_indexes") else "tiles"


def deberta_scale(at: At) -> float:
    """1/√(d_k · n), n the terms that are added: content, and each kind of position."""
    words = at.fields.found("pos_att_type")
    said = words[1] if words else ""
    kinds = said.split("|") if isinstance(said, str) else at.fields.items("pos_att_type")
    terms = 1 + ("c2p" in kinds) + ("p2c" in kinds)
    return float((at.d_k * terms) ** -0.5)


_SEPARATE = replace(BERT_ATTENTION, q="query", k="key", v="value", o="dense")

ENCODERS: Mapping[str, Family] = {
    **dict.fromkeys(
        (
            "bert",
            "roberta",
            "xlm-roberta",
            "xlm-roberta-xl",
            "camembert",
            "electra",
            "ernie",
            "megatron-bert",
            "rembert",
            "data2vec-text",
            "layoutlm",
            "splinter",
            "roberta-prelayernorm",
            "esm",
        ),
        Family((BERT,)),
    ),
    "roformer": Family((replace(BERT, positions=rules.always("rope")),)),
    "albert": Family(
        (
            replace(
                BERT,
                layers="albert_layer_groups.{}.albert_layers.0",
                attention=(_SEPARATE,),
                number=albert_group,
                causal=False,
            ),
        )
    ),
    "distilbert": Family(
        (
            Stack(
                layers="transformer.layer.{}",
                within=ANYWHERE,
                attention=(
                    Attention(
                        module="attention",
                        q="q_lin",
                        k="k_lin",
                        v="v_lin",
                        o="out_lin",
                        bias={"qkvo": True},
                    ),
                ),
                causal=False,
                positions=rules.either("sinusoidal_pos_embds", "sinusoidal", "learned"),
            ),
        )
    ),
    "mpnet": Family(
        (
            replace(
                BERT,
                attention=(
                    Attention(
                        module="attention.attn", q="q", k="k", v="v", o="o", bias={"qkvo": True}
                    ),
                ),
                causal=False,
                positions=_T5_RELATIVE,
            ),
        )
    ),
    "deberta-v2": Family(
        (
            replace(
                BERT,
                attention=(
                    replace(
                        BERT_ATTENTION,
                        q="self.query_proj",
                        k="self.key_proj",
                        v="self.value_proj",
                        ignored=(r"^self\.pos_(key|query)_proj\.",),
                    ),
                ),
                causal=False,
                positions=rules.either("relative_attention", "relative", "learned"),
                scale=deberta_scale,
            ),
        )
    ),
    **dict.fromkeys(
        ("vit", "deit", "vit_mae", "vit_msn", "dinov2", "dinov2_with_registers", "ijepa"),
        Family((VIT,)),
    ),
    "dinov3_vit": Family(
        (
            Stack(
                layers="layer.{}",
                within=ANYWHERE,
                attention=(
                    Attention(
                        module="attention",
                        bias={
                            "q": "query_bias",
                            "k": "key_bias",
                            "v": "value_bias",
                            "o": "proj_bias",
                        },
                    ),
                ),
                causal=False,
            ),
        )
    ),
    "eurobert": Family((Stack(causal=False, attention=(Attention(),)),)),
    "clip_text_model": Family((replace(CLIP, causal=True),)),
    "clip_vision_model": Family((CLIP,)),
    "siglip_text_model": Family((CLIP,)),
    "siglip_vision_model": Family((CLIP,)),
    "idefics3_vision": Family((CLIP,)),
    "pixtral": Family(
        (
            Stack(
                layers="transformer.layers.{}",
                within=ANYWHERE,
                attention=(Attention(module="attention"),),
                causal=False,
            ),
        )
    ),
    "qwen2_vl_vision": Family((replace(_QWEN_VISION, d_model=rules.same_field("embed_dim")),)),
    "qwen2_5_vl_vision": Family((replace(_QWEN_VISION, kinds=tiled_word, mixers=_TILES),)),
    "qwen3_vl_vision": Family((_QWEN_VISION,)),
    **dict.fromkeys(("wav2vec2", "hubert", "unispeech-sat", "unispeech"), Family((_SOUND,))),
}
