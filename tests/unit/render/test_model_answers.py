"""Answers on screens of every width: no line too long, no number cut, no word lost."""

from __future__ import annotations

import pytest

from attn_cli.core.model_ablation import Ablation, LayerAblation, Movement
from attn_cli.core.model_answers import Answers
from attn_cli.core.model_calls import CallPlace
from attn_cli.core.model_flow import Flow, FlowHead, TokenPlace
from attn_cli.core.model_health import RULES, Alarm, Health, LayerHealth, LayerText
from attn_cli.render.terminal.model_answers import answer_blocks
from tests.unit.render.screens import drawn, pipe, terminal

PLACES = [CallPlace(f"layers.{number}") for number in range(20)]
NAN = float("nan")


def flow(heads: int = 20, stack: str = "") -> Flow:
    return Flow(
        asked="0-:/果/ -> 1",
        matched="text",
        queries=tuple(TokenPlace(0, n, "苹果\x1b[31m") for n in range(30)),
        keys=(TokenPlace(0, 1, "[K+]"),),
        heads=tuple(
            FlowHead(PLACES[n], stack if n % 2 else "", n, 3, 11, 0.7861 - n / 100, 0.5, 0.25)
            for n in range(heads)
        ),
    )


def ablation() -> Ablation:
    moved = Movement(
        rows=55, moved=0.0579, most=0.3, where=TokenPlace(0, 45, "S"), kl=0.00004, changed=1
    )
    layers = tuple(
        LayerAblation(
            place=PLACES[n],
            stack="",
            layer=n,
            weight=0.016,
            chance=0.018,
            largest=0.028,
            head=6,
            movement=moved,
        )
        for n in range(3)
    )
    return Ablation(
        asked="S",
        tokens=(TokenPlace(0, 6, "S"),),
        output="logits",
        everywhere=moved,
        layers=layers,
    )


def health() -> Health:
    text = LayerText(
        item=0,
        median_entropy=0.46,
        cosine=0.23,
        cosine_chance=0.12,
        likeness=0.13,
        kl=0.2466,
        kl_chance=2.0,
        finite=True,
    )
    layers = tuple(
        LayerHealth(place=PLACES[n], stack="", layer=n, before=None, texts=(text,), entropies=())
        for n in range(2)
    )
    alarm = Alarm(rule="alike", place=PLACES[1], stack="", layer=1, first=0, texts=2, value=0.95)
    return Health(texts=3, needed=2, layers=layers, alarms=(alarm,))


def everything() -> Answers:
    return Answers(flow=flow(), sensitive=flow(), ablation=ablation(), health=health())


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_line_is_too_long(width: int, encoding: str) -> None:
    screen = terminal(width, encoding=encoding)
    lines = [line for block in answer_blocks(everything(), screen) for line in drawn(block, screen)]
    assert max(map(len, lines)) <= width
    assert not any("\x1b" in line for line in lines)
    text = "\n".join(lines)
    assert all(number in text for number in ("0.786", "0.250", "0.13", "5.79%", "0.016"))
    assert all(rule in text for rule in RULES)
    if encoding == "ascii":
        assert text.isascii()


def test_a_pipe_has_every_column() -> None:
    screen = pipe()
    blocks = [drawn(block, screen) for block in answer_blocks(everything(), screen)]
    titles = [line.split() for block in blocks for line in block if "layer " in line[:8]]
    assert "alarms" in titles[0]
    assert titles[-1][-1] == "changed"
    assert any("alarm, and exit code 1" in line for line in blocks[0])
    assert blocks[0][4].endswith("alike")


def test_many_are_counted() -> None:
    screen = terminal(100)
    (lines,) = [drawn(block, screen) for block in answer_blocks(Answers(flow=flow()), screen)]
    assert "  8 weaker heads: --json has all" in lines
    assert any(line.endswith("and 6 more") for line in lines)
    assert lines[0] == "flow  0-:/果/ -> 1"


def test_towers_are_named() -> None:
    screen = terminal(100)
    answers = Answers(sensitive=flow(3, "decoder"))
    (lines,) = [drawn(block, screen) for block in answer_blocks(answers, screen)]
    assert any(line.startswith("decoder       1") for line in lines)
    assert "  looked at by the 30 other tokens" in lines


def test_nothing_to_compare() -> None:
    lost = Movement(rows=0, moved=NAN, most=NAN, where=None, kl=NAN, changed=None)
    screen = terminal(80)
    made = Ablation(asked="0", tokens=(), output="x", everywhere=lost, layers=())
    (lines,) = [drawn(block, screen) for block in answer_blocks(Answers(ablation=made), screen)]
    assert lines[-1] == "no other row of the output is left to compare"
