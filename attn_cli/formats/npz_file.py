"""NPZ ↔ named arrays: a zip archive of .npy members, each checked before it is unpacked."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from attn_cli.core.findings import Finding, note
from attn_cli.errors import InputError
from attn_cli.formats.content import Content
from attn_cli.formats.metadata import RESERVED, unpack
from attn_cli.formats.names import listed, quoted
from attn_cli.formats.nested import describe
from attn_cli.formats.npy_file import plain, read_array, read_header
from attn_cli.formats.raw import check_fits

# Deflate cannot shrink bytes more than this, so a member that claims more is lying. Other methods
# can, without end, so beyond a size that harms nobody they are not trusted with more either.
DEFLATE_RATIO = 1032
HARMLESS = 1 << 26  # bytes

LOCAL_HEADER, DIRECTORY_END = 30, 22  # bytes that a member and the archive have at least beside

_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
    OverflowError,
)


def read(path: Path) -> Content:
    """The arrays of an .npz file by name, its texts and settings.

    Arrays of strings become texts; the 0-d strings "settings" and "axes" hold JSON. Members that
    are no .npy are named in a note. InputError names the member that is damaged, encrypted, twice
    in the archive, lies in another one, or claims more than it can hold or memory can take.
    """
    return _content(path, _read_member, numbers_read=True)


def headers(path: Path) -> Content:
    """What `read` gives, with blank arrays; texts are read, and no checksum of numbers."""
    return _content(path, _read_header, numbers_read=False)


Take = Callable[[zipfile.ZipFile, zipfile.ZipInfo], NDArray[Any]]


def _content(path: Path, take: Take, *, numbers_read: bool) -> Content:
    """The archive's content, each member taken by `take`."""
    size = path.stat().st_size
    with path.open("rb") as file, _archive(file) as archive:
        members, others = _members(archive, size)
        if numbers_read:
            check_fits(sum(member.file_size for member in members.values()))
        _check_layout(file, archive, size)
        held = {name: take(archive, member) for name, member in members.items()}
    words = {name: array for name, array in held.items() if array.dtype.kind == "U"}
    numbers = {name: plain(array) for name, array in held.items() if name not in words}
    strings = {name: str(array.item()) for name, array in words.items() if array.ndim == 0}
    said = unpack(strings)
    lists = {name: array.tolist() for name, array in words.items() if array.ndim}
    return Content(
        "npz",
        {name: array for name, (array, _) in numbers.items()},
        {name: dtype for name, (_, dtype) in numbers.items()},
        texts={**said.texts, **lists},
        settings=said.settings,
        axes=said.axes,
        findings=(*said.findings, *_notes(held, numbers, others)),
        others={n: describe(s) for n, s in strings.items() if n not in {*RESERVED, *said.texts}},
    )


def write(
    file: IO[bytes],
    arrays: Mapping[str, NDArray[Any]],
    dtypes: Mapping[str, str],
    metadata: Mapping[str, str],
) -> None:
    """An .npz archive, the same bytes for the same arrays; `metadata` as 0-d strings.

    NPZ has no bfloat16: such arrays are stored as the float32 that they lie in.
    """
    members = {**arrays, **{name: np.array(text) for name, text in metadata.items()}}
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in members.items():
            # ZipInfo alone has a fixed date; savez cannot store an array called "file".
            member = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(member, "w", force_zip64=True) as stream:
                npy.write_array(stream, array, allow_pickle=False)


def _archive(file: IO[bytes]) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except _BROKEN as error:
        file.seek(0)
        if file.read(4) == b"PK\x03\x04":
            raise InputError(
                "is a zip archive whose directory is missing or damaged",
                hint="is the file cut off?",
            ) from error
        raise InputError("is not a zip archive, as an .npz file is") from error


def _members(archive: zipfile.ZipFile, size: int) -> tuple[dict[str, zipfile.ZipInfo], list[str]]:
    """The .npy members by array name, and the names of the others; all claims checked."""
    infos = archive.infolist()
    if not infos:
        raise InputError("is an empty archive")
    counts = Counter(info.filename.removesuffix(".npy") for info in infos)
    name, times = counts.most_common(1)[0]
    if times > 1:
        raise InputError(f"holds the name {quoted(name)} {times} times")
    others = [info.filename for info in infos if not info.filename.endswith(".npy")]
    members = {i.filename.removesuffix(".npy"): i for i in infos if i.filename.endswith(".npy")}
    if not members:
        raise InputError(f"holds no arrays, only {listed(others)}")
    for member in members.values():
        _check_claims(member, size)
    return members, others


def _check_layout(file: IO[bytes], archive: zipfile.ZipFile, size: int) -> None:
    """InputError where members overlap, or bytes lie before the first or after the directory."""
    at, before = 0, ""
    for member in sorted(archive.infolist(), key=lambda member: member.header_offset):
        begin, name = member.header_offset, quoted(member.filename)
        if begin < at:
            raise InputError(f"its members {before} and {name} overlap")
        if begin and not before:
            raise InputError(f"its first {begin:,} bytes belong to no member")
        file.seek(begin)
        header = file.read(LOCAL_HEADER)
        if len(header) < LOCAL_HEADER:
            raise InputError(f"its member {name} lies beyond the end of the file")
        named, extra = struct.unpack("<HH", header[-4:])
        at, before = begin + LOCAL_HEADER + named + extra + member.compress_size, name
    file.seek(max(size - DIRECTORY_END - len(archive.comment), 0))
    if file.read(4) != b"PK\x05\x06":
        raise InputError("bytes follow the end of the archive")


def _check_claims(member: zipfile.ZipInfo, size: int) -> None:
    name = quoted(member.filename)
    if member.flag_bits & 1:
        raise InputError(f"its member {name} is encrypted")
    packed = min(member.compress_size, size)
    most = packed * DEFLATE_RATIO
    limits = {zipfile.ZIP_STORED: packed, zipfile.ZIP_DEFLATED: most}
    limit = limits.get(member.compress_type, max(most, HARMLESS))
    if member.file_size > limit:
        raise InputError(
            f"its member {name} claims {member.file_size:,} bytes, "
            f"the {packed:,} bytes it takes in the file are too few for them"
        )


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with _reading(member), archive.open(member) as stream:
        array = read_array(stream, member.file_size, text=True)
        stream.read(1)  # an empty array ends here, and only the end compares the checksum
        return _checked_text(array) if array.dtype.kind == "U" else array


def _read_header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """The member as its header says it is, blank; text is read."""
    with _reading(member), archive.open(member) as stream:
        header = read_header(stream, member.file_size, text=True)
        if header.dtype.kind != "U":
            return header.blank
    return _read_member(archive, member)


@contextmanager
def _reading(member: zipfile.ZipInfo) -> Iterator[None]:
    """Names the member in what goes wrong with it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{quoted(member.filename)}: {error.message}", error.hint) from error
    except _BROKEN as error:
        bad = f"its member {quoted(member.filename)} is damaged"
        raise InputError(f"{bad}: {_reason(error)}", hint="write the file again") from error


def _reason(error: Exception) -> str:
    crc = "the checksum (CRC-32) of its content is wrong"
    return crc if "CRC" in str(error) else "it cannot be unpacked"


def _checked_text(array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim > 2:
        raise InputError(
            f"holds text in {array.ndim} dimensions; tokens have one, or two in a batch"
        )
    try:
        array.tolist()
    except (ValueError, SystemError) as error:
        raise InputError("holds text with impossible characters") from error
    return array


def _notes(
    held: Mapping[str, NDArray[Any]],
    numbers: Mapping[str, tuple[NDArray[Any], str]],
    others: list[str],
) -> list[Finding]:
    narrowed = [name for name, (_, dtype) in numbers.items() if dtype != held[name].dtype.name]
    said = []
    if others:
        said.append(note("ignored-member", f"not read, since they are no .npy: {listed(others)}"))
    if narrowed:
        said.append(note("longdouble", f"longdouble numbers read as float64: {listed(narrowed)}"))
    return said
