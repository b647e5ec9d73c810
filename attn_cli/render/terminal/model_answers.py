"""Answers to what was asked of a model, a block each."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from attn_cli.core.model_answers import Answers
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.model_ablation import ablation_block
from attn_cli.render.terminal.model_flow import flow_block, sensitive_block
from attn_cli.render.terminal.model_health import health_block


def answer_blocks(answers: Answers, screen: Screen) -> Iterator[list[Text]]:
    """What was not asked has no block."""
    if answers.health is not None:
        yield list(health_block(answers.health, screen))
    if answers.flow is not None:
        yield list(flow_block(answers.flow, screen))
    if answers.sensitive is not None:
        yield list(sensitive_block(answers.sensitive, screen))
    if answers.ablation is not None:
        yield list(ablation_block(answers.ablation, screen))
