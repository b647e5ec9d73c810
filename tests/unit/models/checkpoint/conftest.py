"""Checkpoints of every family, built once, and copies of them to be damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.models.checkpoint.building import Builder

Copy = Callable[[str], Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """The model of a configuration, and its folder, which nobody writes to."""
    return Builder(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture
def copy(build: Builder, tmp_path: Path) -> Copy:
    """A folder of one's own with the checkpoint of a configuration."""

    def copied(name: str) -> Path:
        return Path(shutil.copytree(build(name).folder, tmp_path / "checkpoint"))

    return copied
