"""Header, shape trace, heads, findings and values: what each says."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from rich.cells import cell_len

from attn_cli.core.findings import Finding, note
from attn_cli.core.trace import Stage, StageShape
from attn_cli.render.terminal.findings import findings
from attn_cli.render.terminal.header import header
from attn_cli.render.terminal.heads import heads
from attn_cli.render.terminal.names import names
from attn_cli.render.terminal.shapes import shapes
from attn_cli.render.terminal.values import values
from tests.unit.render.example import apple, random, result
from tests.unit.render.screens import drawn, pipe, terminal


def test_header_of_token_vectors() -> None:
    case = apple(settings={"from_file": ("heads", "mask")})
    assert drawn(header(result(case), terminal(100)), terminal(100)) == [
        "apple.json  3 tokens · d_model 8 · 2 heads of 4 · mask causal · engine numpy float64",
        "  heads and mask from the file",
    ]


def test_header_of_a_decoding_step_on_shared_heads() -> None:
    settings = {"kv_heads": 2, "mask": "causal", "align": "lower-right", "softcap": 30.0}
    case = random((2, 4, 1, 8), keys=6, settings=settings | {"scale": 0.5, "layout": "blhd"})
    assert drawn(header(result(case), terminal(80)), terminal(80)) == [
        "qkv.npz  q, k, v · batch 2 · 1 query · 6 keys",
        "  4 heads of 8 on 2 key/value heads · layout blhd · mask causal",
        "  align lower-right · scale 0.5 · softcap 30 · engine numpy float64",
    ]


def test_header_escapes_the_name_of_the_file() -> None:
    line = drawn(header(result(apple(source="a\x1b[2J.json")), pipe()), pipe())[0]
    assert line.startswith("a\\x1b[2J.json  ")


def test_shape_trace_names_every_axis() -> None:
    lines = drawn(shapes(result(apple()).shapes, terminal(80)), terminal(80))
    assert lines[0].split() == ["stage", "how", "batch", "head", "query", "key", "width"]
    assert lines[1].split() == ["x", "token", "vectors", "1", "3", "d_model", "8"]
    assert lines[3].split() == [
        "k,",
        "v",
        "x",
        "split",
        "into",
        "heads",
        "1",
        "2",
        "3",
        "d_k,",
        "d_v",
        "4",
    ]
    assert re.search(r"^scores +q · kᵀ +1 +2 +3 +3$", lines[4])


def test_k_and_v_of_different_width_stand_apart() -> None:
    k = StageShape("k", ("batch", "head", "key", "d_k"), (1, 2, 5, 8), "float64", "given")
    v = StageShape("v", ("batch", "head", "key", "d_v"), (1, 2, 5, 3), "float64", "given")
    lines = drawn(shapes((k, v), terminal(80)), terminal(80))
    assert [line.split()[0] for line in lines[1:]] == ["k", "v"]


def test_precisions_are_shown_where_they_differ() -> None:
    first, *rest = result(apple()).shapes
    lines = drawn(shapes((replace(first, dtype="bfloat16"), *rest), terminal(100)), terminal(100))
    assert lines[0].endswith("dtype")
    assert lines[1].endswith("bfloat16")


def test_heads_are_means_with_their_cosine() -> None:
    lines = drawn(heads(result(apple()), terminal(120), bits=False), terminal(120))
    assert lines[0].split("  ")[-1].strip() == "cosine to other heads"
    assert " ".join(lines[1].split()) == "head 0 0.329 46% 1.54 0.855 0.3 0.380 0.777"


def test_many_heads_are_cut_and_counted() -> None:
    case = result(apple())
    many = replace(case, heads=tuple(replace(case.heads[0], head=i) for i in range(70)))
    lines = drawn(heads(many, terminal(120), bits=False), terminal(120))
    assert lines[-2].startswith("head 63 ")
    assert lines[-1] == "6 heads more: --head and --item pick which to show, --json has all"


def test_one_head_has_no_cosine_and_no_distance_without_positions() -> None:
    case = result(random((1, 1, 3, 4)))
    blank = [replace(h, means=dict(h.means) | {"mean_distance": np.nan}) for h in case.heads]
    lines = drawn(
        heads(replace(case, heads=tuple(blank)), terminal(120), bits=False), terminal(120)
    )
    assert "cosine" not in lines[0]
    assert "distance" not in lines[0]


def test_heads_that_met_nan_say_so() -> None:
    case = result(random((1, 1, 3, 4)))
    means = dict.fromkeys(case.heads[0].means, np.nan)
    lost = replace(case, heads=(replace(case.heads[0], means=means),))
    assert set(drawn(heads(lost, terminal(120), bits=False), terminal(120))[1].split()[2:]) == {
        "NaN"
    }


def test_findings_come_with_the_gravest_last() -> None:
    found = [
        Finding("row-sum", "error", "rows do not sum to 1"),
        Finding("saturated-row", "warning", "one key holds all the weight"),
        note("layout", "read as (batch, head, length, width)"),
    ]
    assert drawn(findings(found, ["no empty rows", "no NaN or inf"], pipe()), pipe()) == [
        "· read as (batch, head, length, width)  layout",
        "✓ no empty rows · no NaN or inf",
        "! one key holds all the weight  saturated-row",
        "✗ rows do not sum to 1  row-sum",
    ]


def test_a_long_finding_hangs_below_its_mark() -> None:
    finding = Finding("saturated-row", "warning", "many words " * 20 + "'\x1b[31m'")
    lines = drawn(findings([finding], (), terminal(60)), terminal(60))
    assert all(line.startswith("  ") for line in lines[1:])
    assert max(map(cell_len, lines)) <= 60
    assert "\x1b" not in "".join(lines)


def test_marks_in_ascii() -> None:
    found = [Finding("row-sum", "error", "x")]
    screen = pipe(encoding="ascii")
    assert drawn(findings(found, ["y"], screen), screen) == ["ok y", "x x  row-sum"]


def test_values_have_tokens_on_both_sides() -> None:
    case = result(apple(values=("masked",)))
    lines = drawn(values(case, names(case, terminal(80))), terminal(80))
    assert lines[0] == "masked  batch 1 · head 2 · query 3 · key 3 · float64"
    assert lines[1:5] == [
        "head 0",
        "query ╲ key        我     喜欢     苹果",
        "我            0.63000       −∞       −∞",
        "喜欢         -0.31000  4.78500       −∞",
    ]


def test_values_of_chosen_heads_and_queries_keep_their_names() -> None:
    case = result(apple(values=("weights",)))
    stage = case.values["weights"]
    stage = replace(stage, array=stage.array[:, 1:, 2:])
    chosen = {"batch": (0,), "head": (1,), "query": (2,)}
    narrowed = replace(case, values={"weights": stage}, chosen=chosen)
    lines = drawn(values(narrowed, names(narrowed, terminal(80))), terminal(80))
    assert lines[1] == "head 1"
    assert lines[3].split() == ["苹果", "0.49965", "0.09938", "0.40098"]


def test_keys_of_chosen_items_keep_their_index_and_all_their_heads() -> None:
    case = result(random((3, 2, 4, 4), values=("weights",)))
    keys = Stage(np.zeros((1, 2, 4, 3)), ("batch", "head", "key", "d_k"), "float64")
    chosen = {"batch": (2,), "head": (1,), "query": (0,)}
    narrowed = replace(case, values={"k": keys}, chosen=chosen)
    lines = drawn(values(narrowed, names(narrowed, terminal(80))), terminal(80))
    assert [line for line in lines if line.startswith("item")] == [
        "item 2, head 0",
        "item 2, head 1",
    ]


def test_long_values_show_their_ends() -> None:
    case = result(random((1, 1, 40, 4), values=("weights",)))
    lines = drawn(values(case, names(case, terminal(80))), terminal(80))
    assert max(map(cell_len, lines)) <= 80
    assert lines[1].split()[:3] == ["query", "╲", "key"]
    assert lines[1].split()[-3:] == ["…", "38", "39"]
    assert [line.split()[0] for line in lines[2:]] == [
        *map(str, range(20)),
        "…",
        "36",
        "37",
        "38",
        "39",
    ]


def test_large_values_are_written_with_an_exponent() -> None:
    case = result(random((1, 1, 2, 4), values=("weights",)))
    stage = replace(case.values["weights"], array=np.full((1, 1, 2, 2), [1e20, np.nan]))
    huge = replace(case, values={"weights": stage})
    lines = drawn(values(huge, names(huge, terminal(80))), terminal(80))
    assert lines[2].split() == ["0", "1.0000e+20", "NaN"]


def test_values_of_half_precision_are_measured_without_overflow() -> None:
    case = result(random((1, 1, 3, 4), values=("weights",)))
    half = Stage(case.values["weights"].array.astype(np.float16), ("batch",), "float16")
    half = replace(half, axes=case.values["weights"].axes)
    narrow = replace(case, values={"weights": half})
    lines = drawn(values(narrow, names(narrow, terminal(80))), terminal(80))
    assert lines[0].endswith("float16")
    assert "e" not in lines[2]
