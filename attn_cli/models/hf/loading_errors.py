"""What can go wrong while a checkpoint is loaded, as one line each."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attn_cli.errors import AttnError, InputError, UnsupportedError
from attn_cli.formats.names import printable, quoted

# Behind the last attention, so that what attn says of the model does not depend on them.
_HEADS = re.compile(r"(^|\.)(pooler|lm_head|classifier|score|cls|predictions|qa_outputs|vocab)")
LONGEST = 220  # characters of what another package says
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.safetensors.index.json")


@contextmanager
def refusals(source: str, folder: Path | None) -> Iterator[None]:
    """Errors of transformers, safetensors and torch in one sentence with the next step.

    `folder` is None for a name on the hub, and where no weights are read.
    """
    from safetensors import SafetensorError

    name = printable(source)
    try:
        yield
    except AttnError:
        raise
    except (SafetensorError, EOFError, pickle.UnpicklingError) as error:
        raise InputError(
            f"{name}: a file of weights is damaged: {first_line(error)}",
            hint="fetch it again; attn check shapes names the file",
        ) from error
    except ImportError as error:
        raise UnsupportedError(f"{name}: the model needs more: {first_line(error)}") from error
    except MemoryError as error:
        raise InputError(f"{name}: does not fit in memory", hint="--device-map auto") from error
    except OSError as error:
        raise _unreadable(name, folder, error) from error
    except Exception as error:  # a file of any content may make their code raise anything
        if "trust_remote_code" in str(error):
            raise UnsupportedError(
                f"{name}: the model comes with code of its own, which is not run",
                hint="read that code, then --trust-remote-code runs it",
            ) from error
        raise InputError(
            f"{name}: transformers cannot make a model of it: {first_line(error)}"
        ) from error


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


def _unreadable(name: str, folder: Path | None, error: OSError) -> AttnError:
    if folder is None:
        return InputError(
            f"{name}: is no folder here, and the hub could not be reached or has no such model",
            hint="give the folder that holds config.json and the weights",
        )
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
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
    said = f"there is no {lines[0]}" if isinstance(error, KeyError) else lines[0]
    short = said if len(said) <= LONGEST else said.partition(". ")[0][:LONGEST]
    return printable(short.rstrip("."))
