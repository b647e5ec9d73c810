"""Checkpoints: the attention layers of a folder of config.json and safetensors, headers only."""

from __future__ import annotations

from attn_cli.models.checkpoint.reader import read_checkpoint

__all__ = ["read_checkpoint"]
