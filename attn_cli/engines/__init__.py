"""Engines: each computes attention by its own code; PyTorch's kernels share a file."""

from __future__ import annotations

from attn_cli.core.engine import Engine
from attn_cli.core.registry import Registry

ENGINES: Registry[Engine] = Registry(
    "engine",
    {
        "numpy": "attn_cli.engines.numpy_ref:ENGINE",
        "torch": "attn_cli.engines.torch_eager:ENGINE",
        "sdpa": "attn_cli.engines.torch_sdpa:CHOSEN",
        "sdpa:math": "attn_cli.engines.torch_sdpa:MATH",
        "sdpa:flash": "attn_cli.engines.torch_sdpa:FLASH",
        "sdpa:efficient": "attn_cli.engines.torch_sdpa:EFFICIENT",
        "sdpa:cudnn": "attn_cli.engines.torch_sdpa:CUDNN",
        "mha": "attn_cli.engines.torch_mha:ENGINE",
        "flex": "attn_cli.engines.torch_flex:ENGINE",
        "tiled": "attn_cli.engines.torch_tiled:ENGINE",
    },
)

OURS = ("numpy", "torch")  # whose arithmetic is attn's own; the others call a library's attention
