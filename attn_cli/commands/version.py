"""--version: what a report of a fault should start with."""

from __future__ import annotations

import platform

import typer

from attn_cli.commands.output import write
from attn_cli.version import __version__


def show_version(asked: bool) -> None:
    """Prints versions and platform, and ends the command; imports none of the packages."""
    if not asked:
        return
    versions = {
        "attn": __version__,
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "torch": _version("torch"),
        "platform": platform.platform(),
    }
    write("".join(f"{name:<8} {version}\n" for name, version in versions.items()))
    raise typer.Exit


def _version(package: str) -> str:
    from importlib import metadata  # slow to load, and needed here only

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
