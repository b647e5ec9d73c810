"""The screen of attn mask: whole at a width that cuts nothing, and readable where it is narrow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len

from attn_cli.core.results_fills import EmptyRowCase, FillCase, FillsResult
from attn_cli.core.results_mask import MaskFile, MaskItem, MaskMatch, MaskPart, MaskResult
from attn_cli.render.terminal.console import Screen
from attn_cli.render.terminal.fills import fills_screen
from attn_cli.render.terminal.mask import mask_screen
from tests.unit.render.screens import pipe, terminal

LOWER = np.tril(np.ones((4, 4)))


def item(shares: Any, batch: int = 0, head: int = 0, cell: int = 1) -> MaskItem:
    shares = np.asarray(shares, np.float64)
    rows = np.arange(len(shares) * cell)
    keys = np.repeat((shares * cell).sum(1).astype(np.int64), cell)
    return MaskItem(
        batch, head, int(keys.sum()), rows.size * shares.shape[1] * cell, rows, keys, shares
    )


def result(*items: MaskItem, cell: int = 1, **changes: Any) -> MaskResult:
    queries, keys = items[0].shares.shape
    plain = MaskResult(
        expression="causal & padding(3)",
        file=None,
        batch=1 + max(one.batch for one in items),
        heads=1 + max(one.head for one in items),
        queries=queries * cell,
        keys=keys * cell,
        align=None,
        q_offset=0,
        exact=True,
        items=items,
        query_ranges=tuple(range(i * cell, (i + 1) * cell) for i in range(queries)),
        key_ranges=tuple(range(i * cell, (i + 1) * cell) for i in range(keys)),
    )
    return replace(plain, **changes)


def lines(shown: MaskResult, screen: Screen) -> list[str]:
    return mask_screen(shown, screen).splitlines()


PARTS = (
    MaskPart("causal", 0, "hides", 6, 3),
    MaskPart("padding(3)", 0, "hides", 4, 0),
)


def test_the_whole_screen() -> None:
    assert lines(result(item(LOWER), parts=PARTS), pipe()) == [
        "causal & padding(3)  4 queries · 4 keys",
        "",
        "query ╲ key 0 1 2 3   sees",
        "          0 ■ · · ·      1",
        "          1 ■ ■ · ·      2",
        "          2 ■ ■ ■ ·      3",
        "          3 ■ ■ ■ ■      4",
        "",
        "■ may attend (True)   · hidden (False)",
        "",
        "lets through  10 of 16 pairs, 62.5%",
        "keys per row  1 to 4, mean 2.50: fewest for query 0, most for query 3",
        "",
        "part         by itself           only it",
        "causal       hides 6     37.5%   hides 3",
        "padding(3)   hides 4     25.0%   hides nothing",
        "",
        "as code: --as sdpa, mha, flex or hf",
    ]


def test_positions_stand_beside_queries_where_they_differ() -> None:
    shown = lines(result(item(LOWER[2:]), q_offset=2, align="lower-right"), pipe())
    assert shown[0] == "causal & padding(3)  2 queries · 4 keys · lower-right"
    assert shown[2:5] == [
        "query at position ╲ key 0 1 2 3   sees",
        "                 0 at 2 ■ ■ ■ ·      3",
        "                 1 at 3 ■ ■ ■ ■      4",
    ]


def test_an_empty_row_is_marked() -> None:
    assert lines(result(item(LOWER - np.eye(4))), pipe())[3] == "          0 · · · ·      0 !"


def test_items_stand_side_by_side_and_alike_ones_once() -> None:
    three = [item(LOWER), item(LOWER * (np.arange(4) < 3), 1), item(LOWER, 2)]
    shown = lines(result(*three), pipe())
    assert shown[0] == "causal & padding(3)  3 items · 4 queries · 4 keys"
    assert shown[2].split() == ["items", "0,", "2", "item", "1"]
    assert shown[4] == "          0 ■ · · ·      1              0 ■ · · ·      1"
    alike = lines(result(*[item(LOWER, b) for b in range(3)]), pipe())
    assert alike[7] == "all 3 items alike"


def test_one_query_each_makes_one_picture() -> None:
    items = [item(LOWER[i : i + 1], i) for i in range(4)]
    shown = lines(result(*items), pipe())
    assert shown[2:5] == [
        "item ╲ key 0 1 2 3   sees",
        "         0 ■ · · ·      1",
        "         1 ■ ■ · ·      2",
    ]


def test_blocks_are_shaded_by_share_and_say_how_large_they_are() -> None:
    shown = lines(result(item([[1, 0.5], [0.1, 0]], cell=10), cell=10), pipe())
    assert shown[2:5] == [
        "query ╲ key 0     sees",
        "        0–9 ██▒▒    15",
        "      10–19 ░░·      1",
    ]
    assert shown[6] == (
        "a cell is 10 queries × 10 keys · ██ all visible · ▒▒ half · ░░ a few · · none"
    )


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("size, cell", [(4, 1), (24, 1), (32, 1), (32, 100_000)])
def test_no_line_is_wider_than_the_terminal(width: int, size: int, cell: int) -> None:
    shares = np.tril(np.ones((size, size)))
    long = MaskPart("causal & window(3) | " * 20, 1, "shows", 10**12, 10**12)
    shown = result(item(shares, cell=1), cell=1, parts=(*PARTS, long) if width > 100 else PARTS)
    shown = replace(
        shown,
        query_ranges=tuple(range(i * cell, (i + 1) * cell) for i in range(size)),
        key_ranges=tuple(range(i * cell, (i + 1) * cell) for i in range(size)),
    )
    if cell > 1:  # the counted rows are the first of each range
        first = replace(shown.items[0], rows=shown.items[0].rows * cell)
        shown = replace(shown, items=(first,))
    widest = max(map(cell_len, lines(shown, terminal(width))))
    assert widest <= max(width, 50)


def test_ascii_has_signs_of_its_own() -> None:
    text = mask_screen(result(item(LOWER), parts=PARTS), pipe(encoding="ascii"))
    assert text.isascii()
    assert "          1 # # . ." in text
    assert "# may attend (True)   . hidden (False)" in text


def test_colour_shades_blocks_to_the_last_column() -> None:
    shares = [[0, 0.5], [1, 1]]
    text = mask_screen(result(item(shares, cell=10), cell=10), terminal(80, colour="truecolor"))
    assert text.count("48;2;0;105;255") >= 2
    assert "■" not in text


FILE = MaskFile(
    source="m.npy",
    name=None,
    dtype="bool",
    shape=(4, 4),
    axes=("query", "key"),
    kind="bool",
    polarity="keep",
    sha256="0" * 64,
    matches=(MaskMatch("causal", None, 0, "keep", False, "causal"),),
)


def test_a_file_says_what_it_is() -> None:
    shown = lines(result(item(LOWER), file=FILE), pipe())
    assert shown[0] == "m.npy  (4, 4) · bool"
    assert "✓ this is causal" in shown


def test_polarity_is_named_in_the_words_of_the_file() -> None:
    hidden = replace(FILE, polarity="hidden")
    assert "■ may attend (False)   · hidden (True)" in lines(
        result(item(LOWER), file=hidden), pipe()
    )
    numbers = replace(FILE, kind="0/1", dtype="int64")
    shown = lines(result(item(LOWER), file=numbers), pipe())
    assert shown[0] == "m.npy  (4, 4) · int64 of 0 and 1"
    assert "■ may attend (1)   · hidden (0)" in shown
    added = replace(FILE, kind="additive", fills={"-inf": "−inf"}, dtype="float32")
    shown = lines(result(item(LOWER), file=added), pipe())
    assert shown[0] == "m.npy  (4, 4) · float32 additive, hidden keys get −inf"
    assert "■ may attend   · hidden" in shown


def test_a_hostile_name_is_shown_escaped() -> None:
    text = mask_screen(result(item(LOWER), file=replace(FILE, source="a\x1b[31m[b]\n.npy")), pipe())
    assert text.startswith("a\\x1b[31m[b]\\n.npy  (4, 4)")


@pytest.mark.parametrize(
    "visible, total, words",
    [
        (0, 9, "0 of 9 pairs, 0%"),
        (9, 9, "9 of 9 pairs, 100%"),
        (1, 1_000_000, "1 of 1,000,000 pairs, 0.0001%"),
        (999_999, 1_000_000, "999,999 of 1,000,000 pairs, 99.9999%"),
    ],
)
def test_a_share_is_never_rounded_to_all_or_nothing(visible: int, total: int, words: str) -> None:
    one = replace(item(LOWER), visible=visible, total=total)
    assert f"lets through  {words}" in lines(result(one), pipe())


def test_estimates_are_called_so() -> None:
    shown = lines(result(item(LOWER), exact=False), pipe())
    assert "lets through  about 10 of 16 pairs, 62.5%" in shown


def fills() -> FillsResult:
    nan = float("nan")
    cases = [
        FillCase(
            "visible", "filled", "-inf", float("-inf"), "float16", (0.5, 0.0, 0.5), "masked softmax"
        ),
        FillCase(
            "visible", "added", "-inf", float("-inf"), "float16", (0.5, 0.0, 0.5), "masked softmax"
        ),
        FillCase(
            "empty", "filled", "-1e9", float("-inf"), "float16", (), "does not fit", "too large"
        ),
        FillCase("empty", "added", "-1e9", float("-inf"), "float16", (nan, nan, nan), "NaN"),
    ]
    sdpa = EmptyRowCase(
        "F.scaled_dot_product_attention", "bool", "float16", (0.0, 0.0, 0.0), "zeros"
    )
    return FillsResult("2.0", (1.0, -2.0, 0.5), (1,), (), (), tuple(cases), (sdpa,))


def test_fills() -> None:
    assert fills_screen(fills(), pipe()).splitlines() == [
        "fill values  measured with torch 2.0 on scores 1, −2, 0.5",
        "",
        "a row with one hidden key",
        "fill   how      float16",
        "−∞     filled   right",
        "       added    right",
        "",
        "a row with none visible",
        "fill   how      float16",
        "−1e9   filled   does not fit",
        "       added    NaN",
        "",
        "a row with none visible, by function",
        "function                         mask   float16",
        "F.scaled_dot_product_attention   bool   zeros",
        "",
        "outcome        weights, for example",
        "right          0.500 0.000 0.500      the hidden key gets 0, the others sum to 1",
        "zeros          0.000 0.000 0.000      every weight is 0, and so is the output",
        "NaN            NaN NaN NaN            0 ÷ 0, and so is the output",
        "does not fit   none                   masked_fill raises: no such number",
    ]


def test_fills_fit_a_narrow_terminal() -> None:
    shown = fills_screen(fills(), terminal(80)).splitlines()
    assert max(map(cell_len, shown)) <= 80
    assert fills_screen(fills(), pipe(encoding="ascii")).isascii()
