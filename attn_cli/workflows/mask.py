"""mask: what a mask lets through: an expression, or somebody's mask in a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from attn_cli.core.results_fills import FillsResult
from attn_cli.core.results_mask import MaskResult
from attn_cli.errors import InputError
from attn_cli.formats import READERS
from attn_cli.formats.source import is_pipe
from attn_cli.workflows.mask_expression import mask_of_expression
from attn_cli.workflows.mask_file import mask_of_file
from attn_cli.workflows.mask_items import Progress
from attn_cli.workflows.mask_options import MaskOptions


def mask(
    text: str,
    options: MaskOptions,
    *,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
) -> MaskResult:
    """Everything there is to say of one mask; InputError where it cannot be read or built."""
    for count, option in ((options.queries, "-q"), (options.keys, "-k")):
        if count is not None and count < 1:
            raise InputError(f"{option} is {count}: a mask has at least 1 query and 1 key")
    if names_file(text):
        result = mask_of_file(text, options, stdin)
    else:
        result = mask_of_expression(text, options, progress)
    return replace(result, fills=fills()) if options.fills else result


def fills() -> FillsResult:
    """What PyTorch makes of fill values and of empty rows, measured now."""
    from attn_cli.engines.torch_fills import measure_fills

    return measure_fills()


def names_file(text: str) -> bool:
    """Whether the text is the path of a file rather than an expression."""
    if is_pipe(text):
        return True
    suffix = Path(text).suffix.lower()
    if not suffix:
        return False
    return _exists(text) or (suffix in READERS and not any(sign in text for sign in "(&|~'\""))


def _exists(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False
