"""write: arrays, settings and tokens into one file, whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from attn_cli.errors import InputError, UnsupportedError
from attn_cli.formats import npz_file, safetensors_writer
from attn_cli.formats.metadata import RESERVED, pack
from attn_cli.formats.names import listed, printable, quoted

Writer = Callable[
    [IO[bytes], Mapping[str, NDArray[Any]], Mapping[str, str], Mapping[str, str]], None
]

OPEN_FILES = Path("/proc/self/fd")

WRITERS: dict[str, Writer] = {".safetensors": safetensors_writer.write, ".npz": npz_file.write}


def write(
    path: Path,
    arrays: Mapping[str, NDArray[Any]],
    *,
    dtypes: Mapping[str, str] | None = None,
    axes: Mapping[str, Sequence[str]] | None = None,
    settings: Mapping[str, Any] | None = None,
    texts: Mapping[str, Any] | None = None,
    force: bool = False,
) -> None:
    """A .safetensors or .npz file that `formats.read` understands, in full or not at all.

    `dtypes` names the precision of arrays that lie in a wider one: "bfloat16" is stored as such
    in safetensors, and as float32 in NPZ. `settings` and `texts` are what JSON can say.
    InputError as `check_target`, and where the disk refuses.
    """
    metadata = pack(settings or {}, texts or {}, axes or {})
    taken = [name for name in arrays if name in RESERVED or name in metadata]
    if taken:
        raise InputError(f"an array cannot be called {listed(taken)} in a file that attn writes")
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise UnsupportedError(f"{quoted(name)} has dtype {array.dtype}, which is not written")
    check_target(path, force=force)
    writer = WRITERS[path.suffix.lower()]
    with whole(path) as file:
        writer(file, arrays, dtypes or {}, metadata)


def check_target(path: Path, *, force: bool, suffixes: Sequence[str] = tuple(WRITERS)) -> None:
    """InputError where `path` cannot be written: ask before a long computation, not after.

    It must end in one of `suffixes`, its folder exist, and it must not exist itself unless `force`.
    """
    if path.suffix.lower() not in suffixes:
        name = printable(str(path))
        raise InputError(f"{name}: attn writes {' and '.join(suffixes)} files only")
    check_place(path, force=force)


def check_place(path: Path, *, force: bool) -> None:
    """The same of a file with any suffix."""
    name = printable(str(path))
    if path.is_dir():
        raise InputError(f"{name}: is a directory")
    if not path.parent.is_dir():
        raise InputError(f"{name}: its folder does not exist", hint="make the folder first")
    if os.path.lexists(path) and not force:
        raise InputError(f"{name}: already exists", hint="--force overwrites it")
    if path.exists() and not path.is_file():
        raise InputError(f"{name}: is not a regular file")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{name}: its folder cannot be written to")


def _nameless(part: Path) -> IO[bytes]:
    """A file in the folder of `part` without a name, which leaves nothing behind if attn is killed.

    Where the system has none: `part` itself.
    """
    if hasattr(os, "O_TMPFILE") and OPEN_FILES.is_dir():
        try:
            return open(os.open(part.parent, os.O_TMPFILE | os.O_RDWR, 0o666), "w+b")
        except OSError:  # not on every file system
            pass
    return part.open("xb")


def _name(file: IO[bytes], part: Path) -> None:
    """Gives a nameless file its name."""
    folder = os.open(part.parent, os.O_RDONLY)
    try:
        os.link(OPEN_FILES / str(file.fileno()), part.name, dst_dir_fd=folder)
    finally:
        os.close(folder)


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content appears under `path` at once, when all of it is on the disk."""
    target = Path(os.path.realpath(path))  # through a link, so that the link stays one
    part = target.with_name(f".attn-{secrets.token_hex(8)}.part")
    try:
        with _nameless(part) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not part.exists():
                _name(file, part)
        part.replace(target)
    except OSError as error:
        raise InputError(
            f"{printable(str(path))}: cannot be written: {error.strerror or error}"
        ) from error
    finally:
        part.unlink(missing_ok=True)
