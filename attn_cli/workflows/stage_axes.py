"""Axes: the names of the axes that each stage of a dump has, once it is arranged."""

from __future__ import annotations

from attn_cli.core.steps import K_AXES, MERGED_AXES, Q_AXES, V_AXES
from attn_cli.core.trace import CONTEXT_AXES, SCORE_AXES
from attn_cli.recognize.stage_layout import OVER_KEYS, WITHOUT_HEADS

AXES = {
    **dict.fromkeys(OVER_KEYS, SCORE_AXES),
    **dict.fromkeys(WITHOUT_HEADS, MERGED_AXES),
    **dict.fromkeys(("q", "q_rotated"), Q_AXES),
    **dict.fromkeys(("k", "k_rotated"), K_AXES),
    "x": ("batch", "query", "d_model"),
    "x_positions": ("batch", "query", "d_model"),
    "output": ("batch", "query", "d_out"),
    "v": V_AXES,
    "lse": SCORE_AXES[:3],
    "context": CONTEXT_AXES,
}
