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
    with _whole(path) as file:
        writer(file, arrays, dtypes or {}, metadata)


def check_target(path: Path, *, force: bool) -> None:
    """InputError where `path` cannot be written: ask before a long computation, not after.

    Its suffix must name a format, its folder exist, and it must not exist itself unless `force`.
    """
    name = printable(str(path))
    if path.suffix.lower() not in WRITERS:
        raise InputError(f"{name}: attn writes {' and '.join(WRITERS)} files only")
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


@contextmanager
def _whole(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose content appears under `path` at once, when all of it is on the disk."""
    target = Path(os.path.realpath(path))  # through a link, so that the link stays one
    part = target.with_name(f".attn-{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as error:
        raise InputError(
            f"{printable(str(path))}: cannot be written: {error.strerror or error}"
        ) from error
    finally:
        part.unlink(missing_ok=True)
