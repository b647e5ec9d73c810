"""The catalogue: registry and files agree, every entry is whole, and each commits something."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from attn_cli.diagnosis import mistakes
from attn_cli.diagnosis.mistakes import MISTAKES
from attn_cli.diagnosis.mistakes.base import Mistake
from tests.unit.diagnosis.test_formula import PLANS, setting

FOLDER = Path(mistakes.__file__).parent
STAGES = {
    "projection", "split", "position", "scores", "scale", "mask", "softmax", "dropout", "mix",
    "merge", "out_proj", "interface", "state",
}  # fmt: skip


def test_registry_and_files_agree() -> None:
    held = {}
    for file in FOLDER.glob("*.py"):
        if file.stem not in ("__init__", "base"):
            module = import_module(f"attn_cli.diagnosis.mistakes.{file.stem}")
            for name, value in vars(module).items():
                if isinstance(value, Mistake):
                    held[value.code] = f"{module.__name__}:{name}"
    assert held == dict(MISTAKES.entries)


@pytest.mark.parametrize("code", list(MISTAKES))
def test_every_entry_is_whole(code: str) -> None:
    mistake = MISTAKES[code]
    assert mistake.code == code
    assert mistake.stage in STAGES
    for text in (mistake.title, mistake.explanation, mistake.fix, mistake.tell_apart):
        assert len(text) > 10
    assert not mistake.title.endswith(".")
    assert mistake.explanation.endswith((".", ".)"))
    re.compile(mistake.marks)


def test_every_formula_applies_to_some_plan() -> None:
    settings = [setting(*plan) for plan in PLANS.values()]
    idle = {
        code
        for code in MISTAKES
        if (variants := MISTAKES[code].variants) is not None
        and not any(list(variants(held)) for held in settings)
    }
    assert idle <= {"returns_scores_as_weights", "integer_truncation"}
