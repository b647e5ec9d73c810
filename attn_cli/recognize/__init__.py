"""Recognise: what the arrays of a file mean, and the question they ask of attention."""

from attn_cli.recognize.reading import Reading
from attn_cli.recognize.understanding import understand

__all__ = ["Reading", "understand"]
