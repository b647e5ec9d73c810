"""The screen of a model: a report a layer under a quiet heading, then what the model expects."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from attn_cli.core.model_results import ModelResult, NextToken, Prediction
from attn_cli.render.terminal.console import UNBOUNDED, Screen
from attn_cli.render.terminal.model import model_screen
from attn_cli.workflows.run import DEFAULT_PARTS, RunOptions, run_file

SAMPLES = Path(__file__).parents[3] / "sample_inputs"
TEXTS = {"induction": "a b c d a b", "sentence_model": "我喜欢苹果。你吃香蕉"}


@cache
def result(name: str, layers: tuple[int, ...] | None = None) -> ModelResult:
    options = RunOptions(text=TEXTS[name], layers_shown=layers)
    made = run_file(str(SAMPLES / f"{name}.safetensors"), options)
    assert isinstance(made, ModelResult)
    return made


def screen(width: int, *, cuts: bool = True, encoding: str = "utf-8") -> Screen:
    console = Console(
        file=io.StringIO(),
        width=width if cuts else UNBOUNDED,
        color_system=None,
        markup=False,
        highlight=False,
        emoji=False,
        _environ={},
    )
    return Screen(console, width, cuts=cuts, encoding=encoding)


def lines(made: ModelResult, width: int = 100, *parts: str, bits: bool = False) -> list[str]:
    shown = parts or DEFAULT_PARTS
    return model_screen(made, screen(width), parts=shown, bits=bits).splitlines()


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("name", TEXTS)
def test_no_line_is_wider_than_the_screen(name: str, width: int) -> None:
    _, *shown = lines(result(name), width)  # the first has the path of this checkout
    assert max(map(cell_len, shown)) <= width


def test_layers_stand_in_order_under_their_headings() -> None:
    shown = lines(result("induction"))
    headings = [line.split()[1:-1] for line in shown if line.startswith("──")]
    assert headings == [["layer", "0"], ["layer", "1"], ["predictions"]]
    assert shown.count("head 0") == 2


def test_the_header_says_what_kind_of_model_it_is() -> None:
    said = " ".join(lines(result("sentence_model"))[:3])
    for fact in ("a model of 1 layer", "vocabulary 7", "positions alibi", "LayerNorm before"):
        assert fact in said


def test_a_part_is_shown_for_every_layer() -> None:
    shown = lines(result("induction"), 100, "heads")
    assert len([line for line in shown if line.startswith("means")]) == 2
    assert not any("stage" in line for line in shown)


def test_predictions_stand_beside_their_tokens() -> None:
    table = lines(result("induction"), 100, "predictions")
    assert table[-1].split() == ["b₅", "0.018", "c", "0.998"]
    assert table[-2].split() == ["a₄", "0.018", "b", "0.998"]


def test_entropy_in_bits() -> None:
    shown = lines(result("induction"), 100, "predictions", bits=True)
    (row,) = (line for line in shown if line.startswith("a₀"))
    assert row.split()[1] == "3.000"


def test_a_narrow_screen_shows_fewer_tokens() -> None:
    wide, narrow = (lines(result("sentence_model"), width, "predictions")[-1] for width in (80, 40))
    assert len(re.findall(r"0\.\d{3}", wide)) == 6
    assert len(re.findall(r"0\.\d{3}", narrow)) < 6
    assert "…" not in narrow


def test_a_layer_that_is_not_shown_is_named_with_what_it_found() -> None:
    shown = lines(result("induction", (1,)))
    assert [line for line in shown if line.startswith("── layer")] == [
        line for line in shown if line.startswith("── layer 1")
    ]
    assert shown[-1] == "! layer 0, not shown, has 1 warning  saturated-row"


def test_of_many_predictions_the_last_are_shown() -> None:
    made = result("induction")
    one = made.predictions[0]
    many = replace(made, predictions=(one,) * 3 + (made.predictions[-1],) * 48)
    table = lines(many, 100, "predictions")
    assert len([line for line in table if line.startswith("b₅")]) == 48
    assert table[-1] == "the last 48 of 51 predictions; --json has them all"


def test_predictions_that_are_not_finite_say_so() -> None:
    made = replace(result("induction"), predictions=(Prediction(0, 0, "a", np.nan, ()),))
    assert lines(made, 100, "predictions")[-1].split() == ["a₀", "–", "not", "finite"]


def test_hostile_tokens_are_escaped() -> None:
    hostile = Prediction(0, 0, "a", 0.0, (NextToken("\x1b[2J\u202e", 1.0),))
    made = replace(result("induction"), predictions=(hostile,))
    text = model_screen(made, screen(100), parts=("predictions",))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert r"\x1b[2J\u202e 1.000" in text


def test_ascii_will_do() -> None:
    text = model_screen(
        result("sentence_model"), screen(100, cuts=False, encoding="ascii"), parts=DEFAULT_PARTS
    )
    assert text.isascii()
