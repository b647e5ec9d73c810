"""DESIGN.md speaks of what exists."""

from __future__ import annotations

import re

from tests.docs.refresh_examples import ROOT, blocks

TEXT = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
PLANNED = TEXT.index("## 15. Planned places")


def test_the_house_is_as_it_is_drawn() -> None:
    drawn = next(block for block in blocks(TEXT, "text") if block.lines[0] == "attn_cli/")
    names = [line.split()[0] for line in drawn.lines[1:]]
    assert [name for name in names if not (ROOT / "attn_cli" / name).exists()] == []


def test_files_that_are_named_exist() -> None:
    named = re.findall(r"`((?:core|tests|benchmarks)/[\w./]+)`", TEXT)
    assert len(named) > 5
    assert [n for n in named if not ((ROOT / n).exists() or (ROOT / "attn_cli" / n).exists())] == []


def test_folders_that_are_planned_do_not_exist_yet() -> None:
    planned = re.findall(r"`(\w+)/`", TEXT[PLANNED:])
    assert "lab" in planned
    assert [n for n in planned if (ROOT / "attn_cli" / n).exists()] == []


def test_links_lead_to_a_heading() -> None:
    headings = re.findall(r"^## (.+)$", TEXT, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) <= anchors
