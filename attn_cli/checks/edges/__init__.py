"""Edges: boundary cases of attention by kind, and how a subject is held against what is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attn_cli.core.registry import Registry

if TYPE_CHECKING:
    from attn_cli.checks.edges.making import MakesCases

# A kind is a function that makes its cases; the first line of its docstring says what they ask.
KINDS: Registry[MakesCases] = Registry(
    "kind",
    {
        "one-token": "attn_cli.checks.edges.tokens:one_token",
        "two-tokens": "attn_cli.checks.edges.tokens:two_tokens",
        "identical-tokens": "attn_cli.checks.edges.tokens:identical_tokens",
        "one-key": "attn_cli.checks.edges.tokens:one_key",
        "one-value-feature": "attn_cli.checks.edges.tokens:one_value_feature",
        "long-distance": "attn_cli.checks.edges.distance:long_distance",
        "every-mask": "attn_cli.checks.edges.masks:every_mask",
        "mask-from-file": "attn_cli.checks.edges.masks:mask_from_file",
        "additive-mask": "attn_cli.checks.edges.masks:additive_mask",
        "mask-hides-nothing": "attn_cli.checks.edges.masks:mask_hides_nothing",
        "one-visible-key": "attn_cli.checks.edges.one_visible:one_visible_key",
        "empty-row": "attn_cli.checks.edges.empty_rows:empty_row",
        "more-keys": "attn_cli.checks.edges.lengths:more_keys",
        "more-queries": "attn_cli.checks.edges.lengths:more_queries",
        "one-head": "attn_cli.checks.edges.heads:one_head",
        "thin-heads": "attn_cli.checks.edges.heads:thin_heads",
        "grouped-heads": "attn_cli.checks.edges.heads:grouped_heads",
        "one-kv-head": "attn_cli.checks.edges.heads:one_kv_head",
        "one-item": "attn_cli.checks.edges.heads:one_item",
        "equal-sizes": "attn_cli.checks.edges.heads:equal_sizes",
        "huge-scores": "attn_cli.checks.edges.scores:huge_scores",
        "tiny-scores": "attn_cli.checks.edges.scores:tiny_scores",
        "scale": "attn_cli.checks.edges.scores:scale",
        "softcap": "attn_cli.checks.edges.scores:softcap",
        "bias": "attn_cli.checks.edges.scores:bias",
        "sinks": "attn_cli.checks.edges.scores:sinks",
        "nan-in-hidden-key": "attn_cli.checks.edges.nonfinite:nan_in_hidden_key",
        "nan-in-hidden-value": "attn_cli.checks.edges.nonfinite:nan_in_hidden_value",
        "inf-in-hidden": "attn_cli.checks.edges.nonfinite:inf_in_hidden",
        "nonfinite-visible": "attn_cli.checks.edges.nonfinite:nonfinite_visible",
        "memory-layout": "attn_cli.checks.edges.layouts:memory_layout",
        "float16": "attn_cli.checks.edges.precisions:float16",
        "bfloat16": "attn_cli.checks.edges.precisions:bfloat16",
    },
)
# Kinds about one precision, which ask nothing in another.
OF_ONE_PRECISION = ("float16", "bfloat16")
