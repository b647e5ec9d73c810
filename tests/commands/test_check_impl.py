"""The command line of `attn check impl`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

import attn_cli
from attn_cli.commands.main import main
from attn_cli.core.results_impl import ImplResult
from attn_cli.diagnosis.host.session import LocalSession
from attn_cli.diagnosis.saying import say
from attn_cli.render.terminal.check_impl import check_impl_screen
from attn_cli.render.terminal.console import Screen
from attn_cli.workflows.check.impl import check_impl
from tests.commands.somebodys_code import CODE, TORCH

Array = NDArray[Any]
CHECK = ["check", "impl"]


@pytest.fixture
def few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of the kinds of boundary cases: the whole suite, most of what a check costs, is asked
    in tests/unit/workflows/check/test_boundary.py, and here in a process of its own."""
    kinds = ("one-token", "every-mask", "huge-scores")
    monkeypatch.setattr("attn_cli.workflows.check.boundary.KINDS", kinds)


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_cases: None) -> str:
    """The file's name, asked in this process: one process more for each test would take long."""
    monkeypatch.setattr("attn_cli.diagnosis.adapting.ChildSession", LocalSession)
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(CODE, encoding="utf-8")
    Path("tensors.py").write_text(TORCH, encoding="utf-8")
    return "mine.py"


def words(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, as one line."""
    return " ".join(capsys.readouterr().out.split())


def test_right_code_is_0_and_the_verdict_stands_last(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CHECK, f"{code}:right"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == (
        "mine.py:right  numpy function · right(q, k, v, mask=bool keep_pair) → out · axes LD"
    )
    assert lines[1] == "  meant 1 head · every key · scale 1/√d"
    assert lines[-1].startswith("✓ correct: ")
    assert "✓ permutation equivariance  permuting the tokens permutes the rows" in lines
    assert "✗" not in out
    assert err == ""


def test_wrong_code_is_1_with_its_mistake_line_and_source(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CHECK, f"{code}:over_queries"]) == 1
    lines = capsys.readouterr().out.splitlines()
    title = next(line for line in lines if line.startswith("✗ ") and "softmax_over_queries" in line)
    place = lines.index(title) + 1
    assert lines[place] == "  line 15  return scores / scores.sum(0, keepdims=True) @ v"
    assert [line[2:5] for line in lines[place + 1 :] if line[:5].strip()][:2] == ["why", "see"]
    assert any(line.startswith("  fix   ") for line in lines)
    assert lines[-1] == "✗ wrong: softmax_over_queries on line 15"
    assert not any(
        line.split()[:2] == ["line", "source"] for line in lines
    )  # the trace is asked for


def test_the_trace_is_shown_where_it_is_asked_for(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CHECK, f"{code}:over_queries", "--trace"]) == 1
    lines = capsys.readouterr().out.splitlines()
    heading = next(line for line in lines if line.split()[:2] == ["line", "source"])
    assert "= scaled scores" in lines[lines.index(heading) + 1]
    assert sum("values differ" in line for line in lines) == 1
    assert lines[-1].startswith("✗ wrong: ")


def test_large_scores_alone_are_fragile(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHECK, f"{code}:overflows"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("✗ fragile: right but for large scores: softmax_overflow")


def test_undecided_is_3_with_the_line_that_parts(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CHECK, f"{code}:by_distance"]) == 3
    out = words(capsys)
    assert "? undecided: " in out
    assert "parts first" in out
    assert "largest difference" in out


def test_json_is_one_object_with_the_documented_fields(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CHECK, f"{code}:over_queries", "--json"]) == 1
    fields = json.loads(capsys.readouterr().out)
    assert fields["schema"] == "attn.check.impl/1"
    assert fields["verdict"] == "wrong"
    (mistake,) = fields["mistakes"]
    assert mistake["line"] == 15
    assert mistake["source"] == "return scores / scores.sum(0, keepdims=True) @ v"
    assert {"alternatives", "conventions", "plan", "trace", "behaviour", "probes"} <= set(fields)
    assert fields["trace"][0]["source"].startswith("scores = q @ k.T")


def test_unusable_is_2_and_with_json_an_object_of_its_own(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CHECK, f"{code}:raises", "--json"]) == 2
    out, err = capsys.readouterr()
    fields = json.loads(out)
    assert (fields["verdict"], fields["step"], fields["kind"]) == ("unusable", "call", "NameError")
    assert fields["line"] == 30
    assert fields["raised"] == "name 'values' is not defined"
    assert err.startswith("attn: mine.py:raises fails when called by")
    assert main([*CHECK, f"{code}:raises"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "line 30: NameError" in err


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["mine.py"], "expected FILE.py:NAME"),
        (["nowhere.py:f"], "there is no file nowhere.py"),
        (["mine.py:rihgt"], "did you mean right?"),
        (["mine.py:right", "--plan", "nowhere.json"], "nowhere.json: cannot be read"),
        (["mine.py:right", "--plan", "mine.py"], "mine.py: the plan is no JSON"),
        (["mine.py:right", "--save-plan", "plan.txt"], "attn writes .json files only"),
        (["mine.py:right", "--save-plan", "here.json"], "--force overwrites it"),
        (["mine.py:right", "--time-limit", "0"], "--time-limit is 0"),
        (["mine.py:right", "--call", "q, banana"], "--call holds banana"),
        (["mine.py:right", "--scale", "big"], "--scale is 'big'"),
        (["mine.py:right", "--seed", "-1"], "--seed is -1"),
        (["mine.py:right", "--rope-base", "500"], "--rope-base is about --positions rope"),
        (["mine.py:right", "--heads", "0"], "intent.heads"),
        (["mine.py:right", "--mask", "casual"], "casual"),
        (["mine.py:right", "--map", "to_q"], "--map holds"),
    ],
)
def test_what_cannot_be_used_is_2_in_a_sentence(
    code: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("here.json").write_text("{}", encoding="utf-8")
    assert main([*CHECK, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert Path("here.json").read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["impl", "mine.py:unclear", "--call", "q, k, v, mask"], "does True in m mean"),
        (["edges", "mine.py:unclear", "--call", "q, k, v, mask"], "does True in m mean"),
        (["grads", "mine.py:unclear"], "gradients need PyTorch"),
        (["edges", "mine.py:raises"], "line 30: NameError"),
        (["grads", "mine.py:raises"], "line 30: NameError"),
        (["impl", "nowhere.py:f"], "there is no file nowhere.py"),
        (["impl", "mine.py:right", "--total-time", "0"], "--total-time is 0"),
        (["impl", "mine.py:right", "--nonsense"], "no such option"),
        (["impl"], "missing argument"),
        (["dump", "mine.py"], "mine.py"),
        (["dump"], "missing argument"),
    ],
)
def test_with_json_every_question_and_refusal_is_one_object(
    code: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *arguments, "--json"]) == 2
    out, err = capsys.readouterr()
    fields = json.loads(out)
    assert set(fields) == {"schema", "message", "hint"}
    assert fields["schema"] == "attn.error/1"
    assert said in fields["message"]
    assert err.startswith("attn: ")


def test_what_is_unclear_is_asked_for_and_what_is_said_counts(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CHECK, f"{code}:unclear", "--call", "q, k, v, mask"]) == 2
    assert "--mask-means keep, hidden or additive" in capsys.readouterr().err
    assert main([*CHECK, f"{code}:Wrapped", "--init", "1.0"]) == 0
    assert "Wrapped(1.0)(q, k, v) → out" in words(capsys)
    half = ["--init", "factor=0.5", "--scale", str(0.5 / np.sqrt(8))]
    assert main([*CHECK, f"{code}:Wrapped", *half]) == 0
    assert "the scale is 0.176777 instead of 1/√8, as was said" in words(capsys)


def test_a_saved_plan_is_read_again(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHECK, f"{code}:Wrapped", "--init", "1.0", "--save-plan", "plan.json"]) == 0
    first = capsys.readouterr().out
    saved = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    assert saved["schema"] == "attn.plan/1"
    assert saved["call"]["init"] == {"args": [1.0]}
    assert main([*CHECK, f"{code}:Wrapped", "--plan", "plan.json"]) == 0
    again = capsys.readouterr().out
    assert again.splitlines()[:2] == first.splitlines()[:2]
    overwrite = ["--save-plan", "plan.json", "--force"]
    assert main([*CHECK, f"{code}:Wrapped", "--init", "factor=1.0", *overwrite]) == 0
    saved = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    assert saved["call"]["init"] == {"kwargs": {"factor": 1.0}}


def test_the_sample_has_one_mistake_in_a_process_of_its_own(samples: Path) -> None:
    target = f"{samples / 'my_attention.py'}:MyAttention"
    done = subprocess.run(
        [sys.executable, "-m", "attn_cli", *CHECK, target],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(samples.parent)},
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.isascii()
    assert "  line 29  scores = scores / math.sqrt(d_model)" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1] == "x wrong: scale_by_d_model on line 29"


@pytest.fixture(scope="module")
def two_mistakes() -> ImplResult:
    verdicts = import_module("tests.unit.diagnosis.impls.verdicts")
    return check_impl(verdicts.TwoMistakes, say())


def test_of_two_mistakes_each_has_its_own_line(two_mistakes: ImplResult) -> None:
    lines = {mistake.code: mistake.line for mistake in two_mistakes.mistakes}
    assert set(lines) == {"mask_no_effect", "heads_merged_without_transpose"}
    assert lines["mask_no_effect"] is None
    assert lines["heads_merged_without_transpose"] is not None


@pytest.mark.parametrize("width", [50, 80, 100, 200])
def test_no_line_is_wider_than_the_screen(two_mistakes: ImplResult, width: int) -> None:
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False)
    screen = check_impl_screen(two_mistakes, Screen(console, width, cuts=True, encoding="utf-8"))
    assert [line for line in screen.splitlines() if len(line) > width] == []
    seen = "the formula with this mistake"
    assert " ".join(screen.split()).count(seen) == 1  # both mistakes share their evidence


def attend(q: Array, k: Array, v: Array) -> Array:
    scores = q @ k.T / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    result: Array = weights / weights.sum(-1, keepdims=True) @ v
    return result


class Scaled:
    """An attention with a constructor."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, q: Array, k: Array, v: Array) -> Array:
        return attend(q * self.factor, k, v)


@pytest.mark.usefixtures("few_cases")
def test_as_a_library_it_takes_functions_classes_and_objects() -> None:
    result = attn_cli.check_impl(attend)
    assert result.verdict == "correct", [mistake.title for mistake in result.mistakes]
    assert attn_cli.check_impl(Scaled, init={"factor": 1.0}).verdict == "correct"
    twice = attn_cli.check_impl(Scaled(2.0), trace=False)
    assert twice.verdict in ("wrong", "undecided")
    assert twice.trace is None
    assert attn_cli.check_impl(Scaled(2.0), plan=result.plan, scale=2 / np.sqrt(8)).plan["intent"][
        "scale"
    ] == pytest.approx(0.7071, abs=1e-4)


def test_as_a_library_what_must_be_said_raises() -> None:
    with pytest.raises(attn_cli.InputError, match="factor"):
        attn_cli.check_impl(Scaled)
    with pytest.raises(attn_cli.InputError, match="expected a literal"):
        attn_cli.check_impl(Scaled, init="factor=1 + x")


def test_help_says_that_importing_runs_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHECK, "--help"]) == 0
    assert "Importing the file runs it" in words(capsys)
