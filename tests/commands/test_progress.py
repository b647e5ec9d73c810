"""The bar of a long run: silent in a pipe, and what is said where somebody stops the run."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from attn_cli.commands.main import main
from attn_cli.commands.progress import Bar, pace
from attn_cli.core.engine import Ask
from attn_cli.core.inputs import AttentionInputs
from attn_cli.engines.torch_tiled import TiledEngine

Capture = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> str:
    """What a bar leaves on stderr: 1,000 rows a second of 10,000."""
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    now = [0.0]
    bar = Bar(clock=lambda: now[0])
    for second in range(5):
        now[0] = float(second)
        bar(1000 * second, 10_000)
    bar.clear()
    return stream.getvalue()


def test_rate_and_time_left() -> None:
    assert pace(1000, 31_000, 2.0) == "500 rows/s  0:01:00 left"
    assert pace(1, 7201, 1.0) == "1 rows/s  2:00:00 left"
    assert pace(0, 10, 1.0) == pace(3, 10, 0.0) == ""


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal())
    assert "4,000 of 10,000 rows" in text
    assert "1,000 rows/s  0:00:06 left" in text


def test_in_a_pipe_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO()) == ""


def test_what_was_done_is_said_where_the_run_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path, target = tmp_path / "x.npy", tmp_path / "s.npz"
    np.save(path, np.eye(5))

    def stopped(self: TiledEngine, inputs: AttentionInputs, ask: Ask) -> None:
        assert ask.progress is not None
        ask.progress(3, 5)
        raise KeyboardInterrupt

    monkeypatch.setattr(TiledEngine, "run", stopped)
    assert main(["run", str(path), "--engine", "tiled", "--save", str(target)]) == 130
    said = capsys.readouterr()
    assert said.err == "attn: interrupted after 3 of 5 rows; nothing was written\n"
    assert said.out == ""
    assert not target.exists()


def test_other_engines_are_stopped_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attn_cli.engines.numpy_ref.NumpyEngine.run", stopped)
    path = tmp_path / "x.npy"
    np.save(path, np.eye(5))
    assert main(["run", str(path)]) == 130
    assert capsys.readouterr().err == ""


def test_the_block_arrives(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.eye(5))
    assert main(["run", str(path), "--block", "2"]) == 2
    assert "does not work in tiles" in capsys.readouterr().err
    assert main(["run", str(path), "--engine", "tiled", "--block", "2"]) == 0
    assert "engine tiled float64" in capsys.readouterr().out
