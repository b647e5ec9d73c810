"""A plan in a file: read for --plan, written for --save-plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_cli.diagnosis.plan_json import LARGEST, Said, read_plan
from attn_cli.errors import InputError
from attn_cli.formats.names import printable
from attn_cli.formats.text_file import decode
from attn_cli.formats.write import check_target, whole

SUFFIXES = (".json",)


def read_plan_file(path: str) -> Said:
    """What a file of attn.plan/1 says; InputError names the file and what is wrong with it."""
    name = printable(path)
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{name}: cannot be read: {reason}") from error
    try:
        return read_plan(decode(content))
    except InputError as error:
        raise InputError(f"{name}: {error.message}", hint=error.hint) from error


def check_plan_target(path: str, *, force: bool) -> None:
    """InputError, before anything is computed, where a plan could not be written there."""
    check_target(Path(path), force=force, suffixes=SUFFIXES)


def write_plan_file(path: str, plan: Mapping[str, Any], *, force: bool) -> None:
    """The plan as indented JSON, whole or not at all."""
    check_plan_target(path, force=force)
    text = json.dumps(plan, indent=2, ensure_ascii=False) + "\n"
    with whole(Path(path)) as file:
        file.write(text.encode())
