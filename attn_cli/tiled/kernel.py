"""Attention in tiles: one pass over the keys gives the output and every statistic of each row.

Milakov & Gimelshein 2018, "Online normalizer calculation for softmax"; Dao et al. 2022,
"FlashAttention". A statistic is Σ exp(score − m)·g, rescaled exactly as the output is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from attn_cli.core.masks import Mask
from attn_cli.core.positions import ScoreBias
from attn_cli.core.statistics import Term
from attn_cli.errors import InputError
from attn_cli.tiled.crew import crew
from attn_cli.tiled.question import Question
from attn_cli.tiled.run import Progress, Run, Tiled

__all__ = ["Tiled", "block_sizes", "tile_bytes", "tiled_attention"]


def tiled_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | Tensor | None = None,
    additive: Tensor | None = None,
    bias: Tensor | None = None,
    position_bias: ScoreBias | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    q_offset: int = 0,
    terms: Mapping[str, Term] | None = None,
    top: int = 0,
    received: bool = False,
    block: int | None = None,
    progress: Progress | None = None,
) -> Tiled:
    """softmax(q·kᵀ·scale, capped, biased, masked)·v and the sums of its rows, no L × S in memory.

    q (B, H, L, d_k), k (B, Hkv, S, d_k), v (B, Hkv, S, d_v), of one precision (float64, float32,
    bfloat16, float16) and device; query head h reads key/value head h // (H / Hkv). `mask`, True =
    may attend, is a Mask of positions or a bool tensor; it and `additive` and `bias` broadcast to
    (B, H, L, S) and may lie on another device. `sinks` (H,). `terms` maps names to functions
    g(q_pos, k_pos): `rows.expected` has Σ w·g. `top`: how many best keys of each row. `received`
    makes a second pass over the scores. `block`: queries and keys of a tile, None to choose.
    `progress(done, total)` counts rows of all heads, and may raise to stop.

    In half precision products come back rounded, softmax and sums are float32; float16 scales q
    first. Hidden keys take no part whatever they hold; an empty row has context 0. On the CPU
    PyTorch is set to one thread meanwhile (`crew.py`). Raises InputError for a mask of numbers.
    """
    if isinstance(mask, Tensor) and mask.dtype != torch.bool:
        raise InputError(
            f"the mask is a tensor of {mask.dtype}: expected bool, True = may attend",
            hint="numbers to add to the scores are given as `additive`",
        )
    question = Question(
        q=q.detach(), k=k.detach(), v=v.detach(), mask=mask, additive=additive, bias=bias,
        position_bias=position_bias,
        scale=1 / math.sqrt(q.shape[-1]) if scale is None else scale, softcap=softcap,
        sinks=None if sinks is None else sinks.detach().to(q.device, q.dtype), q_offset=q_offset,
        terms=terms or {}, top=min(top, k.shape[2]), received=received,
    )  # fmt: skip
    with torch.no_grad(), crew(q.device) as workers:
        return Run(
            question, workers, *block_sizes(question.shape, block, device=q.device.type)
        ).run(progress)


def block_sizes(
    shape: tuple[int, int, int, int], block: int | None, *, device: str = "cpu"
) -> tuple[int, int]:
    """Queries and keys of a tile, of scores (B, H, L, S).

    On the CPU a tile's numbers lie in the caches and its steps outweigh what calling them costs;
    a GPU is called as seldom as 32 MiB of scores allow.
    """
    chosen = (512, 512) if device == "cpu" else (2048, 4096)
    rows, width = chosen if block is None else (block, block)
    return min(rows, shape[2]), min(width, shape[3])


def tile_bytes(
    shape: tuple[int, int, int, int], size: int, block: int | None, *, device: str = "cpu"
) -> int:
    """What the tiles in work take, of numbers of `size` bytes."""
    rows, width = block_sizes(shape, block, device=device)
    return 4 * rows * width * size * (torch.get_num_threads() if device == "cpu" else 1)
