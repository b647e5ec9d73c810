"""The workflow of `attn check edges`: what is held, and how it is told so that it can be rerun."""

from __future__ import annotations

import shlex
from dataclasses import replace

import numpy as np
import pytest

from attn_cli.checks.edges import KINDS
from attn_cli.checks.edges.suite import make_cases
from attn_cli.core.registry import Registry
from attn_cli.engines import OURS
from attn_cli.errors import InputError
from attn_cli.workflows.check.edges import EdgesOptions, edges, edges_listing
from tests.unit.checks.edges.subjects import WRONG, Plain

NUMPY = ("numpy",)
WITHOUT = EdgesOptions(engines=NUMPY, kinds=("one-key", "sinks"))


def rerun(line: str) -> EdgesOptions:
    """The options that a line for reproducing gives."""
    words = shlex.split(line)
    assert words[:3] == ["attn", "check", "edges"]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    return EdgesOptions(
        engines=(given["--engine"],),
        case=given["--case"],
        dtype=given.get("--dtype"),
        seed=int(given.get("--seed", 0)),
    )


def test_the_kinds_that_are_named_are_held_and_no_others() -> None:
    result = edges(WITHOUT)
    assert result.engines == NUMPY
    assert result.kinds == ("one-key", "sinks")
    assert {outcome.kind for outcome in result.outcomes} == {"one-key", "sinks"}
    assert (
        result.number("passed")
        == len(result.outcomes)
        == result.count("numpy", "one-key").total + 7
    )


def test_engines_of_ours_are_held_unless_some_are_named() -> None:
    result = edges(EdgesOptions(kinds=("one-token",)))
    assert result.engines == OURS
    assert len(result.outcomes) == len(OURS) * len(make_cases("one-token"))


@pytest.mark.parametrize("dtype, seed", [(None, 0), ("float32", 3)])
def test_every_line_for_reproducing_runs_exactly_its_case(dtype: str | None, seed: int) -> None:
    result = edges(EdgesOptions(engines=NUMPY, kinds=("sinks", "one-key"), dtype=dtype, seed=seed))
    for outcome in result.outcomes:
        again = edges(rerun(outcome.reproduce))
        (one,) = again.outcomes
        assert (one.kind, one.name, one.dtype) == (outcome.kind, outcome.name, outcome.dtype)
        assert one.reproduce == outcome.reproduce
        np.testing.assert_array_equal(one.judgement.output, outcome.judgement.output)


def test_every_case_can_be_named() -> None:
    for kind in KINDS:
        for case in make_cases(kind):
            assert case.path.partition("/") == (kind, "/", case.name)
        (one,) = edges(EdgesOptions(engines=NUMPY, case=f"{kind}/{case.name}")).outcomes
        assert (one.kind, one.name) == (kind, case.name)


def test_the_first_failure_of_each_kind_is_told() -> None:
    subject = replace(WRONG["NaN for empty rows"], name="ours")
    options = EdgesOptions(kinds=("empty-row", "one-key", "scale"))
    failures = edges(options, subjects=[subject]).first_failures
    assert [failure.kind for failure in failures] == ["empty-row", "one-key"]
    assert failures[0].reproduce == (
        "attn check edges --engine ours --case empty-row/causal-lower-right"
    )
    assert "expected 0, got NaN" in failures[0].message


def test_a_case_in_full_says_what_goes_in_and_looks_where_it_failed() -> None:
    subject = replace(WRONG["groups by tile"], name="ours")
    detail = edges(EdgesOptions(case="grouped-heads/causal"), subjects=[subject]).detail
    assert detail is not None
    assert [(array.name, array.shape) for array in detail.arrays] == [
        ("q", (2, 6, 5, 8)),
        ("k", (2, 3, 7, 8)),
        ("v", (2, 3, 7, 4)),
    ]
    assert detail.mask == "causal"
    assert detail.picture == ("#......", "##.....", "###....", "####...", "#####..")
    assert detail.expected.shape == (2, 6, 5, 4)
    assert detail.row[1] in (1, 2, 3, 4)  # heads that tiling moves


def test_a_case_in_full_says_how_its_arrays_lie() -> None:
    detail = edges(EdgesOptions(engines=NUMPY, case="memory-layout/fortran-q")).detail
    assert detail is not None
    assert [array.layout for array in detail.arrays] == ["Fortran order", "", ""]
    detail = edges(EdgesOptions(engines=NUMPY, case="memory-layout/backwards-v")).detail
    assert detail is not None
    assert detail.arrays[2].layout == "strides of 84, 28, -4, 1 numbers"


def test_what_pytorch_does_with_hidden_nan_is_measured_and_said() -> None:
    result = edges(EdgesOptions(engines=NUMPY, kinds=("nan-in-hidden-key", "nan-in-hidden-value")))
    said = [note.message for note in result.notes if note.code == "hidden-nan-pytorch"]
    (words,) = said  # the same of both, said once
    assert words.startswith("a NaN in a hidden key or value, given to")
    assert words.endswith("3 of 3 in float64, float32, float16, bfloat16")
    alone = edges(EdgesOptions(engines=NUMPY, kinds=("nan-in-hidden-value",)))
    assert alone.notes[0].message.startswith("a NaN in a hidden value, given to")
    assert not edges(WITHOUT).notes


def test_kinds_about_another_precision_are_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = {kind: KINDS.entries[kind] for kind in ("sinks", "float16", "bfloat16")}
    monkeypatch.setattr("attn_cli.workflows.check.edges.KINDS", Registry("kind", few))
    result = edges(EdgesOptions(engines=NUMPY, dtype="float32"))
    assert result.kinds == ("sinks",)
    assert result.notes[0].code == "left-out"
    assert {outcome.dtype for outcome in result.outcomes} == {"float32"}


@pytest.mark.parametrize(
    "options, message, hint",
    [
        (EdgesOptions(dtype="float8"), "there is no precision 'float8'", "float64"),
        (EdgesOptions(seed=-1), "--seed is -1", ""),
        (EdgesOptions(case="foo"), "there is no kind 'foo'", "--list"),
        (EdgesOptions(case="sinks"), "expected kind/name", "--list --kind sinks"),
        (EdgesOptions(case="empty-rows/sink-0"), "no kind 'empty-rows'", "'empty-row'"),
        (EdgesOptions(case="empty-row/sink-1"), "has no 'sink-1'", "empty-row/sink-0"),
        (EdgesOptions(case="sinks/plain", kinds=("sinks",)), "leave --kind out", ""),
        (EdgesOptions(kinds=("float16",), dtype="float32"), "about one precision", "--dtype"),
        (EdgesOptions(case="float16/plain", dtype="float32"), "no case in float32", "--dtype"),
    ],
)
def test_what_there_is_not_is_refused(options: EdgesOptions, message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        edges(options)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_progress_counts_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    edges(WITHOUT, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 16) for n in range(1, 17)]


def test_the_listing_counts_the_cases_of_each_kind_and_names_those_of_some() -> None:
    kinds = edges_listing()
    assert [entry.name for entry in kinds.entries] == list(KINDS)
    assert kinds.entries[0].meaning.endswith("(12 cases)")
    cases = edges_listing(("sinks",))
    assert [entry.name for entry in cases.entries] == [c.path for c in make_cases("sinks")]


def test_json_holds_every_case_with_its_verdict() -> None:
    fields = edges(
        EdgesOptions(kinds=("empty-row", "softcap")),
        subjects=[replace(WRONG["NaN for empty rows"], name="ours"), Plain()],
    ).to_dict()
    assert fields["schema"] == "attn.check.edges/1"
    assert fields["engines"] == ["ours", "plain"]
    assert fields["kinds"][0] == {
        "engine": "ours",
        "kind": "empty-row",
        "passed": 0,
        "failed": 36,
        "unsupported": 2,
    }
    case = fields["cases"][0]
    assert case["verdict"] == "failed"
    assert case["mismatch"]["where"] == {"batch": 0, "head": 0, "query": 0, "key": 0}
    assert (case["mismatch"]["expected"], case["mismatch"]["got"]) == (0.0, None)
    assert len(fields["cases"]) == 2 * (38 + 8)
    assert fields["detail"] is None
