"""The processor of a checkpoint: what turns its pictures and texts into what the model takes."""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attn_cli.errors import AttnError, InputError, UnsupportedError
from attn_cli.formats.names import printable
from attn_cli.models.checkpoint.config_file import read_object
from attn_cli.models.hf.extra import transformers
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.loading_errors import first_line

FILES = ("processor_config.json", "preprocessor_config.json")
_NAMED_IN = (*FILES, "tokenizer_config.json")
_VIDEO = "video_processor"


def has_processor(loaded: LoadedModel) -> bool:
    """Whether the folder has the settings of a processor."""
    return any((loaded.folder / name).exists() for name in FILES)


def image_processor(loaded: LoadedModel) -> Any:
    """What scales the pictures alone; InputError where its settings make none."""
    with _made(loaded):
        return transformers().AutoImageProcessor.from_pretrained(
            loaded.folder, trust_remote_code=loaded.trust_remote_code
        )


def own_processor(loaded: LoadedModel) -> Any:
    """What makes pictures and text into one input; None where the family has none.

    Where torchvision is missing, videos are left out of it, which nobody gives here. InputError for
    settings that make no processor, UnsupportedError where it needs another package.
    """
    with _made(loaded):
        made = _processor(loaded)
    both = all(getattr(made, part, None) is not None for part in ("image_processor", "tokenizer"))
    return made if both else None


def _processor(loaded: LoadedModel) -> Any:
    trusted = {"trust_remote_code": loaded.trust_remote_code}
    if importlib.util.find_spec("torchvision") is None:
        kind = _class_of(loaded)
        if kind is not None and _VIDEO in kind.get_attributes():
            return _without_videos(kind).from_pretrained(loaded.folder, **trusted)
    return transformers().AutoProcessor.from_pretrained(loaded.folder, **trusted)


def _class_of(loaded: LoadedModel) -> Any:
    """The class that a folder or the configuration names, as AutoProcessor looks for it."""
    from transformers.models.auto import processing_auto as auto

    folder = loaded.folder
    files = [folder / name for name in _NAMED_IN if (folder / name).exists()]
    named = (read_object(path).get("processor_class") for path in files)
    name = next((each for each in named if isinstance(each, str)), None)
    if name is not None:
        return auto.processor_class_from_name(name)
    return auto.PROCESSOR_MAPPING.get(type(loaded.config), None)


def _without_videos(kind: Any) -> Any:
    """The class with None for its video processor, which only torchvision can make."""
    place = kind.get_attributes().index(_VIDEO)

    def attributes(cls: Any) -> list[str]:
        return [name for name in super(made, cls).get_attributes() if name != _VIDEO]

    def arguments(cls: Any, *args: Any, **options: Any) -> list[Any]:
        parts = super(made, cls)._get_arguments_from_pretrained(*args, **options)
        return [*parts[:place], None, *parts[place:]]

    made: Any = type(
        kind.__name__,
        (kind,),
        {
            "get_attributes": classmethod(attributes),
            "_get_arguments_from_pretrained": classmethod(arguments),
        },
    )
    return made


@contextmanager
def _made(loaded: LoadedModel) -> Iterator[None]:
    """The settings are read as hostile files first; what they make of them is refused in a line."""
    folder = loaded.folder
    for path in (folder / name for name in FILES if (folder / name).exists()):
        try:
            read_object(path)
        except InputError as error:
            raise InputError(error.message, hint="fetch this file of the model again") from error
    with processing(f"{printable(loaded.source)}: its processor cannot be made"):
        yield


@contextmanager
def processing(said: str) -> Iterator[None]:
    """Errors of a processor, of any kind, in one sentence that begins with `said`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except AttnError:
        raise
    except MemoryError as error:
        raise InputError(f"{said}: it does not fit in memory") from error
    except Exception as error:  # settings of any content may make their code raise anything
        if missing := _missing(error):
            raise UnsupportedError(
                f"{said}: it needs {missing}, which is not installed", hint=f"pip install {missing}"
            ) from error
        if isinstance(error, ImportError):
            raise UnsupportedError(f"{said}, it needs more: {first_line(error)}") from error
        raise InputError(
            f"{said}: {first_line(error)}", hint="ATTN_DEBUG=1 shows where it stopped"
        ) from error


def _missing(error: Exception) -> str:
    """The package that transformers misses, by its own words or Python's; empty for none."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return printable(error.name.partition(".")[0])
    known = ("torchvision", "num2words", "sentencepiece", "protobuf", "jinja2")
    said = str(error).lower()
    wanted = [name for name in known if re.search(rf"\b{name}\b", said)]
    return next((name for name in wanted if importlib.util.find_spec(name) is None), "")
