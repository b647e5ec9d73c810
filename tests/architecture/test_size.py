"""Files and functions stay small enough to read whole."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for folder in ("attn_cli", "benchmarks", "sample_inputs", "tests")
    for path in (ROOT / folder).rglob("*.py")
)
LONGEST_FILE = 400
LONGEST_FUNCTION = 50


def long_functions(tree: ast.Module) -> list[str]:
    """The functions of more than LONGEST_FUNCTION lines, decorators not counted."""
    return [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_is_one_readable_thing(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= LONGEST_FILE
    tree = ast.parse(source)
    assert long_functions(tree) == []
    assert source == "" or ast.get_docstring(tree), "it does not say what it is"


def test_no_drawer_of_odds_and_ends() -> None:
    assert [path for path in FILES if path.stem in {"common", "helpers", "misc", "utils"}] == []


def test_a_long_function_is_found() -> None:
    source = "def f():\n" + "    x = 1\n" * LONGEST_FUNCTION
    assert long_functions(ast.parse(source)) == [f"f: {LONGEST_FUNCTION + 1} lines"]
