"""The suite finds planted faults by the kinds that are about them, and accuses nobody else."""

from __future__ import annotations

import pytest

from tests.unit.checks.edges.running import KIND_NAMES, failing_kinds, failures, held
from tests.unit.checks.edges.subjects import WRONG, Plain, RowByRow

ALONE = {"one-token", "one-key", "sinks", "softcap"}  # passed, or not supported by these subjects
WHERE_EMPTY = {
    "two-tokens",
    "one-key",
    "empty-row",
    "more-queries",
    "equal-sizes",
    "nan-in-hidden-key",
    "nan-in-hidden-value",
}
# fault → kinds that must fail, kinds that must not.
FOUND_BY: dict[str, tuple[set[str], set[str]]] = {
    "no scale": (
        {"scale", "every-mask", "more-keys", "one-head", "equal-sizes", "memory-layout", "bias"},
        {"identical-tokens", "one-visible-key", "long-distance", *ALONE},
    ),
    "scale of d_model": (
        {"scale", "thin-heads", "every-mask", "grouped-heads"},
        {"one-head", "identical-tokens", "one-visible-key", *ALONE},
    ),
    "softmax over queries": (
        {"identical-tokens", "long-distance", "every-mask", "more-keys", "huge-scores", "one-head"},
        {"one-token", "sinks"},
    ),
    "mask inverted": (
        {"every-mask", "mask-from-file", "mask-hides-nothing", "one-visible-key", "empty-row"},
        {"scale", "sinks"},
    ),
    "causal off by one": (
        {"two-tokens", "identical-tokens", "every-mask", "more-keys", "more-queries", "one-head"},
        {"mask-hides-nothing", "scale", "one-token"},
    ),
    "mask after softmax": (
        {"identical-tokens", "every-mask", "mask-from-file", "one-visible-key", "empty-row"},
        {"mask-hides-nothing", "scale", "one-token", "one-key"},
    ),
    "no maximum taken off": (
        {"huge-scores"},
        {"tiny-scores", "every-mask", "scale", "memory-layout", "more-keys"},
    ),
    "groups by tile": (
        {"grouped-heads", "thin-heads", "mask-from-file", "bias"},
        {"one-kv-head", "one-head", "every-mask", "equal-sizes", "scale", "more-queries"},
    ),
    "heads by a bare view": (
        {"two-tokens", "every-mask", "grouped-heads", "equal-sizes", "long-distance"},
        {"one-head", "one-token"},
    ),
    "NaN leaking from hidden values": (
        {"nan-in-hidden-value", "inf-in-hidden"},
        {"nan-in-hidden-key", "every-mask", "long-distance"},
    ),
    "NaN leaking from hidden keys": (
        {"nan-in-hidden-key", "inf-in-hidden"},
        {"nan-in-hidden-value", "every-mask", "long-distance"},
    ),
}
FOUND_BY_EXACTLY = {
    "alignment forgotten": {
        "one-value-feature",
        "long-distance",
        "mask-hides-nothing",
        "empty-row",
        "more-keys",
        "more-queries",
    },
    "NaN for empty rows": WHERE_EMPTY,
    "uniform for empty rows": WHERE_EMPTY,
    "memory read in C order": {"memory-layout"},
}


@pytest.mark.parametrize("fault", FOUND_BY)
def test_a_planted_fault_is_found_by_the_kinds_about_it(fault: str) -> None:
    must, must_not = FOUND_BY[fault]
    found = failing_kinds(WRONG[fault])
    assert must - found == set()
    assert must_not & found == set()
    assert must | must_not <= set(KIND_NAMES)


@pytest.mark.parametrize("fault", FOUND_BY_EXACTLY)
def test_a_planted_fault_is_found_by_no_other_kinds(fault: str) -> None:
    assert failing_kinds(WRONG[fault]) == FOUND_BY_EXACTLY[fault]


def test_every_planted_fault_is_asked_about() -> None:
    assert set(WRONG) == set(FOUND_BY) | set(FOUND_BY_EXACTLY)


def test_the_subject_that_the_faults_are_planted_in_is_right() -> None:
    assert failures(Plain()) == {}
    verdicts = [done.verdict for done in held(Plain()).values()]
    assert verdicts.count("passed") > 300


@pytest.mark.parametrize("dtype", [None, "float32", "bfloat16"])
def test_pytorch_row_by_row_passes_all_but_the_softcap(dtype: str | None) -> None:
    """Right code that shares nothing with attn's engines, rounding as PyTorch's kernels do."""
    done = held(RowByRow(), dtype)
    assert {path: d.mismatch or d.reason for path, d in done.items() if d.verdict == "failed"} == {}
    refused = {path for path, d in done.items() if d.verdict == "unsupported"}
    assert {path.partition("/")[0] for path in refused} >= {"softcap"}
    assert all("softcap" in done[path].reason for path in refused)


def test_the_fault_is_said_with_its_place_and_rule() -> None:
    said = failures(WRONG["NaN for empty rows"])["empty-row/padding-one-item"]
    assert said == (
        "weights at batch 0, head 0, query 0, key 0: expected 0, got NaN; "
        "105 of 210 elements are wrong (a row that sees no key gives 0)"
    )
    said = failures(WRONG["mask after softmax"])["one-visible-key/window"]
    assert "row sums at batch" in said
    assert "expected 1, got 0." in said
    said = failures(WRONG["NaN leaking from hidden values"])["nan-in-hidden-value/padding"]
    assert said.startswith("output at batch 0, head 1, query 0, d_v 0: expected")
    assert said.endswith("got NaN; 5 of 120 elements are wrong")
