"""attn run by an engine that shows some stages only: what is missing is said, not made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.results import RunResult
from attn_cli.core.trace import Trace
from attn_cli.errors import UnsupportedError
from attn_cli.workflows.library import run
from attn_cli.workflows.run import DEFAULT_PARTS, RunOptions, run_file
from tests.agreement.samples import built, drawn, stored

SAMPLE = "sample_inputs/apple.json"


def found(trace: Trace, code: str) -> str:
    (message,) = [finding.message for finding in trace.findings if finding.code == code]
    return message


def run_sample(options: RunOptions) -> RunResult:
    result = run_file(SAMPLE, options)
    assert isinstance(result, RunResult)
    return result


def codes(inputs: AttentionInputs, engine: str) -> set[str]:
    return {finding.code for finding in run(inputs, engine=engine).findings}


@pytest.mark.parametrize("engine", ["sdpa", "sdpa:flash", "flex"])
@pytest.mark.parametrize("parts", [DEFAULT_PARTS, frozenset({"json"})])
def test_parts_that_need_weights_are_left_out_and_that_is_said(
    engine: str, parts: frozenset[str]
) -> None:
    result = run_sample(RunOptions(engine=engine, parts=parts))
    told = result.to_dict()
    assert (told["rows"], told["heads"], result.trace.stats) == ([], [], {})
    assert "rows_total" not in told
    stages = [step["stage"] for step in told["shapes"]]
    assert stages == ["x", "q", "k", "v", "context", "merged", "output"]
    message = found(result.trace, "not-shown")
    assert message.startswith(f"engine {engine} does not show scores, scaled, masked, weights, so")
    assert "every row sums to 1" not in result.fine
    assert result.masked


@pytest.mark.parametrize("part", ["rows", "heads", "weights"])
def test_a_part_asked_for_by_name_is_refused(part: str) -> None:
    with pytest.raises(UnsupportedError, match="does not show its weights") as refusal:
        run_file(SAMPLE, RunOptions(engine="sdpa", parts=frozenset({part})))
    assert refusal.value.hint == "use --engine numpy, torch or mha"


def test_mha_has_rows_and_no_lse() -> None:
    result = run_sample(RunOptions(engine="mha"))
    right = run_sample(RunOptions())
    assert result.trace.lse is None
    for name, numbers in right.trace.stats.items():
        np.testing.assert_allclose(result.trace.stats[name], numbers, rtol=1e-13, err_msg=name)
    assert found(result.trace, "not-shown").startswith(
        "engine mha does not show scores, scaled, masked;"
    )


@pytest.mark.parametrize(
    "engine, code, words",
    [
        ("numpy", "empty-row", "so weights, sum and output are 0 there"),
        ("sdpa", "empty-row", "so the output is 0 there"),
        ("flex", "empty-row", "so the output is 0 there"),
        ("mha", "empty-row-nan", "so weights, sum and output are NaN there"),
    ],
)
def test_what_an_engine_makes_of_an_empty_row_is_said(engine: str, code: str, words: str) -> None:
    keep = np.ones((1, 2, 5, 5))
    keep[0, 1, 2] = 0
    plain = drawn(95)
    inputs = replace(plain, mask=stored(keep, plain.shape))
    assert words in found(run(inputs, engine=engine), code)
    assert not codes(inputs, engine) & {"nonfinite", "nonfinite-output"}


def test_nan_that_leaks_from_a_hidden_value_is_counted() -> None:
    plain = drawn(96)
    v = plain.v.copy()
    v[0, 1, 4, 0] = np.nan
    inputs = replace(plain, v=v, mask=built("padding(4)", plain))
    kept = found(run(inputs), "hidden-nonfinite")
    assert "it takes no part in the rows that do not see it" in kept
    leaked = found(run(inputs, engine="sdpa"), "hidden-nonfinite")
    assert "0 times it is NaN, which reaches 5 rows that see no such key" in leaked
    assert "nonfinite" not in codes(inputs, "sdpa")


def test_a_mask_is_counted_though_its_step_is_not_shown() -> None:
    hiding = replace(drawn(97), mask=built("causal", drawn(97)))
    nothing = replace(drawn(97), mask=built("none", drawn(97)))
    assert "mask-hides-nothing" not in codes(hiding, "sdpa")
    assert "mask-hides-nothing" in codes(nothing, "sdpa")
