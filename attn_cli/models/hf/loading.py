"""load(): a folder in Hugging Face layout, or a name on the hub, as a model in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from attn_cli.core.findings import Finding, note
from attn_cli.core.registry import unknown_name
from attn_cli.errors import UnsupportedError
from attn_cli.formats.names import quoted
from attn_cli.models.hf.architecture import class_of, kind_of
from attn_cli.models.hf.devices import check_map, home_of, release, spread_notes, spreading
from attn_cli.models.hf.extra import transformers
from attn_cli.models.hf.finding_tokenizer import tokenizer_of
from attn_cli.models.hf.loaded import LoadedModel
from attn_cli.models.hf.loading_errors import missing_weights, refusals
from attn_cli.models.hf.options import BACKENDS, LoadOptions
from attn_cli.models.hf.reading_config import read_config
from attn_cli.models.hf.source import Source
from attn_cli.torch_arrays import usable_device

POSITIONS = ("max_position_embeddings", "n_positions", "max_target_positions")
DTYPES = ("float32", "float16", "bfloat16", "float64")


def load(options: LoadOptions) -> LoadedModel:
    """The model, in evaluation mode, with its tokenizer where it has one.

    InputError or UnsupportedError, in one line, for a folder without config.json or weights,
    damaged files, weights that are missing, a model that needs code of its own, a name that cannot
    be reached, a device or precision that is not there.
    """
    transformers()
    if options.dtype is not None and options.dtype not in DTYPES:
        raise unknown_name("precision", options.dtype, DTYPES)
    check_map(options)
    device = usable_device(options.device, options.dtype or "float32")
    source, config = read_config(options)
    with _quiet():
        tokenizer = tokenizer_of(source, trust_remote_code=options.trust_remote_code)
        model, notes = _model(options, source, config, device)
    model.eval()
    return LoadedModel(
        model=model,
        config=model.config,
        source=options.source,
        folder=source.folder,
        architecture=type(model).__name__,
        kind=kind_of(model),
        tokenizer=tokenizer,
        device=home_of(model, device),
        dtype=str(model.dtype).removeprefix("torch."),
        backend=_backend_of(model),
        positions=_positions(model),
        random=options.random_weights,
        trust_remote_code=options.trust_remote_code,
        notes=(*source.notes, *notes, *(() if tokenizer is None else tokenizer.notes)),
    )


def _model(
    options: LoadOptions, source: Source, config: Any, device: torch.device
) -> tuple[Any, tuple[Finding, ...]]:
    kind = class_of(config, remote=options.trust_remote_code)
    if options.random_weights:
        return _random(kind, config, options, source, device)
    given: dict[str, Any] = {"dtype": options.dtype or "auto", "config": config}
    given["trust_remote_code"] = options.trust_remote_code  # left open, transformers would ask
    if options.backend is not None:
        given["attn_implementation"] = _known(options.backend)
    given["ignore_mismatched_sizes"] = True  # they are named below, and nothing runs with them
    given |= spreading(options)
    model = None
    try:
        folder = str(source.folder)
        with refusals(source):
            model, report = kind.from_pretrained(folder, output_loading_info=True, **given)
            if options.device_map is None:
                model = model.to(device)
    finally:
        release(given, model)
    missing_weights(options.source, report)
    return model, spread_notes(model)


def _random(
    kind: Any, config: Any, options: LoadOptions, source: Source, device: torch.device
) -> tuple[Any, tuple[Finding, ...]]:
    """The model of a configuration with numbers drawn by transformers' own rules."""
    if options.backend is not None:
        config._attn_implementation = _known(options.backend)
    dtype = getattr(torch, options.dtype or "float32")
    build = (
        kind._from_config
        if hasattr(kind, "_from_config")
        else partial(kind.from_config, trust_remote_code=options.trust_remote_code)
    )
    with refusals(source), torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        model = build(config).to(device=device, dtype=dtype)
    said = f"the weights are random (seed {options.seed}): nothing here was learned"
    return model, (note("random-weights", said),)


def _known(backend: str) -> str:
    if backend not in BACKENDS:
        raise UnsupportedError(
            f"attn cannot look into the attention backend {quoted(backend)}",
            hint=f"known: {', '.join(BACKENDS)}",
        )
    return backend


def _backend_of(model: Any) -> str:
    """The attention that a model was given; UnsupportedError for one that attn cannot look into."""
    said = model.config._attn_implementation
    return _known(said or "eager")


def _positions(model: Any) -> int | None:
    """The longest text; None where positions have no end.

    An embedding with a padding id (RoBERTa's) counts positions from behind it.
    """
    text = model.config.get_text_config()
    values = (getattr(text, name, None) for name in POSITIONS)
    most = next((value for value in values if type(value) is int and value > 0), None)
    for path, module in model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if most and path.endswith("position_embeddings") and padding is not None:
            return most - int(padding) - 1
    return most


@contextmanager
def _quiet() -> Iterator[None]:
    """What transformers finds odd while loading is said by attn, or is not a user's concern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
