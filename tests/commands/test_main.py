"""attn itself: exit codes, and what a user reads who asked for the impossible."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attn_cli.commands import main as command
from attn_cli.commands.main import main
from attn_cli.errors import ExitCode, InputError
from attn_cli.version import __version__

Capture = pytest.CaptureFixture[str]


def test_version_names_what_attn_stands_on(capsys: Capture) -> None:
    assert main(["--version"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"attn     {__version__}"
    assert [line.split()[0] for line in lines[1:]] == ["python", "numpy", "torch", "platform"]


def test_without_arguments_there_is_help(capsys: Capture) -> None:
    assert main([]) == ExitCode.OK
    out, err = capsys.readouterr()
    assert "Exit codes: 0 fine" in out
    assert "run" in out
    assert err == ""


def test_help_of_run_has_examples_and_exit_codes(capsys: Capture) -> None:
    assert main(["run", "--help"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "attn run sample_inputs/apple.json" in out
    assert "Exit codes: 0 fine" in out
    for option in ("--context", "--kv-heads", "--mask-means", "--fail-on", "--list"):
        assert option in out


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["rum"], "no such command 'rum'. Did you mean 'run'?"),
        (["run", "--hedas", "2", "x.json"], "--hedas"),
        (["run", "a.json", "b.json"], "unexpected extra argument"),
        (["run", "--heads", "two", "x.json"], "invalid value for '--heads'"),
        (["run", "--heads"], "'--heads' requires an argument"),
        (["run", "--align", "left", "x.json"], "'left' is not one of 'lower-right', 'upper-left'"),
        (["run", "--rows", "some", "x.json"], "'some' is not"),
        (["run", "--fail-on", "note", "x.json"], "'note' is not one of 'warning', 'error'"),
    ],
)
def test_wrong_usage_is_one_line_and_a_hint(
    arguments: list[str], words: str, capsys: Capture
) -> None:
    assert main(arguments) == ExitCode.CANNOT_RUN
    out, err = capsys.readouterr()
    first, hint = err.splitlines()
    assert first.startswith("attn: ")
    assert words in first
    assert "--help shows what it takes" in hint
    assert out == ""


def test_wrong_usage_with_json_is_an_object_too(capsys: Capture) -> None:
    assert main(["run", "--json", "--hedas", "2"]) == ExitCode.CANNOT_RUN
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert said["schema"] == "attn.error/1"
    assert "--hedas" in said["message"]
    assert err == f"attn: {said['message']} ({said['hint']})\n"


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    assert main(["run", str(tmp_path / "no.json")]) == ExitCode.CANNOT_RUN
    out, err = capsys.readouterr()
    assert out == ""
    assert "no such file" in err.splitlines()[0]
    assert "Traceback" not in err


def test_a_missing_file_with_json(tmp_path: Path, capsys: Capture) -> None:
    assert main(["run", str(tmp_path / "no.json"), "--json"]) == ExitCode.CANNOT_RUN
    out, err = capsys.readouterr()
    assert set(json.loads(out)) == {"schema", "message", "hint"}
    assert len(err.splitlines()) == 1


def test_the_name_of_a_file_is_shown_escaped(capsys: Capture) -> None:
    assert main(["run", "\x1b[31mno\n.json"]) == ExitCode.CANNOT_RUN
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert r"\x1b[31mno\n.json" in err


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("ATTN_DEBUG", "1")
    assert main(["run"]) == ExitCode.CANNOT_RUN
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert "attn: no INPUT was given" in err


@pytest.mark.parametrize(
    "raised, code, words",
    [
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, ""),
        (MemoryError(), ExitCode.CANNOT_RUN, "attn: memory ran out"),
        (InputError("x is odd", hint="give y"), ExitCode.CANNOT_RUN, "attn: x is odd"),
    ],
)
def test_what_is_raised_becomes_a_code(
    raised: BaseException,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr("attn_cli.workflows.run.run_file", fail)
    assert main(["run", "x.json"]) == code
    assert capsys.readouterr().err.startswith(words)


def test_a_fault_of_attn_has_a_traceback_and_no_result_code(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def fail() -> int:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(command, "main", fail)
    monkeypatch.setattr("sys.argv", ["attn"])
    with pytest.raises(SystemExit) as stop:
        command.entry()
    assert stop.value.code == ExitCode.CANNOT_RUN
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "attn: attn itself failed: ZeroDivisionError: by zero" in err
