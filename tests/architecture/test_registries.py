"""A folder and its registry agree both ways: no file without a name, no name without a file."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from attn_cli.core.registry import Registry

PACKAGE = Path(__file__).parents[2] / "attn_cli"

# Files of a registry's folder that serve the entries and are none themselves.
SERVING: dict[str, set[str]] = {
    "engines": set(),
    "formats": {
        "content",
        "metadata",
        "names",
        "nested",
        "raw",
        "safetensors_dtypes",
        "safetensors_writer",
        "source",
        "text_file",
        "write",
    },
    "masks": {
        "base",
        "counting",
        "declaration",
        "expression",
        "formula",
        "parser",
        "picture",
        "tree",
    },
    "positions": {"declaration"},
    "stats": set(),
}


def registries(folder: str) -> list[Registry[object]]:
    package = importlib.import_module(f"attn_cli.{folder}")
    return [value for value in vars(package).values() if isinstance(value, Registry)]


def entries() -> list[tuple[str, str]]:
    return [
        (folder, target)
        for folder in SERVING
        for registry in registries(folder)
        for target in registry.entries.values()
    ]


@pytest.mark.parametrize("folder", SERVING)
def test_folder_has_one_registry(folder: str) -> None:
    assert len(registries(folder)) == 1


@pytest.mark.parametrize("folder", SERVING)
def test_every_file_is_registered_or_serves(folder: str) -> None:
    (registry,) = registries(folder)
    registered = {target.split(":")[0].split(".")[-1] for target in registry.entries.values()}
    files = {path.stem for path in (PACKAGE / folder).glob("*.py")} - {"__init__"}
    assert files == registered | SERVING[folder]
    assert not registered & SERVING[folder]


@pytest.mark.parametrize("folder, target", entries())
def test_every_entry_lies_in_its_folder_and_exists(folder: str, target: str) -> None:
    module, attribute = target.split(":")
    assert module.startswith(f"attn_cli.{folder}.")
    assert hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("folder", SERVING)
def test_every_name_resolves(folder: str) -> None:
    (registry,) = registries(folder)
    for name in registry:
        assert registry[name] is not None
