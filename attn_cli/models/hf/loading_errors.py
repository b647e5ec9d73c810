"""What can go wrong while a checkpoint is loaded, as one line each."""

from __future__ import annotations

import pickle
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attn_cli.errors import AttnError, InputError, UnsupportedError
from attn_cli.formats.names import printable, quoted
from attn_cli.models.hf.source import Source
from attn_cli.torch_arrays import ran_out

# Behind the last attention, so that what attn says of the model does not depend on them.
_HEADS = re.compile(r"(^|\.)(pooler|lm_head|classifier|score|cls|predictions|qa_outputs|vocab)")
LONGEST = 220  # characters of what another package says
_NO_FILE = re.compile(r"does not appear to have a file named (\S+\.py)")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.safetensors.index.json")


@contextmanager
def refusals(source: Source) -> Iterator[None]:
    """Errors of transformers, safetensors, torch and a model's own code, in one sentence each."""
    try:
        yield
    except AttnError:
        raise
    except (Exception, SystemExit) as error:  # any file, and code of any content, may raise any
        raise _refusal(source, error) from error


def _refusal(source: Source, error: BaseException) -> AttnError:
    from safetensors import SafetensorError

    name = printable(source.name)
    if "trust_remote_code" in str(error):
        return not_trusted(source, "model")
    if ran_out(error):
        return InputError(
            f"{name}: does not fit in memory",
            hint="a smaller --dtype; a checkpoint's --device-map auto leaves on the disk the rest",
        )
    if isinstance(error, ImportError):
        return UnsupportedError(f"{name}: the model needs more: {first_line(error)}")
    if (where := _own_code(error)) is not None:
        return InputError(
            f"{name}: the model's own code fails {where}: {type(error).__name__}: "
            f"{first_line(error)}",
            hint="that code lies beside the weights; ATTN_DEBUG=1 shows how it got there",
        )
    if "Weights only load failed" in str(error):
        return InputError(
            f"{name}: a pickled file of weights holds something else, which is not run",
            hint="safetensors hold nothing but numbers: is there such a file?",
        )
    if isinstance(error, (SafetensorError, EOFError, pickle.UnpicklingError)):
        return InputError(
            f"{name}: a file of weights is damaged: {first_line(error)}",
            hint="fetch it again; attn check shapes names the file",
        )
    if isinstance(error, OSError):
        return _unreadable(source, error)
    return InputError(f"{name}: transformers cannot make a model of it: {first_line(error)}")


def not_trusted(source: Source, what: str) -> AttnError:
    """Code beside the weights is not run unasked; `what` comes with it."""
    return UnsupportedError(
        f"{printable(source.name)}: the {what} comes with code of its own, which is not run",
        hint="read that code, then --trust-remote-code runs it",
    )


def _own_code(error: BaseException) -> str | None:
    """Where the code that came with a model stopped; None where it is not to blame."""
    if isinstance(error, SyntaxError):
        return f"to be read, line {error.lineno}"
    frames = list(traceback.walk_tb(error.__traceback__))
    for frame, line in reversed(frames):
        if str(frame.f_globals.get("__name__")).startswith("transformers_modules."):
            return f"at {Path(frame.f_code.co_filename).name}:{line}"
    return "by ending the program" if isinstance(error, SystemExit) else None


def missing_weights(source: str, report: Mapping[str, Any]) -> None:
    """InputError where weights that attention depends on are missing or of another shape."""
    wrong = [entry[0] if isinstance(entry, tuple) else entry for entry in report["mismatched_keys"]]
    lost = sorted(key for key in report["missing_keys"] if not _HEADS.search(key))
    for names, said in (
        (lost, "missing"),
        (sorted(wrong), "of another shape than config.json says"),
    ):
        if names:
            count = "1 weight is" if len(names) == 1 else f"{len(names):,} weights are"
            raise InputError(
                f"{printable(source)}: {count} {said}, the first {quoted(names[0])}",
                hint=f"attn check shapes {printable(source)} says what is there",
            )


def _unreadable(source: Source, error: OSError) -> AttnError:
    name, folder = printable(source.name), source.folder
    if (found := _NO_FILE.search(str(error))) is not None:
        return InputError(f"{name}: holds no {printable(found[1])}")
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHTS) and "no file named" in str(error):
        return InputError(
            f"{name}: holds no weights (model.safetensors or pytorch_model.bin)",
            hint="--random-weights needs config.json alone",
        )
    return InputError(f"{name}: cannot be read: {first_line(error)}")


def first_line(error: BaseException) -> str:
    """The first line of what an error says, of a long one its first sentence; else its kind."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    said = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    said = f"there is no {said}" if isinstance(error, KeyError) else said
    short = said if len(said) <= LONGEST else said.partition(". ")[0][:LONGEST]
    return printable(short.rstrip("."))
