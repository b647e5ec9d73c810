"""Saving: the stages of chosen calls as files that attn reads again, one file a call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.model_calls import CallFacts
from attn_cli.core.steps import K_AXES, Q_AXES, V_AXES
from attn_cli.core.trace import CONTEXT_AXES, SCORE_AXES, STAGES
from attn_cli.errors import AttnError, InputError
from attn_cli.formats.names import listed, printable
from attn_cli.formats.write import WRITERS, check_target, write
from attn_cli.workflows.model.full import is_plain
from attn_cli.workflows.model.options import SAVED, ModelOptions
from attn_cli.workflows.model.real_rows import real_queries

if TYPE_CHECKING:
    from attn_cli.models.hf.call_keeper import KeptCall
    from attn_cli.workflows.model.report import Watched

Array = NDArray[Any]

AXES = {
    "q": Q_AXES,
    "k": K_AXES,
    "v": V_AXES,
    **dict.fromkeys(STAGES, SCORE_AXES),
    "context": CONTEXT_AXES,
}


def check_destination(path: str, *, force: bool) -> None:
    """InputError, before anything is computed, where `path` could not be written.

    With a suffix that attn writes it is a file, else a folder, which is made.
    """
    if not path:
        raise InputError("--save has no path: expected a file or a folder")
    target = Path(path)
    if target.suffix.lower() in WRITERS:
        check_target(target, force=force)
    elif target.exists() and not target.is_dir():
        raise InputError(
            f"{printable(path)}: is no folder, and attn writes {' and '.join(WRITERS)} files only"
        )
    elif not target.parent.is_dir():
        raise InputError(f"{printable(path)}: its folder does not exist", hint="make it first")


def save_calls(
    options: ModelOptions, watched: Watched, chosen: tuple[CallFacts, ...]
) -> tuple[str, ...]:
    """Writes one file a call, and returns their paths.

    q, k and v are what the model's attention was given and `context` is what it computed, both in
    its precision; the stages between are attn's, in float32 from the same q, k and v. InputError
    where one file is asked for and several calls are chosen.
    """
    assert options.save is not None
    target = Path(options.save)
    one = target.suffix.lower() in WRITERS
    if one and len(chosen) > 1:
        raise InputError(
            f"--save {printable(options.save)} is one file, and {len(chosen)} calls are chosen",
            hint=f"--layer {chosen[-1].layer} picks one, or --save a folder for all of them",
        )
    if not one:
        _folder(target)
    paths = [target if one else target / f"{facts.place}.safetensors" for facts in chosen]
    if not one:
        for path in paths:
            check_target(path, force=options.force)
    for path, facts in zip(paths, chosen, strict=True):
        _save(path, watched.calls.kept[facts.place], options, watched)
    return tuple(map(str, paths))


def _folder(path: Path) -> None:
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise AttnError(f"{printable(str(path))}: cannot be made: {error.strerror}") from error


def _save(path: Path, call: KeptCall, options: ModelOptions, watched: Watched) -> None:
    arrays = _stages(call)
    wanted = options.stages or SAVED
    stages = {name: array for name, array in arrays.items() if name in wanted}
    if not stages:
        raise InputError(
            f"{call.facts.place} has no stage {listed(sorted(wanted))}",
            hint=f"it has {', '.join(name for name in SAVED if name in arrays)}",
        )
    dtypes = {name: call.dtypes.get(name, "float32") for name in stages}
    write(
        path,
        {**stages, **_around(call, watched)},
        dtypes=dtypes,
        axes={name: AXES[name] for name in stages},
        settings=_settings(call),
        texts=_texts(call, watched),
        force=options.force,
    )


def _stages(call: KeptCall) -> dict[str, Array]:
    """The call's own arrays, and the stages between them."""
    from attn_cli.models.hf.kept_stages import stages_of_kept

    own: dict[str, Array] = {
        name: call.arrays[name] for name in ("q", "k", "v") if name in call.arrays
    }
    made = stages_of_kept(call)
    context = {"context": call.arrays["context"]} if "context" in call.arrays else {}
    return {**own, **made, **context}


def _around(call: KeptCall, watched: Watched) -> dict[str, Array]:
    """Mask, bias and sinks under the names by which attn reads them."""
    arrays: dict[str, Array] = {}
    facts, mask = call.facts, call.arrays.get("mask")
    if "masked" in call.arrays:
        return arrays
    if mask is not None:
        arrays["mask" if mask.dtype == bool else "additive_mask"] = mask
    elif facts.causal:
        arrays["mask"] = np.tri(facts.queries, facts.keys, dtype=bool)[None, None]
    if "position_bias" in call.arrays:
        arrays["bias"] = call.arrays["position_bias"]
    if "sinks" in call.arrays:
        arrays["sinks"] = call.arrays["sinks"].reshape(-1)
    lengths = _lengths(call, watched)
    return arrays if lengths is None else {**arrays, "lengths": lengths}


def _lengths(call: KeptCall, watched: Watched) -> Array | None:
    """How many queries of each item are no padding; None where all are, or padding is in front."""
    real = real_queries(watched.inputs, call.facts)
    counts = real.sum(1)
    behind = (np.arange(real.shape[1]) < counts[:, None]) == real
    return counts if behind.all() and not real.all() else None


def _settings(call: KeptCall) -> Mapping[str, Any]:
    if "masked" in call.arrays:
        return {}
    facts = call.facts
    chosen = {
        "heads": facts.heads,
        "kv_heads": facts.kv_heads,
        "scale": None if is_plain(call) else call.scaling,
        "softcap": facts.softcap,
        "align": "upper-left" if facts.queries != facts.keys else None,
    }
    return {name: value for name, value in chosen.items() if value is not None}


def _texts(call: KeptCall, watched: Watched) -> Mapping[str, Any]:
    queries, keys = watched.inputs.labels_of(call.facts)
    texts = {}
    if queries is not None:
        texts["tokens"] = [list(row) for row in queries]
    if keys is not None and keys != queries:
        texts["context_tokens"] = [list(row) for row in keys]
    return texts
