"""Ranks: what a command does where torchrun has started it several times at once."""

from __future__ import annotations

import os
import sys

from attn_cli.core.ranks import Place
from attn_cli.errors import UnsupportedError

SHARES = "run"  # the one command that shares its work


def hush(here: Place) -> None:
    """Only the first process speaks; what goes wrong in another, it is told."""
    if here.shared:  # a process that has all it needs may end while another still listens
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if here.rank:
        # They live as long as the process.
        sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def check_command(here: Place, arguments: list[str]) -> None:
    """UnsupportedError where several processes would all do the same."""
    called = "".join(arguments[:1])
    if here.shared and called != SHARES:
        raise not_shared(here, f"and {f'attn {called}'.strip()} computes in one", "")


def not_shared(here: Place, why: str, hint: str) -> UnsupportedError:
    """The refusal of a run that cannot be shared."""
    return UnsupportedError(
        f"torchrun started {here.size} processes, {why}: attn run --engine tiled alone shares its "
        "work",
        hint or "start it without torchrun",
    )
