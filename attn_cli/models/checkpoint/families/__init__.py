"""The families that are known, by the model_type of config.json."""

from __future__ import annotations

from collections.abc import Mapping

from attn_cli.models.checkpoint.families.composites import ALIASES, COMPOSITES
from attn_cli.models.checkpoint.families.decoders import DECODERS
from attn_cli.models.checkpoint.families.encoders import ENCODERS
from attn_cli.models.checkpoint.families.fused import FUSED
from attn_cli.models.checkpoint.families.hybrids import HYBRIDS
from attn_cli.models.checkpoint.families.latent import LATENT
from attn_cli.models.checkpoint.families.seq2seq import SEQ2SEQ
from attn_cli.models.checkpoint.family import Family

FAMILIES: Mapping[str, Family] = {
    **DECODERS,
    **ENCODERS,
    **FUSED,
    **HYBRIDS,
    **LATENT,
    **SEQ2SEQ,
}

__all__ = ["ALIASES", "COMPOSITES", "FAMILIES"]
