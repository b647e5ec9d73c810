"""Row statistics, one a file, written as expectations under the row's weights."""

from __future__ import annotations

from attn_cli.core.registry import Registry
from attn_cli.core.statistics import Statistic

STATISTICS: Registry[Statistic] = Registry(
    "statistic",
    {
        "visible_keys": "attn_cli.stats.visible_keys:STATISTIC",
        "sum": "attn_cli.stats.row_sum:STATISTIC",
        "entropy": "attn_cli.stats.entropy:STATISTIC",
        "normalized_entropy": "attn_cli.stats.normalized_entropy:STATISTIC",
        "effective_keys": "attn_cli.stats.effective_keys:STATISTIC",
        "max_weight": "attn_cli.stats.max_weight:STATISTIC",
        "mean_distance": "attn_cli.stats.mean_distance:STATISTIC",
        "first_key_weight": "attn_cli.stats.first_key_weight:STATISTIC",
    },
)
