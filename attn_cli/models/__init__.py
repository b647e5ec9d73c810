"""Models: small ones out of one file, run token by token and layer by layer."""

from __future__ import annotations

from attn_cli.core.dump import Dump

EMBEDDING = "embedding.weight"


def is_model(dump: Dump) -> bool:
    """Whether a file holds two of what makes a model: config, vocabulary and embedding.weight."""
    marks = ("config" in dump.strings, "vocabulary" in dump.strings, EMBEDDING in dump.arrays)
    return sum(marks) >= 2
