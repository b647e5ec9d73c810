"""Where input comes from: a path, checked before it is opened, or a pipe."""

from __future__ import annotations

import difflib
import errno
import hashlib
import itertools
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from attn_cli.core.registry import unknown_name
from attn_cli.errors import AttnError, InputError
from attn_cli.formats.names import listed, printable

MOST = 10_000  # names of a folder that are searched for one that was meant


def is_pipe(source: str) -> bool:
    """Whether `source` is standard input or the shell's <(command): neither has a suffix."""
    return source in ("-", "/dev/stdin") or source.startswith("/dev/fd/")


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Puts the name of the source before what readers raise; they do not know it."""
    name = "standard input" if source == "-" else printable(source) or "''"
    try:
        yield
    except AttnError as error:
        raise type(error)(f"{name}: {error.message}", error.hint) from error
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise InputError(f"{name}: does not fit in memory") from error


def locate(source: str, suffixes: Collection[str]) -> tuple[Path, str]:
    """The path of a regular file that is not empty, and its suffix in lower case.

    InputError says what is there instead, and names the files that may have been meant.
    """
    if not source:
        raise InputError("is an empty name where that of a file is expected")
    path = Path(source)
    status = _status(path, suffixes)
    if stat.S_ISDIR(status.st_mode):
        raise InputError("is a directory", hint=_in_folder(path, suffixes))
    if not stat.S_ISREG(status.st_mode):
        raise InputError(
            "is not a regular file", hint="pipe it into standard input: attn run - < …"
        )
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        known = tuple(suffixes)
        if suffix:
            hint = unknown_name("suffix", printable(suffix), known).hint
            raise InputError(f"attn does not read {printable(suffix)} files", hint=hint)
        raise InputError("has no suffix that says its format", hint=f"known: {', '.join(known)}")
    if not status.st_size:
        raise InputError("the file is empty")
    return path, suffix


def digest(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _status(path: Path, suffixes: Collection[str]) -> os.stat_result:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        if path.is_symlink():
            raise InputError("is a link to a file that does not exist") from error
        raise InputError("no such file", hint=_meant(path, suffixes)) from error
    except ValueError as error:  # a zero byte
        raise InputError("no file can have this name") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError("is a link that leads back to itself") from error
        raise


def _meant(path: Path, suffixes: Collection[str]) -> str:
    """The names in the same folder that are nearest to a missing one."""
    if not path.parent.is_dir():
        return "its folder does not exist either"
    names = _readable(path.parent, suffixes)
    near = [name for name in names if _likeness(Path(name).stem, path.stem) > 0.6]
    near.sort(key=lambda name: (-_likeness(name, path.name), name))
    return f"did you mean {listed(near[:3])}?" if near else ""


def _likeness(a: str, b: str) -> float:
    return difflib.SequenceMatcher(a=a.casefold(), b=b.casefold()).ratio()


def _in_folder(path: Path, suffixes: Collection[str]) -> str:
    names = sorted(_readable(path, suffixes))
    return f"it holds {listed(names[:5])}" if names else "give the path of a file in it"


def _readable(folder: Path, suffixes: Collection[str]) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, MOST)]
    except OSError:
        return []
    return [name for name in names if Path(name).suffix.lower() in suffixes]
