"""A folder and its registry agree both ways: no file without a name, no name without a file."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from attn_cli.core.registry import Registry

PACKAGE = Path(__file__).parents[2] / "attn_cli"
FOLDERS = ("diagnosis/mistakes", "engines", "formats", "masks", "paste", "positions", "stats")


def registries(folder: str) -> list[Registry[object]]:
    package = importlib.import_module(dotted(folder))
    return [value for value in vars(package).values() if isinstance(value, Registry)]


def dotted(folder: str) -> str:
    return f"attn_cli.{folder.replace('/', '.')}"


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
def test_every_entry_that_a_file_defines_is_registered(folder: str) -> None:
    """Also where one file defines several: no attribute is left out, none is named twice."""
    attributes = {attribute for _, attribute in targets(folder)}
    defined = {
        (f"{dotted(folder)}.{path.stem}", name)
        for path in (PACKAGE / folder).glob("*.py")
        if path.stem != "__init__"
        for name in attributes.intersection(top_level_names(path.read_text(encoding="utf-8")))
    }
    assert defined == set(targets(folder))


@pytest.mark.parametrize("folder", ["engines", "diagnosis/mistakes"])
def test_no_sibling_of_an_engine_or_a_mistake_is_left_out(folder: str) -> None:
    for module, attribute in targets(folder):
        names = vars(importlib.import_module(module))
        alike = {name for name, value in names.items() if type(value) is type(names[attribute])}
        assert {(module, name) for name in alike} <= set(targets(folder))


def test_every_file_of_mistakes_is_in_the_registry() -> None:
    files = {path.stem for path in (PACKAGE / "diagnosis" / "mistakes").glob("*.py")}
    named = {module.rpartition(".")[2] for module, _ in targets("diagnosis/mistakes")}
    assert files - named == {"__init__", "base"}
    assert named <= files


def test_an_engine_has_the_name_it_is_registered_under() -> None:
    (registry,) = registries("engines")
    for name in registry:
        assert getattr(registry[name], "name", None) == name


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_name_resolves(folder: str) -> None:
    (registry,) = registries(folder)
    assert list(registry)
    for name in registry:
        assert registry[name] is not None


def test_top_level_names_are_a_modules_own() -> None:
    source = "import a\nfrom b import MASK\nx = 1\ny: int = 2\n\ndef f():\n    z = 3\n"
    assert list(top_level_names(source)) == ["x", "y", "f"]
