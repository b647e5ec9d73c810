"""MaskExpression: normalised text, joining, and building for a run."""

from __future__ import annotations

import numpy as np
import pytest

from attn_cli.core.masks import MaskContext, evaluate
from attn_cli.errors import InputError
from attn_cli.masks.expression import MaskExpression, conjunction, parse


def test_equal_texts_are_equal_expressions() -> None:
    assert parse("causal&(sink( 1 ))") == parse("causal() & sink(n=1)")
    assert hash(parse("causal & sink(1)")) == hash(parse("(causal)&sink(1)"))
    assert parse("causal & sink(1)") != parse("causal | sink(1)")


def test_names_are_told_once_in_order() -> None:
    expression = parse("~sink(1) & (causal | sink(2)) | global(0)")
    assert expression.names_used() == ("sink", "causal", "global")


@pytest.mark.parametrize("text, compares", [("sink(1) | padding(2)", False), ("~causal", True)])
def test_it_knows_whether_it_compares_positions(text: str, compares: bool) -> None:
    assert parse(text).compares_positions is compares


def test_repeated_masks_are_joined_by_and() -> None:
    texts = ["causal & sink(3)", "window(2) | sink(1)", "~sink(9)"]
    joined = conjunction([parse(text) for text in texts])
    assert str(joined) == "causal & sink(3) & (window(2) | sink(1)) & ~sink(9)"
    assert conjunction([parse("causal")]) == parse("causal")
    assert conjunction([]) == parse("none")


@pytest.mark.parametrize("text", ["causal", "window(2) | none", "none & ~block(2)", "global(0)"])
def test_unaligned_lengths_are_never_guessed(text: str) -> None:
    context = MaskContext(batch=1, heads=1, queries=2, keys=5, aligned=False)
    with pytest.raises(InputError) as raised:
        parse(text).build(context)
    assert "2 queries" in raised.value.message
    assert "5 keys" in raised.value.message
    assert "--align lower-right" in raised.value.hint
    assert "--align upper-left" in raised.value.hint


def test_the_alignment_error_names_the_mask_that_needs_it() -> None:
    context = MaskContext(batch=1, heads=1, queries=2, keys=5, aligned=False)
    with pytest.raises(InputError, match=r"^window\(3, both\) compares"):
        parse("sink(1) | window(3, both)").build(context)


@pytest.mark.parametrize("text", ["none", "sink(1)", "padding(3)", "random(2)", "file('m.npy')"])
def test_the_others_need_no_alignment(text: str) -> None:
    context = MaskContext(
        batch=1, heads=1, queries=2, keys=5, aligned=False, load=lambda path: np.ones((2, 5), bool)
    )
    parse(text).build(context)


def test_lower_right_and_upper_left() -> None:
    rows = []
    for offset in (3, 0):  # 2 queries, 5 keys
        context = MaskContext(batch=1, heads=1, queries=2, keys=5, q_offset=offset)
        queries = range(offset, offset + 2)
        seen = evaluate(
            parse("causal").build(context), batch=1, heads=1, queries=queries, keys=range(5)
        )
        rows.append(seen.sum(-1).ravel().tolist())
    assert rows == [[4, 5], [1, 2]]


def test_an_expression_is_a_value() -> None:
    expression: MaskExpression = parse("causal")
    with pytest.raises(AttributeError):
        expression.root = parse("none").root  # type: ignore[misc]
