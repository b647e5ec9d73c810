"""kinds: a mask, a length or a setting that stands for something else is never left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attn_cli.errors import InputError
from tests.unit.recognize.dumps import codes, dump_of, normal, qkv, read


@pytest.mark.parametrize("name", ["mask", "attn_mask", "lengths", "key_padding_mask", "sinks"])
def test_a_value_in_the_place_of_an_array_is_refused(name: str) -> None:
    with pytest.raises(InputError) as caught:
        read(dump_of(x=normal(3, 4), others={name: "the text 'causal'"}))
    assert caught.value.message == (
        f"file.npz: {name} is the text 'causal' where an array of numbers is expected"
    )
    assert ("settings" in caught.value.hint) == ("mask" in name)


def test_text_in_the_place_of_a_mask_is_refused_with_its_place() -> None:
    with pytest.raises(InputError, match=r"mask holds text .*row 1, column 0 is the text 'a'"):
        read(dump_of(x=normal(3, 4), texts={"mask": [[], ["a"]]}))


@pytest.mark.parametrize("words", [[], [[], []]])
def test_text_without_a_word_is_text(words: list[Any]) -> None:
    with pytest.raises(InputError, match=r"mask holds text where numbers are expected$"):
        read(dump_of(x=normal(3, 4), texts={"mask": words}))


@pytest.mark.parametrize("name", ["q", "Query"])
def test_text_in_the_place_of_what_is_missing_is_named(name: str) -> None:
    arrays = {role: array for role, array in qkv((3, 4)).items() if role != "q"}
    with pytest.raises(InputError, match=f"{name} holds text .*: position 0 is the text '1'"):
        read(dump_of(**arrays, texts={name: ["1", "2"]}))
    with pytest.raises(InputError, match="vectors is true where an array of numbers"):
        read(dump_of(a=normal(3), others={"vectors": "true"}))


@pytest.mark.parametrize(
    "others", [{"mask": "null"}, {"input": "the text 'the cat'"}, {"about": "an object"}]
)
def test_what_is_nothing_or_not_needed_does_no_harm(others: dict[str, str]) -> None:
    assert codes(read(dump_of(x=normal(3, 4), others=others))) == ["no-projections"]


@pytest.mark.parametrize(
    "arrays, others",
    [
        ({"heads": np.array(2.0)}, {}),
        ({"scale": np.array([0.5])}, {}),
        ({}, {"causal": "true"}),
        ({}, {"align": "the text 'lower-right'"}),
    ],
)
def test_a_setting_beside_the_arrays_is_more_than_a_note(
    arrays: dict[str, Any], others: dict[str, str]
) -> None:
    (finding, _) = read(dump_of(x=normal(3, 4), **arrays, others=others)).findings
    assert (finding.code, finding.severity) == ("ignored-setting", "warning")
    assert finding.message.startswith(f"not used: {next(iter({**arrays, **others}))};")


def test_no_setting_beside_the_arrays_is_none() -> None:
    assert codes(read(dump_of(x=normal(3, 4), others={"scale": "null"}))) == ["no-projections"]
    assert codes(read(dump_of(x=normal(3, 4), scale=normal(3)))) == [
        "ignored-arrays",
        "no-projections",
    ]
