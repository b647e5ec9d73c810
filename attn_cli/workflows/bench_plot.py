"""The file of `attn bench --plot`: whether it can be drawn and written, and writing it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from attn_cli.errors import UnsupportedError
from attn_cli.formats.write import check_target, whole

SUFFIXES = (".png", ".svg")


def check_plot(path: str, *, force: bool) -> None:
    """Raises, before anything is measured, where `path` cannot be drawn or written."""
    check_target(Path(path), force=force, suffixes=SUFFIXES)
    if find_spec("matplotlib") is None:
        raise UnsupportedError("--plot needs matplotlib", hint='pip install "attn-cli[plot]"')


def save_plot(path: str, content: bytes) -> None:
    """The drawn file, in full or not at all."""
    with whole(Path(path)) as file:
        file.write(content)
