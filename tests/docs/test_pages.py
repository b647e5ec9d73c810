"""The pages tell the truth: their commands run, and print what stands below them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from attn_cli.commands.main import main
from tests.docs.refresh_examples import (
    PAGES,
    README,
    Block,
    Example,
    blocks,
    lines_of,
    link_samples,
    run_block,
)

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
    if any(line.startswith("def test_") for line in block.lines)  # others have tests of their own
]
SMALL = r"\d(\.\d+)?e-(0[5-9]|[1-9]\d)"
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def all_alike(printed: Sequence[str], written: Sequence[str], *, rounding: bool = False) -> bool:
    """Whether lines are the same, but for the digits of what rounding alone decides.

    A number below 1e-4 in scientific notation is a rounding error or a budget, and processors sum
    in different orders: it may be up to twice or half what is written. Where a block says that
    `rounding` decides its figures, they may be any.
    """
    pairs = list(zip(printed, written, strict=False))
    return len(printed) == len(written) and all(
        one == other or _alike(one, other, rounding) for one, other in pairs
    )


def _alike(one: str, other: str, rounding: bool) -> bool:
    words = one.split(), other.split()
    if len(words[0]) != len(words[1]):
        return False
    return all(
        a == b or _rounding(a, b) or (rounding and _without_figures(a) == _without_figures(b))
        for a, b in zip(*words, strict=True)
    )


def _without_figures(word: str) -> str:
    return re.sub(r"\d+(\.\d+)?(e[-+]\d+)?", "#", word)


def _rounding(a: str, b: str) -> bool:
    if not (re.fullmatch(SMALL, a) and re.fullmatch(SMALL, b)):
        return False
    return 0.5 <= float(a) / float(b) <= 2


def first_command(block: Block) -> str:
    return block.examples[0].line_to_run


def printed_here(arguments: list[str]) -> tuple[str, ...]:
    """What attn prints, stdout and stderr together, into a pipe and with nothing to read."""
    both = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with (
        contextlib.redirect_stdout(both),
        contextlib.redirect_stderr(both),
        pytest.MonkeyPatch.context() as patched,
        Path(os.devnull).open(encoding="utf-8") as nothing,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")  # a process of its own would go on, too
        patched.setattr("sys.stdin", nothing)
        main(arguments)
    return lines_of(both.buffer.getvalue().decode("utf-8"))


@pytest.mark.parametrize("block", ATTN_BLOCKS, ids=first_command)
def test_example_prints_what_stands_there(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a shell where a line needs one; else in this process, which has imported everything."""
    if block.missing:
        pytest.skip(f"needs pip install --no-deps {block.missing.replace('_', '-')}")
    calls = [example.arguments for example in block.examples]
    plain = [arguments for arguments in calls if arguments is not None]
    if len(plain) == len(calls):
        monkeypatch.chdir(tmp_path)
        link_samples(tmp_path)
        printed = [printed_here(arguments) for arguments in plain]
    else:
        printed = run_block(block, tmp_path)
    for out, example in zip(printed, block.examples, strict=True):
        if not all_alike(out, example.output, rounding=block.rounding):
            assert list(out) == list(example.output)


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


def test_what_only_a_shell_can_do_is_told_apart() -> None:
    """A line for attn alone is called in this process: nothing of it may be left to a shell."""
    for line, arguments in (
        (
            "attn run a.json --mask 'causal & sink(1)'",
            ["run", "a.json", "--mask", "causal & sink(1)"],
        ),
        ('attn run a.json --text "a b"', ["run", "a.json", "--text", "a b"]),
        (".venv/bin/attn --version", ["--version"]),
    ):
        assert Example(line, ()).arguments == arguments
    for line in (
        "attn run a.json | head",
        "attn run a.json > b",
        'attn run "$file"',
        "attn run *.json",
        "attn run a.json; echo $?",
        "attn run $(ls)",
        "attn run ~/a.json",
        "NO_COLOR=1 attn run a.json",
        "python -m attn_cli",
        "attn run it's.json",
    ):
        assert Example(line, ()).arguments is None, line


def test_only_the_digits_of_rounding_may_differ() -> None:
    assert all_alike(["q  1.1e-06  0.5"], ["q 1.14e-06 0.5"])
    for printed in (
        "q 3.1e-06 0.5",
        "q 1.1e-06 0.6",
        "q 1.1e-06",
        "k 1.1e-06 0.5",
        "q 1.1e-03 0.5",
    ):
        assert not all_alike([printed], ["q 1.14e-06 0.5"])
    assert not all_alike([], ["q"])
    assert all_alike(["q 3.1 9th"], ["q 0.2 1th"], rounding=True)
    assert not all_alike(["q 3.1 up"], ["q 3.1 down"], rounding=True)
