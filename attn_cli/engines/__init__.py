"""Engines: each computes attention by its own code, one a file."""

from __future__ import annotations

from attn_cli.core.engine import Engine
from attn_cli.core.registry import Registry

ENGINES: Registry[Engine] = Registry(
    "engine",
    {
        "numpy": "attn_cli.engines.numpy_ref:ENGINE",
        "torch": "attn_cli.engines.torch_eager:ENGINE",
    },
)
