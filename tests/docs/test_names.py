"""Every name that a user can type is explained somewhere in the documentation."""

from __future__ import annotations

import importlib
import re

import pytest

from attn_cli.commands.check import CHECKS
from attn_cli.commands.main import COMMANDS
from attn_cli.core.registry import Registry
from tests.docs.refresh_examples import PAGES

CODE = " ".join(
    code
    for page in PAGES
    for code in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8").replace("```", ""))
)


def registered() -> list[str]:
    found = []
    for folder in ("diagnosis.mistakes", "engines", "formats", "masks", "positions", "stats"):
        package = importlib.import_module(f"attn_cli.{folder}")
        for value in vars(package).values():
            if isinstance(value, Registry):
                found += [f"{value.kind} {name}" for name in value]
    return found


def is_documented(name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", CODE) is not None


@pytest.mark.parametrize("entry", registered())
def test_registered_name_is_documented(entry: str) -> None:
    assert is_documented(entry.rsplit(" ", 1)[1])


@pytest.mark.parametrize("name", [*COMMANDS, *(f"check {name}" for name in CHECKS)])
def test_command_is_documented(name: str) -> None:
    assert is_documented(f"attn {name}")


def test_an_unknown_name_is_not_documented() -> None:
    assert not is_documented("no-such-name")
