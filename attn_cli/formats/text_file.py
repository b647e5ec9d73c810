"""Text: the content of a UTF-8 file, or an error that says what it is instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

from attn_cli.errors import InputError

# A number takes more memory as a Python object than as text; binary formats have no such limit.
LONGEST = 1 << 30

_BINARY = {
    b"\x93NUMPY": "an .npy file",
    b"PK\x03\x04": "a zip archive (.npz or .pt)",
    b"PK\x05\x06": "an empty zip archive",
    b"\x1f\x8b": "gzip-compressed",
    b"\x80\x02": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x89HDF": "an HDF5 file",
    b"GGUF": "a GGUF file",
}


def read_bytes(stream: IO[bytes]) -> bytes:
    """All that a stream holds; InputError beyond 1 GiB, which a pipe can exceed without end."""
    content = stream.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise InputError("is longer than 1 GiB of text", hint="save it as .npy or .safetensors")
    return content


def read_text(path: Path) -> str:
    """The text of a file, decoded."""
    with path.open("rb") as file:
        return decode(read_bytes(file))


def decode(content: bytes) -> str:
    """UTF-8 text with or without a byte order mark.

    InputError names the encoding that was found, or the first byte that is not UTF-8.
    """
    _refuse_binary(content)
    encoding = json.detect_encoding(content)  # by byte order mark, or by where the zero bytes lie
    if not encoding.startswith("utf-8"):
        raise InputError(
            f"is {encoding.upper()} text where UTF-8 is expected", hint="save it again as UTF-8"
        )
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"is not UTF-8 text: line {line} holds the byte 0x{content[error.start]:02x}",
            hint="save it again as UTF-8",
        ) from error


def _refuse_binary(content: bytes) -> None:
    kind = next((kind for magic, kind in _BINARY.items() if content.startswith(magic)), None)
    if content[8:9] == b"{" and b"\0\0" in content[:8]:
        kind = "a .safetensors file"
    if kind is not None:
        raise InputError(f"is not text but {kind}", hint="give the file its own suffix")
