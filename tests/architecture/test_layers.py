"""The order of the layers: what may import what."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "attn_cli"
MODULES = sorted(PACKAGE.rglob("*.py"))
# What runs beside somebody's PyTorch code, in the process of that code.
HOST = ("diagnosis", "host")
REAL_MODELS = ("models", "hf")  # workflows import it when a model is asked for
# A kernel on tensors: whoever imports it imports torch.
KERNEL = "tiled"


def imported_names(tree: ast.AST) -> Iterator[str]:
    """The dotted names that a module imports, wherever the statement stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@cache
def imports_of(path: Path) -> frozenset[str]:
    """The dotted names that a file imports."""
    return frozenset(imported_names(ast.parse(path.read_text(encoding="utf-8"))))


def top_level(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports_of(path)}


def test_import_contracts_hold() -> None:
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", lint, "--no-cache"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr


def may_use_torch(path: Path) -> bool:
    parts = path.relative_to(PACKAGE).parts
    lazy = len(parts) == 1 or parts[0] in {"checks", "engines", "formats"}
    return (
        (lazy and path.name.startswith("torch_"))
        or parts[:2] in (HOST, REAL_MODELS)
        or parts[0] == KERNEL
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_torch_is_imported_only_where_it_computes(path: Path) -> None:
    assert may_use_torch(path) or "torch" not in top_level(path)


def test_the_kernel_is_imported_only_where_torch_is() -> None:
    for path in MODULES:
        if any(name.startswith(f"attn_cli.{KERNEL}") for name in imports_of(path)):
            assert may_use_torch(path), path


def test_the_host_imports_torch_only_where_it_is_used() -> None:
    """The process starts without it: code of NumPy needs none."""
    for path in (PACKAGE / "diagnosis" / "host").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert "torch" not in {name for node in tree.body for name in at_once(node)}, path.name


def at_once(node: ast.stmt) -> Iterator[str]:
    """What a statement imports when its module is imported: not what its functions import."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from (name.split(".")[0] for name in imported_names(node))


def test_click_is_never_imported() -> None:
    assert [path for path in MODULES if "click" in top_level(path)] == []


def test_imported_names_finds_an_import_inside_a_function() -> None:
    tree = ast.parse("def f():\n    from torch.nn import functional\n    import rich.table as t\n")
    assert list(imported_names(tree)) == ["torch.nn", "rich.table"]
