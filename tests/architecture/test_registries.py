"""A folder and its registry agree both ways: no file without a name, no name without a file."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from attn_cli.core.registry import Registry

PACKAGE = Path(__file__).parents[2] / "attn_cli"
FOLDERS = ("engines", "formats", "masks", "paste", "positions", "stats")


def registries(folder: str) -> list[Registry[object]]:
    package = importlib.import_module(f"attn_cli.{folder}")
    return [value for value in vars(package).values() if isinstance(value, Registry)]


def targets(folder: str) -> list[tuple[str, str]]:
    """The (module, attribute) of every entry."""
    (registry,) = registries(folder)
    pairs = [target.split(":") for target in registry.entries.values()]
    return [(module, attribute) for module, attribute in pairs]


def top_level_names(source: str) -> Iterator[str]:
    """What a module defines itself: its functions, classes and assigned names."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


@pytest.mark.parametrize("folder", FOLDERS)
def test_folder_has_one_registry(folder: str) -> None:
    assert len(registries(folder)) == 1


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_that_defines_an_entry_is_registered(folder: str) -> None:
    attributes = {attribute for _, attribute in targets(folder)}
    defining = {
        f"attn_cli.{folder}.{path.stem}"
        for path in (PACKAGE / folder).glob("*.py")
        if path.stem != "__init__"
        and attributes.intersection(top_level_names(path.read_text(encoding="utf-8")))
    }
    assert defining == {module for module, _ in targets(folder)}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_name_resolves(folder: str) -> None:
    (registry,) = registries(folder)
    assert list(registry)
    for name in registry:
        assert registry[name] is not None


def test_top_level_names_are_a_modules_own() -> None:
    source = "import a\nfrom b import MASK\nx = 1\ny: int = 2\n\ndef f():\n    z = 3\n"
    assert list(top_level_names(source)) == ["x", "y", "f"]
