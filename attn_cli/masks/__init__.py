"""Masks: one a file. This table is all that the rest of attn knows of them by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attn_cli.core.registry import Registry

if TYPE_CHECKING:
    from attn_cli.masks.declaration import MaskKind

MASKS: Registry[MaskKind] = Registry(
    "mask",
    {
        "none": "attn_cli.masks.none:MASK",
        "causal": "attn_cli.masks.causal:MASK",
        "window": "attn_cli.masks.window:MASK",
        "dilated": "attn_cli.masks.dilated:MASK",
        "sink": "attn_cli.masks.sink:MASK",
        "prefix": "attn_cli.masks.prefix:MASK",
        "global": "attn_cli.masks.global_:MASK",
        "block": "attn_cli.masks.block:MASK",
        "documents": "attn_cli.masks.documents:MASK",
        "padding": "attn_cli.masks.padding:MASK",
        "random": "attn_cli.masks.random:MASK",
        "file": "attn_cli.masks.file:MASK",
    },
)
