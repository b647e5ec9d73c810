"""attn mask on the command line: exit codes, what is printed where, errors."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attn_cli.commands.main import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with one mask in it: strictly lower, as numbers to add."""
    monkeypatch.chdir(tmp_path)
    np.save("strict.npy", np.where(np.tril(np.ones((5, 5)), -1), 0.0, -1e9))
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command prints; it must say nothing on stderr."""
    assert main(["mask", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The words of a refusal: exit code 2, nothing on stdout, no traceback."""
    assert main(["mask", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert captured.err.startswith("attn: ")
    return captured.err


def fields(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(shown(capsys, *arguments, "--json"))


def test_a_screen_whole(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(
        capsys, "causal & (window(3) | sink(1))", "-q", "6", "-k", "8", "--align", "lower-right"
    )
    assert text.splitlines() == [
        "causal & (window(3) | sink(1))  6 queries · 8 keys · lower-right",
        "",
        "query at position ╲ key 0 1 2 3 4 5 6 7   sees",
        "                 0 at 2 ■ ■ ■ · · · · ·      3",
        "                 1 at 3 ■ ■ ■ ■ · · · ·      4",
        "                 2 at 4 ■ · ■ ■ ■ · · ·      4",
        "                 3 at 5 ■ · · ■ ■ ■ · ·      4",
        "                 4 at 6 ■ · · · ■ ■ ■ ·      4",
        "                 5 at 7 ■ · · · · ■ ■ ■      4",
        "",
        "■ may attend (True)   · hidden (False)",
        "",
        "lets through  23 of 48 pairs, 47.9%",
        "keys per row  3 to 4, mean 3.83: fewest for query 0, most for queries 1–5",
        "",
        "part                  by itself           only it",
        "causal                hides 15    31.2%   hides nothing",
        "window(3) | sink(1)   hides 25    52.1%   hides 10",
        "  window(3)           shows 18    37.5%   shows 17",
        "  sink(1)             shows 6     12.5%   shows 5",
        "",
        "· 6 queries against 8 keys, lower-right: the last query is the last key  alignment",
        "· causal makes no difference here: without it the mask is the same  idle-part",
        "",
        "as code: --as sdpa, mha, flex or hf",
    ]


def test_sizes_have_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert "8 queries · 8 keys" in shown(capsys, "causal")
    assert "5 queries · 5 keys" in shown(capsys, "causal", "-q", "5")
    assert "7 queries · 7 keys" in shown(capsys, "causal", "--keys", "7")


def test_json_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    told = fields(capsys, "causal", "-q", "3", "--as", "sdpa,mha")
    assert set(told) == {
        "schema", "expression", "file", "batch", "heads", "queries", "keys", "align", "q_offset",
        "exact", "visible", "total", "keys_per_row", "empty_rows", "empty_rows_total", "parts",
        "picture", "picture_cell", "items", "rows", "rows_total", "code", "findings", "fills",
    }  # fmt: skip
    assert told["schema"] == "attn.mask/1"
    assert (told["expression"], told["visible"], told["total"]) == ("causal", 6, 9)
    assert told["picture"] == ["#..", "##.", "###"]
    assert list(told["code"]) == ["sdpa", "mha"]


@pytest.mark.parametrize("target", ["sdpa", "mha", "flex", "hf"])
def test_code_is_printed_alone(capsys: pytest.CaptureFixture[str], target: str) -> None:
    code = shown(capsys, "causal & padding(3, 5)", "--as", target)
    ast.parse(code)
    assert "import torch" in code
    polarity = {"mha": "True = hidden", "hf": "finfo(dtype).min = hidden"}
    assert polarity.get(target, "True = may attend") in code


def test_causal_for_sdpa_is_is_causal(capsys: pytest.CaptureFixture[str]) -> None:
    assert "is_causal=True" in shown(capsys, "causal", "--as", "sdpa")
    lower = shown(capsys, "causal", "-q", "2", "-k", "5", "--align", "lower-right", "--as", "sdpa")
    assert "is_causal" not in lower
    assert "q_pos = q_idx + 3" in lower


def test_several_targets_are_printed_one_after_the_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = shown(capsys, "causal", "--as", "hf,sdpa")
    ast.parse(code)
    assert code.index("is_causal") < code.index("attention_mask")


def test_a_file_is_recognised(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "strict.npy")
    assert "! this is causal, off by one: no query sees itself  known-mask" in text
    assert "1 row has every key filled with a finite number: query 0" in text
    told = fields(capsys, "strict.npy")
    assert told["expression"] is None
    assert told["file"]["matches"][0]["shift"] == -1
    assert told["file"]["fills"] == {"-1000000000": "−1e9"}


def test_the_list_of_masks(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--list")
    assert "window(W) or window(W, both)" in text
    assert "documents(a, b, …)" in text


def test_fills(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--fills")
    assert "measured with torch" in text
    assert "unmasked" in text
    assert fields(capsys, "--fills")["schema"] == "attn.fills/1"
    both = shown(capsys, "causal", "--fills")
    assert both.index("lets through") < both.index("measured with torch")


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "no EXPR was given"),
        (["causl"], "there is no mask 'causl'"),
        (["causal & "], "ends too early"),
        (["causal", "-q", "6", "-k", "8"], "--align lower-right"),
        (["causal", "-q", "0"], "-q is 0"),
        (["causal", "-q", "many"], "valid integer"),
        (["causal", "--align", "left"], "--align"),
        (["causal", "--as", "keras"], "there is no target 'keras'"),
        (["causal", "--as", "sdpa", "--fills"], "leave --fills out"),
        (["documents(3, 2)", "-k", "6"], "add up to 5, and there are 6 keys"),
        (["random(9)", "-k", "8"], "asks for 9 distinct keys"),
        (["padding"], "padding without lengths"),
        (["nowhere.npy"], "no such file"),
        (["strict.npy", "-q", "6"], "-q is 6, and the mask has shape (5, 5)"),
        (["strict.npy", "--align", "upper-left"], "--align is for expressions"),
        (['file("nowhere.npy")'], "no such file"),
    ],
)
def test_refusals(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert words in refused(capsys, *arguments)


def test_a_refusal_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", "causl", "--json"]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["schema"] == "attn.error/1"
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00", b"junk" * 9])
def test_damaged_files(here: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    Path("bad.npy").write_bytes(content)
    assert refused(capsys, "bad.npy").startswith("attn: bad.npy: ")


def piped(
    *arguments: str, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """A fresh process whose output goes into a pipe."""
    plain = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    return subprocess.run(
        [sys.executable, "-m", "attn_cli", "mask", *arguments],
        capture_output=True,
        input=stdin.encode(),
        env={**plain, "PYTHONPATH": str(ROOT), **environment},
        check=True,
    )


def test_a_pipe_and_an_ascii_locale() -> None:
    plain = piped(
        "causal & padding(3, 0)", LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii"
    )
    text = plain.stdout.decode("ascii")
    assert "\x1b" not in text
    assert "          1 # # . . . . . .      2" in text
    code = piped("causal & padding(3, 0)", "--as", "hf", PYTHONIOENCODING="ascii").stdout
    ast.parse(code.decode("ascii"))


def test_a_mask_through_standard_input() -> None:
    assert "this is causal" in piped("-", stdin="[[1, 0], [1, 1]]").stdout.decode()
