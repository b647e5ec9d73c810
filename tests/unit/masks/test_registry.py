"""The table of masks and the folder say the same, and every mask declares itself whole."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import attn_cli.masks as folder
from attn_cli.errors import InputError
from attn_cli.masks import MASKS
from attn_cli.masks.declaration import MaskKind
from attn_cli.masks.expression import describe, parse

MODULES = [f"{folder.__name__}.{found.name}" for found in pkgutil.iter_modules(folder.__path__)]


def test_every_entry_is_a_mask_of_its_name() -> None:
    for name in MASKS:
        assert isinstance(MASKS[name], MaskKind)
        assert MASKS[name].name == name


def test_every_file_with_a_mask_is_in_the_table() -> None:
    declared = {
        f"{name}:MASK" for name in MODULES if hasattr(importlib.import_module(name), "MASK")
    }
    assert declared == set(MASKS.entries.values())


@pytest.mark.parametrize("name", list(MASKS))
def test_a_file_is_called_like_its_mask(name: str) -> None:
    module = MASKS.entries[name].split(":")[0].rpartition(".")[2]
    assert module.rstrip("_") == name  # global is a word of Python


@pytest.mark.parametrize("name", list(MASKS))
def test_every_mask_shows_its_picture(name: str) -> None:
    module = importlib.import_module(MASKS.entries[name].split(":")[0])
    examples = [one for test in doctest.DocTestFinder().find(module) for one in test.examples]
    assert any("draw(" in one.source and "#" in one.want for one in examples)


@pytest.mark.parametrize("name", list(MASKS))
def test_a_signature_shows_every_parameter(name: str) -> None:
    kind = MASKS[name]
    assert kind.signature.startswith(name)
    for parameter in kind.parameters:
        assert ('"' if parameter.form == "text" else parameter.name) in kind.signature
    assert "\n" not in kind.description


def test_an_unknown_mask_suggests_the_near_one() -> None:
    with pytest.raises(InputError, match="did you mean 'window'"):
        MASKS["windw"]


def test_describe_lists_all_or_those_of_an_expression() -> None:
    assert [kind.name for kind in describe()] == list(MASKS)
    described = describe(parse("sink(1) | causal & sink(2)"))
    assert [(kind.name, kind.signature) for kind in described] == [
        ("sink", "sink(n)"),
        ("causal", "causal"),
    ]


def test_what_compares_queries_with_keys() -> None:
    comparing = {name for name in MASKS if MASKS[name].compares_positions}
    assert comparing == {
        "causal", "window", "dilated", "prefix", "global", "block", "documents",
    }  # fmt: skip
