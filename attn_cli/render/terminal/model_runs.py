"""What running a model again showed, a block for the checks and one for the other model."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from attn_cli.core.results_model_runs import Runs
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.model_diff import diff_block
from attn_cli.render.terminal.model_ways import way_block


def run_blocks(runs: Runs, screen: Screen) -> Iterator[list[Text]]:
    """What was not asked has no block."""
    if runs.checks:
        yield list(way_block(runs.checks, screen))
    if runs.diff is not None:
        yield list(diff_block(runs.diff, screen))
