"""check shapes: do these sizes, this file, this checkpoint fit together, and what do they cost?"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from attn_cli.core.results_shapes import ShapesResult
from attn_cli.workflows.check.shapes_options import ShapesOptions


def check_shapes(
    source: str | None, options: ShapesOptions, *, stdin: BinaryIO | None = None
) -> ShapesResult:
    """The shapes of a layer of these sizes, of a file or of a checkpoint's folder.

    What does not fit is among the result's problems. InputError for what cannot be read, and for
    an option that says nothing of what is looked at. No number of a tensor is read.
    """
    if source is None:
        from attn_cli.workflows.check.shapes_numbers import of_numbers

        return of_numbers(options)
    if _is_folder(source):
        from attn_cli.workflows.check.shapes_checkpoint import of_checkpoint

        return of_checkpoint(source, options)
    from attn_cli.workflows.check.shapes_file import of_file

    return of_file(source, options, stdin=stdin)


def _is_folder(source: str) -> bool:
    try:
        return Path(source).is_dir()
    except (OSError, ValueError):  # a zero byte; the reader says so
        return False
