"""The command lines of `attn check edges` and `attn check grads` on FILE.py:NAME."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attn_cli.commands.main import main
from attn_cli.diagnosis.host.session import LocalSession
from tests.commands.somebodys_code import CODE, TORCH


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file's name, asked in this process: one process more for each test would take long."""
    monkeypatch.setattr("attn_cli.diagnosis.adapting.ChildSession", LocalSession)
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(CODE, encoding="utf-8")
    Path("tensors.py").write_text(TORCH, encoding="utf-8")
    return "mine.py"


def words(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, as one line."""
    return " ".join(capsys.readouterr().out.split())


def test_edges_holds_code_and_says_how_to_see_a_case(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ["--mask-means", "keep", "--kind", "one-head,empty-row,softcap"]
    assert main(["check", "edges", f"{code}:right", *said]) == 1
    out = words(capsys)
    assert "· code mine.py:right · float64 · seed 0" in out
    assert "attn check edges mine.py:right --mask-means keep --case empty-row/" in out
    assert "failures are rows that see no key" in out
    assert "cases not supported: the code is not meant for a softcap" in out
    case = next(word for word in out.split() if word.startswith("empty-row/"))
    arguments = [f"{code}:right", "--mask-means", "keep", "--case", case, "--json"]
    assert main(["check", "edges", *arguments]) == 1
    fields = json.loads(capsys.readouterr().out)
    assert fields["engines"] == [f"{code}:right"]
    assert [kind["failed"] for kind in fields["kinds"]] == [1]


def test_a_case_that_raises_has_failed(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("late.py").write_text(
        "import numpy as np\n"
        "def attend(q, k, v):\n"
        "    assert len(q) != 1, 'one token'\n"
        "    s = np.exp(q @ k.T / np.sqrt(q.shape[-1]))\n"
        "    return s / s.sum(-1, keepdims=True) @ v\n",
        encoding="utf-8",
    )
    assert main(["check", "edges", "late.py:attend", "--kind", "one-token"]) == 1
    assert "it raised AssertionError on line 3: one token" in words(capsys)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["edges", "--init", "3"], "--init is about FILE.py:NAME, and none is given"),
        (["edges", "mine.py:right", "--engine", "numpy"], "hold one or the other"),
        (["grads", "mine.py:right", "--mask-means", "keep"], "gradients need PyTorch"),
        (["grads", "tensors.py:right", "--heads", "2"], "--heads is not about code"),
        (["grads", "--plan", "p.json"], "--plan is about FILE.py:NAME"),
    ],
)
def test_edges_and_grads_refuse_what_does_not_go_together(
    code: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_grads_of_code_are_those_of_its_own_output(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "grads", "tensors.py:right"]) == 0
    out, _ = capsys.readouterr()
    assert out.splitlines()[0].startswith("tensors.py:right  ")
    assert out.splitlines()[-1] == "✓ 3 gradients are as finite differences say"


def test_grads_finds_what_is_detached(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "grads", "tensors.py:detached", "--json"]) == 1
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    verdicts = {part["input"]: (part["verdict"], part["reason"]) for part in case["inputs"]}
    assert verdicts == {
        "q": ("wrong", "missing"),
        "k": ("wrong", "missing"),
        "v": ("right", None),
    }
