"""Devices: how a checkpoint is spread over those that there are, and where its input goes."""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch

from attn_cli.core.findings import Finding, note
from attn_cli.core.registry import unknown_name
from attn_cli.errors import InputError
from attn_cli.models.hf.extra import needed
from attn_cli.models.hf.options import LoadOptions

MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
OFFLOADED = ("cpu", "disk")  # where weights wait; they compute on the device of the others


def check_map(options: LoadOptions) -> None:
    """InputError for a map that nobody knows, and beside what a map leaves no room for."""
    if options.device_map is None:
        return
    if options.device_map not in MAPS:
        raise unknown_name("device map", options.device_map, MAPS)
    if options.device != "cpu":
        raise InputError(
            f"--device {options.device} names one device, and --device-map spreads over them all",
            hint="leave one of them out",
        )
    if options.random_weights:
        raise InputError(
            "--device-map spreads a checkpoint as it is read, and --random-weights reads none",
            hint="--device puts a drawn model on one device",
        )
    needed("accelerate", "hf")


def spreading(options: LoadOptions) -> dict[str, Any]:
    """What loading by a device map needs beside the model; empty without one.

    Weights for which there is no memory stay on the disk: in their own file, or, where they are
    stored in another form than they are used in, in the folder that is made here.
    """
    if options.device_map is None:
        return {}
    logging.getLogger("accelerate").setLevel(logging.ERROR)  # spread_notes says it
    return {
        "device_map": options.device_map,
        "offload_folder": tempfile.mkdtemp(prefix="attn-weights-"),
    }


def release(given: Mapping[str, Any], model: Any | None) -> None:
    """The folder of `spreading` goes with the model; at once where none was made."""
    folder = given.get("offload_folder")
    if folder is not None and model is not None:
        weakref.finalize(model, shutil.rmtree, folder, ignore_errors=True)
    elif folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def home_of(model: Any, otherwise: torch.device) -> torch.device:
    """Where a model takes its input and leaves its output."""
    places = getattr(model, "hf_device_map", None)
    if not places:
        return next((p.device for p in model.parameters()), otherwise)
    computing = (place for place in places.values() if place not in OFFLOADED)
    return torch.device(next(computing, "cpu"))


def spread_notes(model: Any) -> tuple[Finding, ...]:
    """How many parts of the model lie where, where that is in more than one place."""
    places = Counter(_named(place) for place in getattr(model, "hf_device_map", {}).values())
    if not is_spread(model):
        return ()
    said = ", ".join(f"{count} on {name}" for name, count in places.items())
    words = f"accelerate spread the model by its parts: {said}"
    if "disk" in places:
        words += "; what lies on the disk is read anew in every forward"
    return (note("spread", words),)


def is_spread(model: Any) -> bool:
    """Whether accelerate moves weights or token vectors while the model runs."""
    places = set(getattr(model, "hf_device_map", {}).values())
    return len(places) > 1 or "disk" in places


def _named(place: Any) -> str:
    """A device of a map by its name: accelerate numbers those that compute."""
    return place if place in OFFLOADED else str(torch.device(place))
