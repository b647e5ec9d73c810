"""attn run started by torchrun: two processes share the work, and one of them speaks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attn_cli.commands.main import main

ROOT = Path(__file__).parents[2]
Ended = tuple[int, str, str]  # exit code, stdout, stderr


def started(*arguments: str, folders: tuple[Path, Path]) -> list[Ended]:
    """Two processes with the environment that torchrun gives them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    both = []
    for rank, folder in enumerate(folders):
        told = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": port}
        told |= {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
        both.append(
            subprocess.Popen(
                [sys.executable, "-m", "attn_cli", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=folder,
                env={**os.environ, **told, "PYTHONPATH": str(ROOT)},
            )
        )
    said = [process.communicate(timeout=120) for process in both]
    return [(p.returncode, out, err) for p, (out, err) in zip(both, said, strict=True)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(6)
    q, k, v = rng.normal(size=(3, 1, 3, 40, 8))
    np.savez(tmp_path / "qkv.npz", q=q, k=k, v=v)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_two_processes_print_once_what_one_prints(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("run", "qkv.npz", "--engine", "tiled", "--causal", "--block", "16", "--json")
    first, second = started(*asked, folders=(here, here))
    assert second == (0, "", "")
    code, out, err = first
    assert (code, err) == (0, "")
    assert main(list(asked)) == 0
    shared, alone = json.loads(out), json.loads(capsys.readouterr().out)
    assert shared.keys() == alone.keys()
    for mine, theirs in zip(shared["rows"], alone["rows"], strict=True):
        for name, value in theirs.items():
            if isinstance(value, float):
                np.testing.assert_allclose(mine[name], value, atol=1e-12, err_msg=name)
        assert [top["key"] for top in mine["top"]] == [top["key"] for top in theirs["top"]]
    assert shared["findings"] == alone["findings"]


def test_a_rank_that_fails_ends_the_run_with_its_message(here: Path) -> None:
    (here / "empty").mkdir()
    asked = ("run", "qkv.npz", "--engine", "tiled", "--causal")
    first, second = started(*asked, folders=(here, here / "empty"))
    assert second == (2, "", "")
    assert first[:2] == (2, "")
    assert first[2].splitlines()[0] == "attn: rank 1: qkv.npz: no such file"


def test_nothing_else_is_shared(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("TORCHELASTIC_RUN_ID", "none"), ("WORLD_SIZE", "2"), ("RANK", "0")):
        monkeypatch.setenv(name, value)
    alone = "attn run --engine tiled alone shares its work"
    for asked, why in (
        (("mask", "causal"), "and attn mask computes in one"),
        (("run", "qkv.npz"), "and engine numpy computes in one"),
        (("run", "-", "--engine", "tiled"), "and only one can read standard input"),
    ):
        assert main(list(asked)) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.splitlines()[0] == f"attn: torchrun started 2 processes, {why}: {alone}"
