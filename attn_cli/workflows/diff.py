"""diff: two computations held against each other: engines on one input, or two dumps."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from attn_cli import formats
from attn_cli.core.engine import Progress
from attn_cli.core.results_diff import DiffResult
from attn_cli.errors import InputError
from attn_cli.workflows.diff_options import BETWEEN, DiffOptions, engine_sides


def diff(
    left: str,
    right: str | None,
    options: DiffOptions,
    *,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
) -> DiffResult:
    """`left` is LEFT-vs-RIGHT and `right` the engines' input; or both are dumps.

    What exists as a file or folder is one. Raises InputError where the two do not go together, and
    whatever reading and computing raise.
    """
    if is_pair(left, right):
        sides = engine_sides(left, options.dtype)
        check_no_dumps(options)
        from attn_cli.workflows.diff_engines import diff_engines

        return diff_engines(sides, right, options, stdin=stdin, progress=progress)
    if right is None:
        raise InputError(
            f"one dump was given, {left}: expected two, or LEFT-vs-RIGHT before an input",
            hint=f"attn diff numpy-vs-torch {left} computes it twice",
        )
    check_no_input(options)
    from attn_cli.workflows.diff_dumps import diff_dumps

    first, second = (formats.read(source, stdin=stdin) for source in (left, right))
    return diff_dumps(first, second, options, progress=progress)


def is_pair(left: str, right: str | None) -> bool:
    """Whether `left` is to be LEFT-vs-RIGHT: it is no file, and not one of two dumps."""
    if _is_source(left):
        return False
    return BETWEEN in left or right is None or not _is_source(right)


def _is_source(text: str) -> bool:
    """Whether an argument is a file, a folder or a pipe."""
    try:
        return text == "-" or Path(text).exists()
    except (OSError, ValueError):  # too long, or a zero byte
        return False


def check_no_dumps(options: DiffOptions) -> None:
    """InputError for what only dumps need."""
    for name, given in (("--map", options.map), ("--computed", options.computed)):
        if given:
            raise InputError(f"{name} is for two dumps, and two engines were given")
    if options.layout.get("left") != options.layout.get("right"):
        raise InputError(
            "--layout for one side is for two dumps, and two engines read one input",
            hint=f"--layout {next(iter(options.layout.values()))}",
        )


def check_no_input(options: DiffOptions) -> None:
    """InputError for what only the input of two engines, or an engine, needs."""
    unused = {
        "--shape": options.shape is not None,
        "--context": options.context is not None,
        "--weights": options.weights is not None,
        "--device": options.device != "cpu",
        "--dtype": options.dtype != "float64",
    }
    for name, given in unused.items():
        if given:
            hint = "--computed says what a dump was computed in" if name == "--dtype" else ""
            raise InputError(f"{name} is for two engines, and two dumps were given", hint=hint)
