"""attn in a fresh process: pipes, encodings, terminals, and readers that go away."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

ROOT = Path(__file__).parents[2]
ATTN = [sys.executable, "-m", "attn_cli"]


def environment(**changes: str) -> dict[str, str]:
    dropped = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color"} | changes


def attn(*arguments: str, **changes: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*ATTN, *arguments], env=environment(**changes), capture_output=True)


def on_a_terminal(*arguments: str, columns: int, env: Mapping[str, str]) -> str:
    """What attn prints where stdout is a terminal of so many columns."""
    import fcntl
    import pty
    import struct
    import termios

    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen([*ATTN, *arguments], env=env, stdout=side, stderr=side) as process:
        os.close(side)
        printed = b""
        while True:
            try:
                some = os.read(main, 65536)
            except OSError:  # Linux says so where the other side is closed
                some = b""
            if not some:
                break
            printed += some
    os.close(main)
    assert process.returncode == 0
    return printed.decode("utf-8").replace("\r\n", "\n")


def test_a_pipe_has_no_escape_sequences(samples: Path) -> None:
    done = attn("run", str(samples / "apple.json"))
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert done.stderr == b""


@pytest.mark.parametrize("changes", [{"LANG": "C"}, {"PYTHONIOENCODING": "ascii"}])
@pytest.mark.parametrize("extra", [(), ("--json",), ("--values", "masked")])
def test_any_encoding_will_do(
    changes: dict[str, str], extra: tuple[str, ...], samples: Path
) -> None:
    done = attn("run", str(samples / "apple.json"), *extra, **changes)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""


def test_ascii_spells_signs_and_escapes_tokens(samples: Path) -> None:
    text = attn("run", str(samples / "apple.json"), PYTHONIOENCODING="ascii").stdout.decode("ascii")
    assert "q . k^T" in text
    assert r"\u559c\u6b22  0.006        0.994            .  1.000000" in text
    assert "ok every row sums to 1" in text


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["run", "--list", "stages"]])
def test_help_and_lists_in_ascii(arguments: list[str]) -> None:
    done = attn(*arguments, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()


def test_an_error_in_ascii(tmp_path: Path) -> None:
    done = attn("run", str(tmp_path / "苹果.json"), PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert rb"\u82f9\u679c.json" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(300, 8)))
    command = f"{sys.executable} -m attn_cli run {tmp_path}/x.npy --json; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | head -1"], env=environment(), capture_output=True
    )
    assert done.stdout == b"{\n"
    assert done.stderr == b"0\n"


def test_the_exit_code_survives_a_reader_that_goes_away(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(300, 8))
    vectors[3, 3] = np.nan
    np.save(tmp_path / "x.npy", vectors)
    command = (
        f"{sys.executable} -m attn_cli run {tmp_path}/x.npy --json --fail-on error; echo $? >&2"
    )
    done = subprocess.run(
        ["bash", "-c", f"({command}) | head -1"], env=environment(), capture_output=True
    )
    assert done.stderr == b"1\n"


@pytest.mark.parametrize("command", ["--help", "run --help", "run --list masks"])
def test_help_may_be_cut_short(command: str) -> None:
    script = f"({sys.executable} -m attn_cli {command}; echo $? >&2) | true"
    done = subprocess.run(["bash", "-c", script], env=environment(), capture_output=True)
    assert done.stderr == b"0\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_fault(closed: str, samples: Path, tmp_path: Path) -> None:
    save = f"--save {tmp_path}/x.npz" if closed.startswith("<&- ") else ""
    script = f"{sys.executable} -m attn_cli run {samples}/apple.json {save} {closed}"
    done = subprocess.run(["bash", "-c", script], env=environment(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert (tmp_path / "x.npz").exists() == bool(save)
    script = f"{sys.executable} -m attn_cli run none.json {closed}"
    done = subprocess.run(["bash", "-c", script], env=environment(), capture_output=True)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_help_on_a_full_disk_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*ATTN, *arguments], env=environment(), stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 2
    assert done.stderr.startswith(b"attn: cannot write to standard output: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_an_error_that_has_nowhere_to_go_as_json_is_said_on_stderr() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*ATTN, "run", "none.json", "--json"],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 2
    assert done.stderr == b"attn: none.json: no such file\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_one_line(samples: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*ATTN, "run", str(samples / "apple.json")],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 2
    assert done.stderr.startswith(b"attn: cannot write to standard output: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("columns", [80, 100, 200])
def test_a_terminal_is_shaded_and_nothing_is_wider(columns: int, samples: Path) -> None:
    shown = on_a_terminal("run", str(samples / "sentence.csv"), columns=columns, env=environment())
    assert "\x1b[" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(map(cell_len, plain.splitlines())) <= columns
    assert "0.416" in plain or ".416" in plain


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_no_color_leaves_a_terminal_without_colour(samples: Path) -> None:
    env = environment(NO_COLOR="1")
    shown = on_a_terminal("run", str(samples / "apple.json"), columns=100, env=env)
    codes = {code for found in re.findall(r"\x1b\[([0-9;]*)m", shown) for code in found.split(";")}
    assert codes <= {"0", "1", "2", ""}  # bold and dim, no colour


def test_interrupting_gives_130(samples: Path) -> None:
    probe = (
        "import sys; from attn_cli.commands.main import main; import attn_cli.workflows.run as w\n"
        "def stop(*a, **k): raise KeyboardInterrupt\n"
        "w.run_file = stop\n"
        f"sys.exit(main(['run', {str(samples / 'apple.json')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", probe], env=environment(), capture_output=True)
    assert done.returncode == 130
    assert done.stderr == b""
