""".ci/run does what the README says, in its order, and nothing that the README does not say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.docs.refresh_examples import README, ROOT, blocks

TEXT = README.read_text(encoding="utf-8")
CI = ROOT / ".ci" / "run"


def commands_of_ci() -> list[str]:
    lines = CI.read_text(encoding="utf-8").splitlines()
    return [shlex.split(line)[1] for line in lines if line.startswith("run ")]


def development_lines() -> list[str]:
    section = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    (development,) = [part for part in section if part.startswith("Development")]
    return [line for block in blocks(development, "sh") for line in block.lines]


def test_ci_runs_the_two_lines_and_then_the_development_section() -> None:
    first, second = (e.command for block in blocks(TEXT, "console")[:2] for e in block.examples)
    assert commands_of_ci() == [first, second, *development_lines()]


def test_development_section_names_every_check() -> None:
    lines = " ".join(development_lines())
    for check in ("ruff check", "ruff format --check", "mypy", "lint-imports"):
        assert check in lines


def test_the_tests_of_real_weights_are_named_file_by_file() -> None:
    (line,) = (line for line in development_lines() if "-m pytest" in line)
    named = {word for word in shlex.split(line) if word.endswith(".py")}
    there = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    skipping = [path for path in there if "--no-deps" in path.read_text(encoding="utf-8")]
    assert named == {path.relative_to(ROOT).as_posix() for path in skipping}


def test_ci_stops_at_the_first_failure() -> None:
    assert "set -euo pipefail" in CI.read_text(encoding="utf-8")
    assert CI.stat().st_mode & 0o111
