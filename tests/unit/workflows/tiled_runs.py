"""Long enough inputs for the engine in tiles, as a file reads, and numpy's dense answer beside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attn_cli.core.results import RunResult
from attn_cli.core.settings import Choices
from attn_cli.workflows.run import RunOptions, run_file


def saved(folder: Path, *, heads: int = 2, kv_heads: int = 1, length: int = 60) -> Path:
    """q, k and v as an .npz; key 0 is looked at by all."""
    rng = np.random.default_rng(4)
    q = rng.normal(size=(1, heads, length, 8))
    k, v = rng.normal(size=(2, 1, kv_heads, length, 8))
    q[..., 0], k[..., 0], k[:, :, 0, 0] = 3, 0, 3
    path = folder / f"qkv{length}.npz"
    np.savez(path, q=q, k=k, v=v)
    return path


def run_on(
    path: Path, engine: str, *, masks: tuple[str, ...] = ("causal",), **more: Any
) -> RunResult:
    options = RunOptions(choices=Choices(masks=masks), engine=engine)
    result = run_file(str(path), replace(options, **more))
    assert isinstance(result, RunResult)
    return result
