"""Options that one kind of input takes: refused where the input is of the other."""

from __future__ import annotations

from attn_cli.core.dump import Dump
from attn_cli.errors import InputError


def refuse_text(dump: Dump, text: str | None) -> None:
    """InputError for --text where the file holds no model."""
    if text is not None:
        raise InputError(
            f"--text is what a model reads, and {dump.source} holds none",
            hint="its arrays are attended over as they are: leave --text away",
        )


def refuse_files(*, context: str | None, weights: str | None) -> None:
    """InputError for --context and --weights where the input is a model."""
    for name, given in (("context", context), ("weights", weights)):
        if given is not None:
            raise InputError(f"--{name} is for token vectors: a model has all that it needs")
