"""Encoders with decoders that attend to them: T5, BART, Whisper and their kin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from attn_cli.models.checkpoint import rules
from attn_cli.models.checkpoint.family import ANYWHERE, Attention, Family, Stack, Word

_T5 = Attention(q="q", k="k", v="v", o="o", ignored=(r"^relative_attention_bias\.weight$",))
_T5_SELF = replace(_T5, module="layer.0.SelfAttention")
_T5_CROSS = replace(_T5, module="layer.1.EncDecAttention", cross=True)

_SELF = Attention(o="out_proj", bias={"qkvo": True})
_CROSS = replace(_SELF, module="encoder_attn", cross=True)
_WHISPER_SELF = replace(_SELF, bias={"qvo": True})
_WHISPER_CROSS = replace(_CROSS, bias={"qvo": True})


def _bart(positions: Word, attention: Attention = _SELF, cross: Attention = _CROSS) -> Family:
    """The two towers; a checkpoint of the decoder or the encoder alone is one too."""
    tower = Stack(within=ANYWHERE, positions=positions)
    return Family(
        (
            replace(
                tower,
                name="encoder",
                layers="encoder.layers.{}",
                attention=(attention,),
                causal=False,
                words={"heads": ("encoder_attention_heads",), "layers": ("encoder_layers",)},
                optional=True,
            ),
            replace(
                tower,
                name="decoder",
                layers="decoder.layers.{}",
                attention=(attention, cross),
                words={"heads": ("decoder_attention_heads",), "layers": ("decoder_layers",)},
                optional=True,
            ),
        )
    )


def _t5() -> Family:
    tower = Stack(within=ANYWHERE, scale=rules.constant(1.0), positions=rules.always("relative"))
    encoder = replace(
        tower,
        name="encoder",
        layers="encoder.block.{}",
        attention=(_T5_SELF,),
        causal=False,
        words={"layers": ("num_layers",)},
    )
    decoder = replace(
        tower,
        name="decoder",
        layers="decoder.block.{}",
        attention=(_T5_SELF, _T5_CROSS),
        words={"layers": ("num_decoder_layers", "num_layers")},
        optional=True,
    )
    return Family((encoder, decoder))


def _whisper() -> Family:
    encoder, decoder = _bart(rules.always("learned"), _WHISPER_SELF, _WHISPER_CROSS).stacks
    return Family((replace(encoder, positions=rules.always("sinusoidal")), decoder))


_LEARNED = _bart(rules.always("learned"))
_SINUSOIDAL = _bart(rules.always("sinusoidal"))

SEQ2SEQ: Mapping[str, Family] = {
    **dict.fromkeys(("t5", "mt5", "umt5", "switch_transformers"), _t5()),
    **dict.fromkeys(("bart", "mbart", "plbart", "blenderbot", "blenderbot-small"), _LEARNED),
    **dict.fromkeys(("marian", "pegasus", "m2m_100"), _SINUSOIDAL),
    "whisper": _whisper(),
}
