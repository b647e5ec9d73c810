"""The extra `hf`: transformers, imported when it is first needed, and quiet."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from attn_cli.errors import UnsupportedError

OLDEST = 5


def transformers() -> Any:
    """The package transformers; UnsupportedError where it is missing or older than version 5."""
    package = needed("transformers", "hf")
    version = str(getattr(package, "__version__", "0"))
    if int(version.split(".")[0]) < OLDEST:
        raise UnsupportedError(
            f"transformers {version} is too old: expected {OLDEST} or newer",
            hint="pip install --upgrade 'attn-cli[hf]'",
        )
    package.utils.logging.set_verbosity_error()
    package.utils.logging.disable_progress_bar()
    return package


def needed(name: str, extra: str) -> ModuleType:
    """A package of an extra; UnsupportedError says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedError(
            f"{name} is not installed, and a model needs it",
            hint=f"pip install 'attn-cli[{extra}]'",
        ) from error
