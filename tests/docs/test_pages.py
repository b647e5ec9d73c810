"""The pages tell the truth: their commands run, and print what stands below them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.refresh_examples import PAGES, README, Block, Example, blocks, run_block

TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
ATTN_BLOCKS = [
    block
    for text in TEXTS.values()
    for block in blocks(text, "console")
    if not any(example.is_test_run for example in block.examples)
]
PYTHON = [
    pytest.param(block, id=f"{page.name} line {block.start + 1}")
    for page, text in TEXTS.items()
    for block in blocks(text, "python")
]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def first_command(block: Block) -> str:
    return block.examples[0].line_to_run


@pytest.mark.parametrize("block", ATTN_BLOCKS, ids=first_command)
def test_example_prints_what_stands_there(block: Block, tmp_path: Path) -> None:
    printed = run_block(block, tmp_path)
    assert [list(out) for out in printed] == [list(example.output) for example in block.examples]


def test_first_screen_is_two_lines_and_their_output() -> None:
    first = blocks(TEXTS[README], "console")[:2]
    run, test = (example for block in first for example in block.examples)
    assert run.command.startswith("python3 -m venv .venv && ")
    assert run.line_to_run == "attn run sample_inputs/apple.json"
    assert test.is_test_run
    assert re.fullmatch(r"\d+ passed(, \d+ \w+)* in \d+\.\d+s.*", test.output[-1])


@pytest.mark.parametrize("block", PYTHON)
def test_python_example_passes(block: Block) -> None:
    namespace: dict[str, Any] = {}
    exec("\n".join(block.lines), namespace)
    tests = [value for name, value in namespace.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test()


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", TEXTS[page])
    assert targets
    assert [target for target in targets if not (page.parent / target).exists()] == []


@each_page
def test_prose_fits_a_screen(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", TEXTS[page], flags=re.DOTALL | re.MULTILINE)
    assert [line for line in prose.splitlines() if len(line) > 110] == []


def test_a_block_is_read_as_commands_and_their_output() -> None:
    (block,) = blocks(
        "text\n```console\n$ attn --version\nattn 1\n$ attn x && attn y\n```\n", "console"
    )
    assert block.start == 2
    assert block.examples == (
        Example("attn --version", ("attn 1",)),
        Example("attn x && attn y", ()),
    )
    assert block.examples[1].line_to_run == "attn y"
