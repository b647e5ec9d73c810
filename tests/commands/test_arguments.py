"""Lists, ranges and names on the command line."""

from __future__ import annotations

import pytest

from attn_cli.commands.arguments import indices, names, scale_factor
from attn_cli.errors import InputError


@pytest.mark.parametrize(
    "text, chosen",
    [
        (None, None),
        ("3", (3,)),
        ("0,5-8", (0, 5, 6, 7, 8)),
        ("8-8, 2 ,2", (2, 8)),
        (" 1 - 3 ", (1, 2, 3)),
    ],
)
def test_indices(text: str | None, chosen: tuple[int, ...] | None) -> None:
    assert indices(text, "--head") == chosen


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "expected numbers and ranges such as 0,5-8"),
        ("1,,2", "expected numbers and ranges"),
        ("-1", "'-1'"),
        ("1-", "'1-'"),
        ("1.5", "'1.5'"),
        ("two", "'two'"),
        ("5-3", "the range 5-3, which ends before it begins"),
        ("0-999999999", "at most 100,000"),
        ("9" * 30, "expected numbers"),
    ],
)
def test_wrong_indices_name_the_option(text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        indices(text, "--head")
    assert words in error.value.message
    assert error.value.message.startswith("--head has ")


def test_names_come_in_the_order_that_is_known() -> None:
    assert names("output, weights", "stage", ("scores", "weights", "output")) == (
        "weights",
        "output",
    )
    assert names(None, "stage", ("scores",)) == ()


def test_a_wrong_name_suggests_the_near_one() -> None:
    with pytest.raises(InputError) as error:
        names("wights", "stage", ("scores", "weights"))
    assert error.value.message == "there is no stage 'wights'"
    assert error.value.hint == "did you mean 'weights'? known: scores, weights"


@pytest.mark.parametrize("text, factor", [(None, None), ("none", "none"), ("0.5", 0.5), ("-2", -2)])
def test_scale(text: str | None, factor: float | str | None) -> None:
    assert scale_factor(text) == factor


@pytest.mark.parametrize("text", ["half", "nan", "inf", ""])
def test_a_scale_that_is_no_number(text: str) -> None:
    with pytest.raises(InputError, match="expected a number, or none"):
        scale_factor(text)
