"""The command line of `attn check edges`: what it prints, and the exit codes."""

from __future__ import annotations

import json

import pytest

from attn_cli.checks.edges.case import Answer
from attn_cli.checks.edges.subjects import EngineSubject
from attn_cli.commands.main import main
from attn_cli.core.inputs import AttentionInputs

CHECK = ["check", "edges"]
NUMPY = [*CHECK, "--engine", "numpy"]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine whose head 1 is a little off."""
    attend = EngineSubject.attend

    def off(self: EngineSubject, inputs: AttentionInputs, dtype: str) -> Answer:
        output = attend(self, inputs, dtype).output.copy()
        output[:, 1:] *= 1.001
        return Answer(output)

    monkeypatch.setattr(EngineSubject, "attend", off)


def test_all_passed_is_0_and_says_so_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NUMPY, "--kind", "sinks,one-key"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "edges  16 cases · 2 kinds · engine numpy · float64 · seed 0"
    assert out.splitlines()[2].split() == ["kind", "cases", "passed", "failed", "not", "supported"]
    assert out.splitlines()[-1] == "✓ 16 passed"
    assert err == ""


def test_several_engines_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHECK, "--engine", "torch,numpy", "--kind", "bfloat16,sinks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["kind", "cases", "numpy", "torch"]
    assert lines[3].split() == ["sinks", "7", "7", "passed", "7", "passed"]
    assert lines[4].split() == ["bfloat16", "10", "10", "not", "supp.", "10", "passed"]
    assert lines[-1] == "✓ 24 passed, 10 not supported"


def test_nothing_supported_is_3_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NUMPY, "--kind", "bfloat16"]) == 3
    out = capsys.readouterr().out
    assert "10 cases not supported: engine numpy does not compute in bfloat16" in out
    assert out.splitlines()[-1] == "! 0 passed, 10 not supported"


def test_a_failure_is_1_with_a_line_that_reproduces_it(
    broken: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*NUMPY, "--kind", "sinks,one-head"]) == 1
    out = capsys.readouterr().out
    assert "✗ sinks/plain" in out
    assert "  attn check edges --engine numpy --case sinks/plain" in out
    assert "one-head/" not in out
    assert out.splitlines()[-1] == "✗ 7 passed, 7 failed"
    assert main(["check", "edges", "--engine", "numpy", "--case", "sinks/plain"]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "sinks/plain"
    assert "q       2 × 3 × 5 × 8   batch, head, query, d_k" in out
    assert "output at batch" in out
    assert "numpy: failed against the float64 oracle: output at batch" in " ".join(out.split())


def test_json_is_one_object_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NUMPY, "--case", "sinks/causal", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["schema"] == "attn.check.edges/1"
    assert [case["name"] for case in fields["cases"]] == ["causal"]
    assert fields["detail"]["mask"] == "causal"
    assert fields["detail"]["given"][0]["engine"] == "numpy"
    assert len(fields["detail"]["given"][0]["output"]) == 2


def test_lists_of_kinds_and_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CHECK, "--list"]) == 0
    assert capsys.readouterr().out.startswith("one-token ")
    assert main([*CHECK, "--list", "--kind", "sinks", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["schema"] == "attn.list/1"
    assert fields["entries"][0]["name"] == "sinks/plain"


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--kind", "empty"], "did you mean 'empty-row'?"),
        (["--engine", "nump"], "did you mean 'numpy'?"),
        (["--case", "sinks"], "expected kind/name"),
        (["--dtype", "float31"], "did you mean 'float32'?"),
        (["--seed", "x"], "invalid value for '--seed'"),
    ],
)
def test_wrong_usage_is_2_in_one_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*CHECK, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err
