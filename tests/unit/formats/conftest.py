"""Files made byte by byte, and what is said of those that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from attn_cli.errors import AttnError
from attn_cli.formats import read

Put = Callable[[str, bytes], str]
Refuse = Callable[[str, bytes], AttnError]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Writes a file of this name and content; its path."""

    def write(name: str, content: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write


@pytest.fixture
def refuse(put: Put) -> Refuse:
    """The error for a file of this name and content, its path taken off the message.

    Asserts what holds of every message: one printable line that names the file once.
    """

    def error(name: str, content: bytes) -> AttnError:
        path = put(name, content)
        with pytest.raises(AttnError) as caught:
            read(path)
        said = caught.value
        assert str(said).isprintable()
        assert str(said).count(path) == 1
        assert said.message.startswith(f"{path}: ")
        return type(said)(said.message.removeprefix(f"{path}: "), said.hint)

    return error
