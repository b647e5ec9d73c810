"""config.json → an object of plain values: hostile until it is read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from attn_cli.errors import InputError
from attn_cli.formats.json_file import unique
from attn_cli.formats.names import printable
from attn_cli.formats.source import naming
from attn_cli.formats.text_file import decode

LONGEST_CONFIG = 16 << 20  # bytes; an index of 100,000 tensors takes about 10 MiB
LONGEST_INDEX = 256 << 20


def read_object(path: Path, *, longest: int = LONGEST_CONFIG) -> dict[str, Any]:
    """The JSON object of a file; InputError names the file and says what it is instead."""
    with naming(str(path)):
        _check_file(path, longest)
        with path.open("rb") as file:
            content = file.read(longest + 1)
        if len(content) > longest:
            raise InputError(f"is longer than {longest:,} bytes")
        return _object(decode(content))


def _check_file(path: Path, longest: int) -> None:
    """InputError unless this is a regular file of a size that can be read."""
    if not path.is_file():  # follows links; False for a pipe, a device and a dangling link
        raise InputError("is not a regular file")
    size = os.stat(path).st_size
    if size > longest:
        raise InputError(f"takes {size:,} bytes; at most {longest:,} are read")
    if not size:
        raise InputError("the file is empty")


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise InputError(
            f"is not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except (ValueError, RecursionError) as error:  # an endless integer, endless nesting
        raise InputError("is not valid JSON: nested too deeply, or a number too long") from error
    if not isinstance(value, dict):
        raise InputError("is JSON but no object", hint='expected {"model_type": …}')
    return value


def known_name(value: Any) -> str:
    """A string out of a configuration, fit to print; empty for anything else."""
    return printable(value[:80]) if isinstance(value, str) else ""
