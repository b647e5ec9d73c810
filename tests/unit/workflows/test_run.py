"""run_file: what is gathered for the screen and for JSON, and nothing that nobody asked for."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from attn_cli.core.engine import Progress
from attn_cli.core.results import RunResult
from attn_cli.core.settings import Choices
from attn_cli.errors import AttnError
from attn_cli.workflows import run
from attn_cli.workflows.run import DEFAULT_PARTS, RunOptions
from tests.agreement.holding import STEPWISE, lse_of

JSON = DEFAULT_PARTS | {"json"}


def run_file(source: str, options: RunOptions, *, progress: Progress | None = None) -> RunResult:
    result = run.run_file(source, options, progress=progress)
    assert isinstance(result, RunResult)
    return result


def test_a_run_holds_no_stage_unless_one_is_named(samples: Path) -> None:
    source = str(samples / "apple.json")
    assert run_file(source, RunOptions()).trace.stages == {}
    named = run_file(source, RunOptions(values=("weights",)))
    assert list(named.trace.stages) == list(named.values) == ["weights"]


def test_parts_that_are_not_shown_are_not_made(samples: Path) -> None:
    result = run_file(str(samples / "apple.json"), RunOptions(parts=frozenset({"findings"})))
    assert not result.views
    assert not result.shown_rows
    assert not result.rows
    assert result.rows_total == 6  # two heads, three queries


def test_narrowing_changes_what_is_listed_and_not_what_is_computed(samples: Path) -> None:
    source = str(samples / "gqa.npz")
    whole = run_file(source, RunOptions(parts=JSON, values=("weights",)))
    part = run_file(
        source,
        RunOptions(parts=JSON, values=("weights",), heads_shown=(4, 1), queries_shown=(2,)),
    )
    assert [(row.head, row.query) for row in part.rows] == [(1, 2), (4, 2)]
    assert [head.head for head in part.heads] == [1, 4]
    np.testing.assert_equal(part.heads[0].means, whole.heads[1].means)
    np.testing.assert_array_equal(
        part.values["weights"].array, whole.values["weights"].array[:, [1, 4]][:, :, [2]]
    )
    np.testing.assert_array_equal(part.trace.lse, whole.trace.lse)
    assert part.findings == whole.findings


@pytest.mark.parametrize("engine", STEPWISE)
@pytest.mark.parametrize(
    "sample", ["apple.json", "three_tokens.json", "padding.json", "empty_row.json", "gqa.npz",
               "translation.json", "sentence.csv", "decode.npz", "bfloat16.safetensors",
               "float16_overflow.npz"],
)  # fmt: skip
def test_every_sample_gives_json_that_is_json(samples: Path, sample: str, engine: str) -> None:
    result = run_file(str(samples / sample), RunOptions(parts=JSON, engine=engine))
    told = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert told["schema"] == "attn.run/1"
    assert len(told["rows"]) == math.prod(lse_of(result.trace).shape)
    assert [step["stage"] for step in told["shapes"]] == [s.stage for s in result.trace.shapes]


def test_the_masking_step_says_what_it_hides(samples: Path) -> None:
    causal = run_file(str(samples / "apple.json"), RunOptions(choices=Choices(masks=("causal",))))
    (step,) = [step for step in causal.shapes if step.stage == "masked"]
    assert step.formula == "causal hides 3 of 9"


def test_progress_is_told(samples: Path) -> None:
    told: list[tuple[int, int]] = []
    run_file(
        str(samples / "padding.json"),
        RunOptions(),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[-1][0] == told[-1][1] == len(told)


@pytest.mark.parametrize(
    "options, words",
    [
        (RunOptions(heads_shown=(2,)), "there is no head 2: this run has 2"),
        (RunOptions(engine="nunpy"), "did you mean 'numpy'"),
        (RunOptions(dtype="bfloat16"), "does not compute in bfloat16"),
        (RunOptions(device="cuda"), "engine numpy runs on cpu, not on cuda"),
        (RunOptions(engine="torch", device="nowhere"), "device 'nowhere'"),
        (RunOptions(values=("merge",)), "did you mean 'merged'"),
        (RunOptions(choices=Choices(heads=3)), "does not split into 3 heads"),
    ],
)
def test_what_cannot_be_done_is_refused(samples: Path, options: RunOptions, words: str) -> None:
    with pytest.raises(AttnError, match=words) as refusal:
        run_file(str(samples / "apple.json"), options)
    assert "\n" not in str(refusal.value)


def test_scores_beyond_memory_are_refused_before_they_are_made(
    samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attn_cli.workflows.room.available_bytes", lambda: 100)
    with pytest.raises(AttnError, match="2 × 3 × 3 scores need about"):
        run_file(str(samples / "apple.json"), RunOptions())
