"""The cases themselves: how many, their names and sizes, and closed forms against the oracle."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import attn_cli.checks.edges as package
from attn_cli.checks.edges import KINDS, OF_ONE_PRECISION
from attn_cli.checks.edges.case import Case
from attn_cli.checks.edges.empty_rows import TEXTS
from attn_cli.checks.edges.masks import ORDINARY
from attn_cli.checks.edges.suite import make_cases, meaning
from attn_cli.core.engine import Ask
from attn_cli.core.rounding import round_to
from attn_cli.engines import ENGINES
from attn_cli.masks import MASKS
from attn_cli.masks.expression import parse

CASES = [case for kind in KINDS for case in make_cases(kind)]
PATHS = [case.path for case in CASES]
# Kinds and cases that are about equal sizes, or about tokens that see themselves.
EQUAL = {"equal-sizes", "two-tokens", "one-token"}


def test_there_are_at_least_two_hundred_and_their_names_are_unique() -> None:
    assert len(CASES) >= 200
    assert len(set(PATHS)) == len(PATHS)
    assert all(set(path) <= set("abcdefghijklmnopqrstuvwxyz0123456789-/") for path in PATHS)


def test_every_kind_says_what_it_asks_and_every_case_too() -> None:
    for kind in KINDS:
        assert meaning(kind).endswith(".")
        assert len(make_cases(kind)) >= 5
    assert all(case.asks and "{" not in case.asks for case in CASES)


def test_folder_and_registry_agree() -> None:
    """Every function that makes cases is registered, under its own name."""
    makers = set()
    for target in KINDS.entries.values():
        module = importlib.import_module(target.split(":")[0])
        makers |= {
            f"{module.__name__}:{name}"
            for name, function in inspect.getmembers(module, inspect.isgeneratorfunction)
            if not name.startswith("_") and function.__module__ == module.__name__
        }
    assert makers == set(KINDS.entries.values())
    for kind, target in KINDS.entries.items():
        assert target.split(":")[1] == kind.replace("-", "_")
    assert set(OF_ONE_PRECISION) <= set(package.KINDS)


def test_no_size_can_be_taken_for_another() -> None:
    """Sizes differ, or are 1, unless the case is about equal ones; L = S where positions do."""
    repeated = {case.path: sizes(case) for case in CASES if case.kind not in EQUAL}
    assert {path: each for path, each in repeated.items() if len(set(each)) < len(each)} == {}


def sizes(case: Case) -> list[int]:
    """The sizes of a case that are not 1, queries and keys once where they are equal."""
    batch, heads, queries, keys = case.inputs.shape
    others = [batch, heads, case.inputs.q.shape[3], case.inputs.v.shape[3]]
    if case.inputs.kv_heads != heads:
        others.append(case.inputs.kv_heads)
    return [size for size in (*others, *{queries, keys}) if size != 1]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_numbers_are_numbers_of_the_precision(dtype: str) -> None:
    for kind in KINDS:
        for case in make_cases(kind, dtype=dtype):
            for name in ("q", "k", "v", "additive", "bias", "sinks"):
                array = getattr(case.inputs, name)
                if array is not None:
                    np.testing.assert_array_equal(round_to(array, dtype), array, case.path)


def test_the_closed_form_is_what_the_oracle_gives() -> None:
    closed = [(case, case.expected) for case in CASES if case.expected is not None]
    assert len(closed) > 100
    for case, expected in closed:
        trace = ENGINES["numpy"].run(case.inputs, Ask(keep=frozenset({"weights", "context"})))
        both = [("context", expected.output, 1e-14), ("weights", expected.weights, 1e-15)]
        for stage, right, atol in both:
            if right is not None:
                np.testing.assert_allclose(
                    trace[stage], right, rtol=1e-12, atol=atol, err_msg=f"{case.path}: {stage}"
                )


def test_a_hundred_a_and_one_b_with_equal_scores_is_one_in_a_hundred_and_one() -> None:
    case = next(case for case in CASES if case.path == "long-distance/equal-scores")
    assert case.inputs.shape[2:] == (1, 101)
    assert case.expected is not None
    assert case.expected.weights is not None
    np.testing.assert_array_equal(case.expected.weights, np.full((2, 3, 1, 101), 1 / 101))
    a, b = case.inputs.v[0, 0, 0], case.inputs.v[0, 0, 100]
    np.testing.assert_array_equal(case.inputs.v[0, 0, 57], a)
    np.testing.assert_allclose(case.expected.output[0, 0, 0], (100 * a + b) / 101, rtol=1e-13)


def test_empty_row_cases_have_one() -> None:
    for case in make_cases("empty-row"):
        visible = case.inputs.visible()
        assert visible is not None, case.name
        assert (~visible.any(-1)).any() or case.name == "with-nan-behind", case.name


def test_every_registered_mask_is_asked_about() -> None:
    ordinary = {name for text in ORDINARY.values() for name in parse(text).names_used()}
    assert ordinary | {"file"} == set(MASKS)
    empty = {name for text, _, _ in TEXTS.values() for name in parse(text).names_used()}
    assert empty | {"file"} == set(MASKS)


def test_masks_that_hide_nothing_hide_nothing() -> None:
    for case in make_cases("mask-hides-nothing"):
        assert case.inputs.mask is not None or case.inputs.additive is not None, case.name
        visible = case.inputs.visible()
        assert visible is None or visible.all(), case.name


def test_kinds_about_one_precision_have_no_cases_in_another() -> None:
    assert make_cases("float16", dtype="float32") == []
    assert {case.dtype for case in make_cases("float16")} == {"float16"}
    assert {case.dtype for case in make_cases("sinks", dtype="bfloat16")} == {"bfloat16"}


def test_a_case_is_the_same_whenever_it_is_made() -> None:
    for first, again in zip(CASES, (c for k in KINDS for c in make_cases(k)), strict=True):
        np.testing.assert_array_equal(first.inputs.q, again.inputs.q)
        np.testing.assert_array_equal(first.inputs.v, again.inputs.v)
