"""The page of a row: aligned columns, one idea a block, and every number that the JSON has."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from attn_cli.core.explanation import Explanation
from attn_cli.core.inputs import AttentionInputs
from attn_cli.render.terminal.console import UNBOUNDED, Screen
from attn_cli.render.terminal.explain import explain_screen
from attn_cli.workflows.explain import ExplainOptions, explain_file, explain_reading
from tests.unit.workflows.layers import Layer, heads_of, reading_of

SAMPLES = Path(__file__).parents[3] / "sample_inputs"


def screen(width: int, *, cuts: bool = True, encoding: str = "utf-8", colour: Any = None) -> Screen:
    console = Console(
        file=io.StringIO(),
        width=width if cuts else UNBOUNDED,
        color_system=colour,
        force_terminal=colour is not None,
        markup=False,
        highlight=False,
        emoji=False,
        _environ={},
    )
    return Screen(console, width, cuts=cuts, encoding=encoding)


def sample(name: str, query: int, **options: Any) -> Explanation:
    made = explain_file(str(SAMPLES / name), ExplainOptions(query=query, **options))
    return replace(made, input=replace(made.input, source=name))


def lines(made: Explanation, width: int = 100, **kind: Any) -> list[str]:
    return explain_screen(made, screen(width, **kind)).splitlines()


def long_row(queries: int = 1) -> Explanation:
    draw = np.random.default_rng(0).normal
    q, k, v = draw(size=(queries, 64)), draw(size=(300, 64)), draw(size=(300, 64))
    return explain_reading(heads_of(q, k, v), ExplainOptions(query=0))


PAGES = {
    "three tokens": sample("three_tokens.json", 0),
    "two heads, Chinese": sample("apple.json", 2),
    "ten keys": sample("sentence.csv", 7),
    "shared heads": sample("gqa.npz", 1),
    "empty": sample("empty_row.json", 1),
    "batch": sample("padding.json", 0, item=1),
    "long": long_row(),
    "model": sample("induction.safetensors", 3, text="a b c a", layer=1),
    "all of a layer": explain_reading(
        Layer(encoding=True, extras={"softcap": 5.0, "sinks": np.array([0.5, 1])}).reading,
        ExplainOptions(query=1),
    ),
}

THREE_TOKENS = """\
three_tokens.json  3 tokens · d_model 4 · 1 head of 4 · no mask · engine numpy float64

query 0 cats  5 digits after the point; a shorter number is exact

scores  q · k, key by key
feature  0  1  2  3  Σ
q        1  0  1  0
k cats   1  0  1  0
  q · k  1  0  1  0  2
k chase  0  1  0  1
  q · k  0  0  0  0  0
k mice   1  1  0  0
  q · k  1  0  0  0  1

weights  scaled = scores ÷ √4, weights = exp ÷ Σ exp
key    scores  scaled  less the largest      exp    weights
                  ÷ 2               − 1           ÷ 1.97441
cats        2     1                 0    1          0.50648
chase       0     0                -1    0.36788    0.18632
mice        1     0.5              -0.5  0.60653    0.30720
Σ                                        1.97441    1.00000

context  weights · v, feature by feature
key               cats    chase     mice        Σ
weights        0.50648  0.18632  0.30720
v feature 0    1        0        1
  weights · v  0.50648  0        0.30720  0.81368
v feature 1    0        1        1
  weights · v  0        0.18632  0.30720  0.49352
v feature 2    1        0        0
  weights · v  0.50648  0        0        0.50648
v feature 3    0        1        0
  weights · v  0        0.18632  0        0.18632

output  = context
feature        0        1        2        3
output   0.81368  0.49352  0.50648  0.18632

· no projections: Q = K = V = vectors  no-projections
✓ every row sums to 1 · no empty rows · no NaN or inf
  weights and output as the engine computes them, to the last digit
"""


def test_three_tokens_on_a_page() -> None:
    assert explain_screen(PAGES["three tokens"], screen(100)) == THREE_TOKENS


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("name", PAGES)
def test_no_line_is_wider_than_the_screen_or_ends_in_blanks(name: str, width: int) -> None:
    shown = lines(PAGES[name], width)
    assert max(map(cell_len, shown)) <= width
    assert [line for line in shown if line != line.rstrip()] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_pipe_and_ascii_have_the_same_numbers(name: str) -> None:
    number = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e-?\d+)?")
    on_screen = number.findall("\n".join(lines(PAGES[name])))
    assert number.findall("\n".join(lines(PAGES[name], cuts=False))) == on_screen
    plain = "\n".join(lines(PAGES[name], 400, encoding="ascii"))
    assert plain.isascii()
    assert set(number.findall(plain)) >= set(on_screen) if name != "long" else True


def numbers_of(made: Explanation) -> set[str]:
    """Every number of the JSON's lines that is no repetition of a line above."""
    fields = json.loads(json.dumps(made.to_dict()))
    found: set[str] = set()
    for step in fields["steps"]:
        for line in step["lines"]:
            for entry in (line, *line["terms"]):
                found |= {entry[name] for name in ("result", "product", "b") if name in entry}
    return found


@pytest.mark.parametrize("name", ["three tokens", "two heads, Chinese", "ten keys", "shared heads"])
def test_every_number_of_the_json_is_on_the_page(name: str) -> None:
    shown = set(" ".join(lines(PAGES[name], 200)).replace("√", " ").split())
    assert numbers_of(PAGES[name]) - shown == set()


@pytest.mark.parametrize("name", PAGES)
def test_points_of_a_column_stand_one_below_the_other(name: str) -> None:
    """Within a block, a number's point is never one or two cells beside the one above it."""
    blocks = "\n".join(lines(PAGES[name], 100)).split("\n\n")
    for block in blocks:
        rows = [line for line in block.splitlines() if re.match(r"(  q · k|k |v feature)", line)]
        places = [{m.start() for m in re.finditer(r"\.(?=\d)", wide(row))} for row in rows]
        for above, below in pairwise(places):
            for place in below:
                assert not ({place - 1, place + 1} & above), block


def wide(line: str) -> str:
    """The line with a cell a character, where a wide one takes two."""
    return "".join(char if cell_len(char) == 1 else "##" for char in line)


@pytest.mark.parametrize("width, terms", [(80, 4), (100, 6), (200, 8)])
def test_long_vectors_show_as_many_terms_as_fit(width: int, terms: int) -> None:
    shown = lines(long_row(), width)
    headers = [line.split() for line in shown if line.startswith("feature ") and "more" in line]
    assert len(headers) == 8  # one a key that is written
    assert {len(header) - len(("feature", "56", "more", "Σ")) for header in headers} == {terms}
    assert {int(header[-3]) for header in headers} == {64 - terms}
    assert any(line.startswith("292 other keys ") for line in shown)
    assert "56 other features the same way" in shown


def test_explicit_terms_break_into_bands() -> None:
    draw = np.random.default_rng(0).normal
    reading = heads_of(draw(size=(1, 40)), draw(size=(2, 40)), draw(size=(2, 2)))
    made = explain_reading(reading, ExplainOptions(query=0, terms=40))
    shown = lines(made, 80)
    assert max(map(cell_len, shown)) <= 80
    assert sum(line.startswith("feature ") for line in shown) > 3
    assert not any("more" in line for line in shown)


def test_tokens_are_data() -> None:
    tokens = ("[bold]x[/]", "\x1b[31mred", "a\nb")
    draw = np.random.default_rng(0).normal
    q, k, v = draw(size=(3, 1, 1, 3, 2))
    made = explain_reading(reading_of(AttentionInputs(q, k, v), tokens), ExplainOptions(query=1))
    shown = "\n".join(lines(made))
    assert "\x1b" not in shown
    assert "[bold]x[/]" in shown
    assert "a\\nb" in shown
    assert "query 1 \\x1b[31mred" in shown


def test_repeated_tokens_are_told_apart_by_index() -> None:
    shown = "\n".join(lines(PAGES["model"]))
    assert "k a₀" in shown
    assert "k a₃" in shown


def test_an_empty_row_says_so() -> None:
    shown = "\n".join(lines(PAGES["empty"]))
    assert "the mask hides 3 of 3 keys: all, or, nothing" in shown
    assert "this row sees no key: its weights are 0, and so is its context" in shown


def test_many_hidden_keys_are_told_as_ranges() -> None:
    draw = np.random.default_rng(0).normal
    q, k, v = draw(size=(1, 2)), draw(size=(40, 2)), draw(size=(40, 1))
    hide = np.where(np.isin(np.arange(40), [0, 7, 8, 39]), 0.0, -np.inf)[None]
    made = explain_reading(heads_of(q, k, v, additive=hide, q_offset=None), ExplainOptions(query=0))
    assert any("hides 36 of 40 keys: keys 1–6, 9–38" in line for line in lines(made))


def test_nan_and_infinity_are_said() -> None:
    made = explain_reading(
        heads_of([[1, 1]], [[1, 0], [np.inf, 2]], [[1], [2]]), ExplainOptions(query=0)
    )
    shown = "\n".join(lines(made))
    assert "∞" in shown
    assert "− ∞" in shown
    assert "NaN" in shown


def test_colour_is_only_where_the_screen_has_it() -> None:
    made = PAGES["two heads, Chinese"]
    coloured = explain_screen(made, screen(100, colour="truecolor"))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == explain_screen(made, screen(100))


def test_digits_are_stated() -> None:
    shown = " ".join(line.strip() for line in lines(PAGES["two heads, Chinese"]))
    digits = PAGES["two heads, Chinese"].digits
    said = (
        f"{digits.carried} carried, {digits.weights} in the weights, {digits.output} in the output"
    )
    assert said in shown
