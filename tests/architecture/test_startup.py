"""Start-up is a feature: what a fresh process must not load."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = str(ROOT / "sample_inputs" / "apple.json")
MODEL = str(ROOT / "sample_inputs" / "induction.safetensors")

PROBE = """
import json, sys
from attn_cli.commands.main import main
code = main(json.loads(sys.argv[1]))
loaded = sorted({name.split(".")[0] for name in sys.modules})
print(json.dumps({"code": code, "loaded": loaded}), file=sys.stderr)
"""


def probe(*arguments: str) -> tuple[int, set[str]]:
    """The exit code of `attn` in a fresh process, and the top-level packages it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        check=True,
    )
    answer = json.loads(done.stderr.splitlines()[-1])
    return answer["code"], set(answer["loaded"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["run", "--list", "masks"],
        ["run", "--list", "engines"],
        ["run", SAMPLE],
        ["run", SAMPLE, "--json"],
        ["mask", "--list"],
        ["mask", "causal & random(2)"],
        ["mask", "padding(3, 5)", "--as", "sdpa,mha,flex,hf"],
        ["run", MODEL, "--text", "a b a"],
        ["diff", "numpy-vs-numpy@float32", SAMPLE],
        ["explain", SAMPLE, "--query", "2"],
        ["check", "shapes", "--d-model", "64", "--heads", "4", "--mask", "causal"],
        ["check", "shapes", SAMPLE, "--json"],
        ["check", "shapes", MODEL],
        ["explain", MODEL, "--text", "a b a", "--query", "2", "--json"],
        ["check", "impl", "--help"],
        ["bench", "--list"],
        ["check", "edges", "--list"],
        ["model", "--help"],
        ["model", "--list"],
        ["check", "edges", "--engine", "numpy", "--kind", "sinks"],
    ],
    ids=" ".join,
)
def test_torch_is_not_loaded(arguments: list[str]) -> None:
    code, loaded = probe(*arguments)
    assert code == 0
    assert "torch" not in loaded


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["run", "--help"],
        ["explain", "--help"],
        ["mask", "--help"],
        ["bench", "--help"],
        ["check", "shapes", "--help"],
        ["model", "--help"],
    ],
    ids=" ".join,
)
def test_help_loads_no_numpy(arguments: list[str]) -> None:
    code, loaded = probe(*arguments)
    assert code == 0
    assert "numpy" not in loaded


def test_library_is_lazy() -> None:
    code = "import attn_cli, sys; print(*{'numpy', 'rich', 'torch', 'typer'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.split() == []


def test_probe_sees_what_is_loaded() -> None:
    _, loaded = probe("run", SAMPLE, "--engine", "torch")
    assert {"numpy", "torch"} <= loaded
