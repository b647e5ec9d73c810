"""attn mask: counts, parts, sizes and files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from attn_cli.core.masks import MaskContext, evaluate
from attn_cli.core.results_mask import MaskResult
from attn_cli.errors import InputError
from attn_cli.masks.expression import parse
from attn_cli.workflows import mask_items
from attn_cli.workflows.mask import fills, mask
from attn_cli.workflows.mask_options import MaskOptions


def look(text: str, **options: Any) -> MaskResult:
    return mask(text, MaskOptions(**options))


def codes(result: MaskResult) -> list[str]:
    return [finding.code for finding in result.findings]


def parts(result: MaskResult) -> list[tuple[str, int, str, int, int]]:
    return [(p.part, p.depth, p.verb, p.alone, p.only) for p in result.parts]


def test_the_picture_and_the_counts() -> None:
    result = look("causal & (window(3) | sink(1))")
    assert result.items[0].picture == [
        "#.......",
        "##......",
        "###.....",
        "####....",
        "#.###...",
        "#..###..",
        "#...###.",
        "#....###",
    ]
    assert (result.visible, result.total, result.exact) == (26, 64, True)
    assert result.items[0].keys.tolist() == [1, 2, 3, 4, 4, 4, 4, 4]


def test_parts_of_a_conjunction() -> None:
    # of 16 pairs, causal hides the 6 above the diagonal; sink(2) the 8 in the last two columns,
    # of which 5 are above the diagonal
    assert parts(look("causal & sink(2)", queries=4)) == [
        ("causal", 0, "hides", 6, 1),
        ("sink(2)", 0, "hides", 8, 3),
    ]


def test_parts_of_a_union() -> None:
    assert parts(look("window(1) | sink(1)", queries=4)) == [
        ("window(1)", 0, "shows", 4, 3),
        ("sink(1)", 0, "shows", 4, 3),
    ]


def test_parts_within_parts_count_by_what_they_do_to_the_whole() -> None:
    result = look("causal & (window(2) | sink(1)) & ~block(2)", queries=6)
    n, context = 6, MaskContext(1, 1, 6, 6)

    def seen(text: str) -> np.ndarray[Any, Any]:
        built = parse(text).build(context)
        pairs = evaluate(built, batch=1, heads=1, queries=range(n), keys=range(n))
        return np.asarray(pairs[0, 0])

    whole = seen("causal & (window(2) | sink(1)) & ~block(2)").sum()
    assert result.visible == whole
    expected = {
        "causal": ((~seen("causal")).sum(), seen("(window(2) | sink(1)) & ~block(2)").sum()),
        "window(2) | sink(1)": (
            (~seen("window(2) | sink(1)")).sum(),
            seen("causal & ~block(2)").sum(),
        ),
        "window(2)": (seen("window(2)").sum(), seen("causal & sink(1) & ~block(2)").sum()),
        "sink(1)": (seen("sink(1)").sum(), seen("causal & window(2) & ~block(2)").sum()),
        "~block(2)": (seen("block(2)").sum(), seen("causal & (window(2) | sink(1))").sum()),
    }
    assert [part.part for part in result.parts] == list(expected)
    for part in result.parts:
        alone, without = expected[part.part]
        assert (part.alone, part.only) == (alone, abs(without - whole))
    assert [part.depth for part in result.parts] == [0, 0, 1, 1, 0]
    assert [part.verb for part in result.parts] == ["hides", "hides", "shows", "shows", "hides"]


def test_parts_under_a_complement_do_the_opposite() -> None:
    # ~(causal | sink(2)) shows what lies above the diagonal behind the first two keys: 5 of 16
    assert parts(look("~(causal | sink(2))", queries=4)) == [
        ("causal", 0, "hides", 10, 3),
        ("sink(2)", 0, "hides", 8, 1),
    ]


def test_a_single_mask_has_no_parts() -> None:
    assert look("causal").parts == ()
    assert look("~causal").parts == ()


def test_a_part_that_does_nothing_is_named() -> None:
    result = look("causal & window(3)")
    assert codes(result) == ["idle-part"]
    assert result.findings[0].message.startswith("causal makes no difference here")


def test_of_very_many_parts_the_first_are_listed() -> None:
    result = look(" & ".join(["causal", "sink(3)"] * 20))
    assert len(result.parts) == 24
    assert codes(result) == ["parts-left-out", "idle-part", "idle-part"]
    assert result.findings[0].message.startswith("16 more parts")


@pytest.mark.parametrize(
    "text, options, sizes",
    [
        ("causal", {}, (1, 8, 8)),
        ("causal", {"queries": 5}, (1, 5, 5)),
        ("causal", {"keys": 6}, (1, 6, 6)),
        ("causal", {"queries": 3, "keys": 6, "align": "lower-right"}, (1, 3, 6)),
        ("window(256)", {}, (1, 512, 512)),
        ("documents(3, 2)", {}, (1, 5, 5)),
        ("documents(7, 4) & window(256)", {}, (1, 11, 11)),
        ("padding(3, 12)", {}, (2, 12, 12)),
        ("global(20)", {}, (1, 21, 21)),
        ("random(9)", {}, (1, 9, 9)),
    ],
)
def test_sizes_that_nobody_gave(text: str, options: dict[str, Any], sizes: tuple[int, ...]) -> None:
    result = look(text, **options)
    assert (result.batch, result.queries, result.keys) == sizes


def test_an_alignment_is_asked_for_and_said() -> None:
    with pytest.raises(InputError, match="causal compares positions, and 6 queries"):
        look("causal", queries=6, keys=8)
    lower = look("causal", queries=6, keys=8, align="lower-right")
    upper = look("causal", queries=6, keys=8, align="upper-left")
    assert (lower.q_offset, upper.q_offset) == (2, 0)
    assert (lower.visible, upper.visible) == (33, 21)
    assert codes(lower) == codes(upper) == ["alignment"]
    assert look("sink(2)", queries=6, keys=8).visible == 12


def test_every_item_has_its_own_rows() -> None:
    result = look("padding(3, 0) & causal", queries=4)
    assert [item.visible for item in result.items] == [9, 0]
    (found,) = [f for f in result.findings if f.code == "empty-row"]
    assert found.message.startswith("4 rows see no key: item 1 queries 0–3;")
    assert (found.where.batch, found.where.query) == (1, 0)
    assert result.to_dict()["empty_rows_total"] == 4


def test_empty_rows_are_named() -> None:
    result = look("causal", queries=8, keys=5, align="lower-right")
    (found,) = [f for f in result.findings if f.code == "empty-row"]
    assert found.message.startswith("3 rows see no key: queries 0–2;")


def test_a_mask_that_hides_nothing_is_said_to() -> None:
    assert codes(look("window(8, both) | causal", queries=8)) == ["mask-hides-nothing"]


def test_a_hundred_thousand_tokens() -> None:
    n, w = 100_000, 1000
    result = look(f"causal & window({w})", queries=n)
    assert result.exact
    assert result.visible == w * (w + 1) // 2 + (n - w) * w
    assert len(result.items[0].shares) <= mask_items.CELLS
    assert result.total == n * n
    fields = result.to_dict()
    assert (len(fields["rows"]), fields["rows_total"]) == (10_000, n)


def test_what_is_too_much_to_count_is_estimated_and_said() -> None:
    result = look("random(1000, seed=1)", queries=20_000)
    assert not result.exact
    assert codes(result) == ["estimated"]
    assert result.visible == 1000 * 20_000  # every row sees as many, so this one is exact
    assert set(result.items[0].keys.tolist()) == {1000}
    assert result.parts == ()


def test_shares_are_what_a_cell_lets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mask_items, "CELLS", 2)
    result = look("causal", queries=5)  # cells of 3 and 2
    np.testing.assert_allclose(result.items[0].shares, [[6 / 9, 0], [1, 3 / 4]])
    assert result.items[0].picture == ["+.", "#+"]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"queries": 0}, "-q is 0"),
        ({"keys": -3}, "-k is -3"),
        ({"queries": 10**9}, "1,000,000,000 queries are too many"),
    ],
)
def test_impossible_sizes(options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError) as caught:
        look("causal", **options)
    assert message in caught.value.message


def test_json_has_its_schema_and_plain_numbers() -> None:
    fields = look("causal & padding(3, 5)", queries=6, targets=("sdpa", "hf")).to_dict()
    assert json.loads(json.dumps(fields)) == fields
    assert fields["schema"] == "attn.mask/1"
    assert list(fields["code"]) == ["sdpa", "hf"]
    keys = [1, 2, 3, 3, 3, 3, 1, 2, 3, 4, 5, 5]
    assert fields["keys_per_row"] == {"min": 1, "mean": sum(keys) / 12, "max": 5}
    assert [row["keys"] for row in fields["rows"]] == keys
    assert fields["picture"] == fields["items"][0]["picture"]
    assert fields["rows"][7] == {"batch": 1, "head": 0, "query": 1, "position": 1, "keys": 2}


def test_fills_come_with_a_mask_or_alone() -> None:
    assert look("causal", fills=True).to_dict()["fills"]["schema"] == "attn.fills/1"
    assert look("causal").to_dict()["fills"] is None
    assert json.loads(json.dumps(fills().to_dict()))["fills"]
