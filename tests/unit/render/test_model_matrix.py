"""The head matrix: as full as the width allows, and no number cut."""

from __future__ import annotations

from attn_cli.core.model_calls import CallFacts, CallPlace
from attn_cli.core.model_heads import MEANS, HeadFigures, Role
from attn_cli.core.results_model import CallFigures
from attn_cli.render.terminal.model_matrix import head_matrix, legend
from tests.unit.render.screens import pipe, terminal


def call(layer: int, heads: int, role: Role | None = None, value: float = 0.42) -> CallFigures:
    place = CallPlace(f"layers.{layer}.attn")
    facts = CallFacts(
        place=place,
        order=layer,
        stack="",
        layer=layer,
        how="sdpa",
        backend="sdpa",
        module_class="A",
        layer_type=None,
        cross=False,
        batch=1,
        heads=heads,
        kv_heads=heads,
        queries=4,
        keys=4,
        d_k=8,
        d_v=8,
        q_offset=0,
        causal=True,
        mask=None,
        window=None,
        scaling=1.0,
        softcap=None,
        sinks=False,
        position_bias=False,
        softmax_dtype="float32",
    )
    figures = tuple(
        HeadFigures(
            place=place,
            stack="",
            layer=layer,
            head=number,
            means=dict.fromkeys(MEANS, value),
            least_sum=1.0,
            max_score=1234.5,
            rows=4,
            choice_rows=3,
            saturated_rows=0,
            empty_rows=0,
            filled_rows=0,
            role=role,
            same_as=None,
        )
        for number in range(heads)
    )
    return CallFigures(facts=facts, heads=figures, mask=0, aligned=True)


def lines(calls: list[CallFigures], figure: str, width: int, *, cuts: bool = True) -> list[str]:
    drawn = head_matrix(calls, figure, terminal(width) if cuts else pipe(width))
    return [line for text in drawn for line in text.plain.split("\n")]


def test_numbers_with_letters_where_there_is_room() -> None:
    drawn = lines([call(0, 4, "sink"), call(1, 4)], "normalized_entropy", 100)
    assert drawn[-3].split() == ["layer", "0", "1", "2", "3"]
    assert drawn[-2].split() == ["0", "42s", "42s", "42s", "42s"]
    assert drawn[-1].split() == ["1", "42", "42", "42", "42"]


def test_no_line_is_wider_than_the_screen() -> None:
    for heads in (4, 12, 16, 32, 64, 128, 200):
        for width in (40, 80, 100, 200):
            drawn = lines([call(0, heads, "local")], "normalized_entropy", width)
            assert max(map(len, drawn)) <= width, (heads, width)


def test_every_head_is_drawn_in_bands_where_one_line_is_too_short() -> None:
    drawn = lines([call(0, 200, "previous")], "normalized_entropy", 80)
    assert sum(line.count("p") for line in drawn if line.startswith("    0  ")) == 200


def test_a_long_number_widens_its_cells() -> None:
    drawn = lines([call(0, 12)], "max_score", 100)
    assert drawn[-1].split()[1:] == ["1234"] * 12


def test_a_pipe_has_every_number() -> None:
    drawn = lines([call(0, 64)], "normalized_entropy", 100, cuts=False)
    assert drawn[-1].split()[1:] == ["42"] * 64


def test_a_figure_that_is_not_defined_is_a_dash() -> None:
    drawn = lines([call(0, 3, value=float("nan"))], "next_weight", 100)
    assert drawn[-1].split()[1:] in (["–"] * 3, ["!"] * 3)


def test_the_legend_has_the_letters_that_occur() -> None:
    (text,) = legend([call(0, 2, "sink"), call(1, 2, "previous")], terminal(100))
    assert text.plain == "p previous token · s sink"
    assert list(legend([call(0, 2)], terminal(100))) == []
