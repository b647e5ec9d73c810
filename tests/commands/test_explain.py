"""attn explain: exit codes, stdout and stderr, JSON, and the examples of its help."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from attn_cli.commands.explain import EXAMPLES
from attn_cli.commands.main import main

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_inputs"
THREE = str(SAMPLES / "three_tokens.json")


def test_page_of_the_three_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", THREE, "--query", "0"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert re.search(r"^cats .* 0\.50648$", printed.out, flags=re.MULTILINE)
    assert re.search(r"^chase .* 0\.36788 +0\.18632$", printed.out, flags=re.MULTILINE)
    assert re.search(r"^mice .* 0\.60653 +0\.30720$", printed.out, flags=re.MULTILINE)


def test_json_is_an_object_with_the_same_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", THREE, "--query", "0", "--json"]) == 0
    printed = capsys.readouterr()
    fields = json.loads(printed.out)
    assert printed.err == ""
    assert fields["schema"] == "attn.explain/1"
    assert (fields["query"], fields["item"], fields["layer"], fields["heads"]) == (0, 0, 0, [0])
    assert fields["tokens"] == {"query": "cats", "keys": ["cats", "chase", "mice"]}
    assert [step["stage"] for step in fields["steps"]] == [
        *("x", "q", "scores", "scale", "scaled", "maximum", "shifted", "exp", "sum", "weights"),
        *("row_sum", "context", "merged", "output"),
    ]
    assert [finding["code"] for finding in fields["findings"]] == ["no-projections"]


@pytest.mark.parametrize("example", EXAMPLES[1:])
def test_examples_of_the_help_work(
    example: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    _, *arguments = shlex.split(example)
    assert main(arguments) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "no INPUT was given"),
        ([THREE], "no --query was given: expected the row to explain, a query counted from 0"),
        ([THREE, "--query", "3"], "there is no query 3: this run has 3"),
        ([THREE, "--query", "-1"], "--query is '-1': expected one number, counted from 0"),
        ([THREE, "--query", "0,1"], "--query is '0,1': expected one number, counted from 0"),
        ([THREE, "--query", "cats"], "--query is 'cats'"),
        ([THREE, "--query", "0", "--head", "1"], "there is no head 1: this run has 1"),
        ([THREE, "--query", "0", "--item", "x"], "--item is 'x'"),
        ([THREE, "--query", "0", "--layer", "1"], "there is no layer 1: this run has 1"),
        ([THREE, "--query", "0", "--terms", "0"], "--terms is '0': expected a number from 1 on"),
        ([THREE, "--query", "0", "--terms", "many"], "--terms is 'many'"),
        ([THREE, "--query", "0", "--text", "a"], "--text is what a model reads"),
        (["nowhere.json", "--query", "0"], "nowhere.json"),
        ([THREE, "--query", "0", "--dtype", "float16"], "no such option"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    first, *hint = printed.err.splitlines()
    assert first.startswith("attn: ")
    assert message in first
    assert len(hint) <= 1


def test_bad_usage_with_json_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", THREE, "--json"]) == 2
    printed = capsys.readouterr()
    fields = json.loads(printed.out)
    assert fields["schema"] == "attn.error/1"
    assert "--query" in fields["message"]
    assert len(printed.err.splitlines()) == 1


def test_options_of_run_change_what_is_computed(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--causal", "--scale", "none", "--softcap", "3", "--heads", "2", "--head", "1"]
    assert main(["explain", THREE, "--query", "1", *options, "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    stages = [step["stage"] for step in fields["steps"] if step["head"] == 1]
    assert "scaled" not in stages
    assert {"softcapped", "masked"} <= set(stages)
    assert fields["heads"] == [1]
    assert fields["settings"]["mask"] == "causal"


def test_terms_of_the_json_are_as_many_as_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(SAMPLES / "float16_overflow.npz")
    for option, count in (([], 8), (["--terms", "3"], 3), (["--terms", "all"], 64)):
        assert main(["explain", path, "--query", "0", "--json", *option]) == 0
        steps = json.loads(capsys.readouterr().out)["steps"]
        (scores,) = (step for step in steps if step["stage"] == "scores")
        for line in scores["lines"]:
            assert len(line["terms"]) == count
            assert (line["rest"] or {"terms": 0})["terms"] == 64 - count


def test_a_layer_with_drawn_projections_and_positions(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--init", "xavier", "--seed", "1", "--positions", "rope"]
    assert main(["explain", THREE, "--query", "1", *options, "--json"]) == 0
    stages = [step["stage"] for step in json.loads(capsys.readouterr().out)["steps"]]
    assert {"q", "angle", "cos", "sin", "q_rotated", "k", "v"} <= set(stages)


def test_standard_input_is_read() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "attn_cli", "explain", "-", "--query", "1"],
        input="[[1, 0], [0, 1]]",
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("standard input  2 vectors")


def test_head_ends_without_a_traceback() -> None:
    command = f"{shlex.quote(sys.executable)} -m attn_cli explain {shlex.quote(THREE)} --query 0"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
