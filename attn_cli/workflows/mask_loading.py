"""Files that a mask names: read once, and the code that loads them elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from attn_cli import formats
from attn_cli.core.dump import Dump
from attn_cli.errors import UnsupportedError
from attn_cli.formats.source import is_pipe
from attn_cli.recognize.one_array import only_array

Code = tuple[str, tuple[str, ...]]  # an expression, and the imports that it needs

NUMPY = ("import numpy as np",)


@dataclass(frozen=True, slots=True)
class MaskFiles:
    """Reads the files of a mask, each once."""

    dumps: dict[str, Dump] = field(default_factory=dict)

    def load(self, path: str) -> NDArray[Any]:
        """The only array of the file, or the one called `mask`."""
        return self._dump(path).arrays[only_array(self._dump(path))]

    def code(self, path: str) -> Code:
        """Code for the same array as bool: True where it is not 0."""
        dump = self._dump(path)
        loaded, imports = loading(dump, only_array(dump))
        return f"{loaded} != 0", imports

    def _dump(self, path: str) -> Dump:
        if path not in self.dumps:
            self.dumps[path] = formats.read(path)
        return self.dumps[path]


def loading(dump: Dump, name: str) -> Code:
    """Code that loads one array of a file; UnsupportedError for a file that only attn reads."""
    if is_pipe(dump.source) or dump.format not in _LOADING:
        raise UnsupportedError(
            f"{dump.source} cannot be loaded by a line of code",
            hint="save the mask as .npy: np.save(path, mask)",
        )
    if not dump.unnamed and dump.format == "pt" and ("." in name or name.isdigit()):
        raise UnsupportedError(
            f"{dump.source} holds {name} inside something else",
            hint="save the mask as .npy: np.save(path, mask)",
        )
    return _LOADING[dump.format](_quoted(dump.source), "" if dump.unnamed else f"[{_quoted(name)}]")


def _npy(path: str, name: str) -> Code:
    return f"np.load({path}){name}", NUMPY


def _safetensors(path: str, name: str) -> Code:
    return f"load_file({path}){name}", ("from safetensors.torch import load_file",)


def _pt(path: str, name: str) -> Code:
    return f"torch.load({path}, weights_only=True){name}", ()


def _json(path: str, name: str) -> Code:
    text = f'Path({path}).read_text(encoding="utf-8-sig")'
    imports = ("import json", "from pathlib import Path", *NUMPY)
    return f"np.array(json.loads({text}){name})", imports


_LOADING: Mapping[str, Callable[[str, str], Code]] = {
    "npy": _npy,
    "npz": _npy,
    "safetensors": _safetensors,
    "pt": _pt,
    "json": _json,
}


def _quoted(text: str) -> str:
    """The text as Python writes it, in the quotation marks of the rest."""
    plain = text.isprintable() and '"' not in text and "\\" not in text
    return f'"{text}"' if plain else repr(text)
