"""Start-up is a feature: what a fresh process must not load."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = str(ROOT / "sample_inputs" / "apple.json")
MODEL = str(ROOT / "sample_inputs" / "induction.safetensors")

PROBE = """
import json, sys
from attn_cli.commands.main import main
answers = []
for arguments in json.loads(sys.argv[1]):
    code = main(arguments)
    answers.append([code, sorted({name.split(".")[0] for name in sys.modules})])
print(json.dumps(answers), file=sys.stderr)
"""
WITHOUT_TORCH = (
    ("--help",),
    ("--version",),
    ("run", "--help"),
    ("run", "--list", "masks"),
    ("run", "--list", "engines"),
    ("run", SAMPLE),
    ("run", SAMPLE, "--json"),
    ("mask", "--list"),
    ("mask", "causal & random(2)"),
    ("mask", "padding(3, 5)", "--as", "sdpa,mha,flex,hf"),
    ("run", MODEL, "--text", "a b a"),
    ("diff", "numpy-vs-numpy@float32", SAMPLE),
    ("explain", SAMPLE, "--query", "2"),
    ("check", "shapes", "--d-model", "64", "--heads", "4", "--mask", "causal"),
    ("check", "shapes", SAMPLE, "--json"),
    ("check", "shapes", MODEL),
    ("explain", MODEL, "--text", "a b a", "--query", "2", "--json"),
    ("check", "impl", "--help"),
    ("bench", "--list"),
    ("check", "edges", "--list"),
    ("model", "--help"),
    ("model", "--list"),
    ("check", "edges", "--engine", "numpy", "--kind", "sinks"),
)
WITHOUT_NUMPY = (
    ("--help",),
    ("run", "--help"),
    ("explain", "--help"),
    ("mask", "--help"),
    ("bench", "--help"),
    ("check", "shapes", "--help"),
    ("model", "--help"),
)


@cache
def probe(*commands: tuple[str, ...]) -> dict[tuple[str, ...], tuple[int, set[str]]]:
    """The exit code of each command, one after the other in one fresh process, and the top-level
    packages that it and those before it loaded: what none has loaded, no first one loads either.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(commands)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        check=True,
    )
    answers = json.loads(done.stderr.splitlines()[-1])
    pairs = zip(commands, answers, strict=True)
    return {command: (code, set(loaded)) for command, (code, loaded) in pairs}


@pytest.mark.parametrize("command", WITHOUT_TORCH, ids=" ".join)
def test_torch_is_not_loaded(command: tuple[str, ...]) -> None:
    code, loaded = probe(*WITHOUT_TORCH)[command]
    assert code == 0
    assert "torch" not in loaded


@pytest.mark.parametrize("command", WITHOUT_NUMPY, ids=" ".join)
def test_help_loads_no_numpy(command: tuple[str, ...]) -> None:
    code, loaded = probe(*WITHOUT_NUMPY)[command]
    assert code == 0
    assert "numpy" not in loaded


def test_library_is_lazy() -> None:
    code = "import attn_cli, sys; print(*{'numpy', 'rich', 'torch', 'typer'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.split() == []


def test_probe_sees_what_is_loaded() -> None:
    command = ("run", SAMPLE, "--engine", "torch")
    _, loaded = probe(command)[command]
    assert {"numpy", "torch"} <= loaded
