"""Weights: the tensors of a folder by name, out of the headers of its safetensors files."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attn_cli.core.problems import Problem
from attn_cli.errors import InputError
from attn_cli.formats.names import listed, quoted
from attn_cli.formats.safetensors_dtypes import BITS, DECODED
from attn_cli.formats.safetensors_file import read_header
from attn_cli.formats.source import locate, naming
from attn_cli.models.checkpoint.config_file import LONGEST_INDEX, read_object

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
MOST_SHARDS = 10_000
COMPUTED = ("F64", "F32", "F16", "BF16")
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor: its dtype as the file calls it, its shape, the name of its file."""

    dtype: str
    shape: tuple[int, ...]
    file: str


@dataclass(frozen=True, slots=True)
class Weights:
    """All tensors by name; `lost` maps those that are not there to the file they should be in."""

    tensors: Mapping[str, Stored] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)
    files: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def parameters(self) -> int:
        return sum(math.prod(stored.shape) for stored in self.tensors.values())

    @property
    def bytes(self) -> int:
        bits = (math.prod(each.shape) * BITS[each.dtype] for each in self.tensors.values())
        return sum(-(-each // 8) for each in bits)

    @property
    def dtype(self) -> str:
        """The dtype of most numbers that are computed with as they are; empty without any.

        Codes of quantised weights and float8 are turned into another one first.
        """
        counts: Counter[str] = Counter()
        for stored in self.tensors.values():
            if stored.dtype in COMPUTED:
                counts[stored.dtype] += math.prod(stored.shape)
        return DECODED[counts.most_common(1)[0][0]].name if counts else ""


def read_weights(folder: Path) -> Weights:
    """The tensors that the headers of a folder describe; no data is read.

    A shard that is missing, and a tensor that is not where the index puts it, are problems.
    InputError names a file that is cut off or whose header is wrong.
    """
    if _is_there(folder, INDEX):
        return _sharded(folder, read_object(folder / INDEX, longest=LONGEST_INDEX))
    if _is_there(folder, SINGLE):
        return Weights(_header(folder, SINGLE), files=1)
    with naming(str(folder)):
        shards = sorted(path.name for path in folder.iterdir() if _SHARD.fullmatch(path.name))
    if shards:
        return _without_index(folder, shards[:MOST_SHARDS])
    return Weights(problems=(_no_weights(folder),))


def _is_there(folder: Path, name: str) -> bool:
    """Whether a name is in the folder, a link that leads nowhere too."""
    with naming(str(folder)):
        return (folder / name).exists() or (folder / name).is_symlink()


def _header(folder: Path, name: str) -> dict[str, Stored]:
    source = str(folder / name)
    with naming(source):
        path, _ = locate(source, (".safetensors",))
        return {
            key: Stored(each.dtype, each.shape, name) for key, each in read_header(path).items()
        }


def _sharded(folder: Path, index: Mapping[str, Any]) -> Weights:
    with naming(str(folder / INDEX)):
        places = _places(index)
    shards = sorted(set(places.values()))
    present = [name for name in shards if _is_there(folder, name)]
    tensors, problems = _merged(folder, present)
    lost = {name: shard for name, shard in places.items() if name not in tensors}
    problems += [_missing_shard(name, places) for name in shards if name not in present]
    problems += _misplaced(places, tensors, set(present))
    return Weights(tensors, lost, len(present), tuple(problems))


def _places(index: Mapping[str, Any]) -> dict[str, str]:
    """Tensor → file, every file a plain name in the same folder."""
    places = index.get("weight_map")
    if not isinstance(places, dict) or not places:
        raise InputError("has no weight_map of tensors and their files")
    seen: set[str] = set()
    for tensor, file in places.items():
        if not isinstance(file, str):
            raise InputError(f"puts tensor {quoted(tensor)} into something that is no file name")
        if file not in seen:
            _check_name(tensor, file)
            seen.add(file)
    if len(seen) > MOST_SHARDS:
        raise InputError(f"names more than {MOST_SHARDS:,} files")
    return places


def _check_name(tensor: str, file: str) -> None:
    """InputError unless a file is named by a plain name, so that it lies in the same folder."""
    plain = file == Path(file).name and "\\" not in file and "\0" not in file
    if not plain or not file.endswith(".safetensors"):
        raise InputError(
            f"puts tensor {quoted(tensor)} into {quoted(file)}",
            hint="expected the plain name of a .safetensors file in the same folder",
        )


def _merged(folder: Path, names: list[str]) -> tuple[dict[str, Stored], list[Problem]]:
    tensors: dict[str, Stored] = {}
    problems = []
    for name in names:
        for key, stored in _header(folder, name).items():
            if key in tensors:
                said = f"{quoted(key)} is in {tensors[key].file} and in {name}: take it out of one"
                problems.append(Problem("twice", said, tensor=key, file=name))
            tensors.setdefault(key, stored)
    return tensors, problems


def _missing_shard(name: str, places: Mapping[str, str]) -> Problem:
    count = sum(file == name for file in places.values())
    said = (
        f"{quoted(name)} is not in the folder, and {INDEX} puts {count:,} "
        f"tensor{'s' if count != 1 else ''} into it: download it again"
    )
    return Problem("missing-shard", said, file=name)


def _misplaced(
    places: Mapping[str, str], tensors: Mapping[str, Stored], present: set[str]
) -> list[Problem]:
    problems = []
    for name, file in places.items():
        there = tensors[name].file if name in tensors else None
        if there == file or (there is None and file not in present):
            continue
        where = "no file holds it" if there is None else f"it is in {quoted(there)}"
        said = f"{INDEX} puts {quoted(name)} into {quoted(file)}, which lacks it; {where}"
        problems.append(Problem("index", said, tensor=name, file=file))
    if unlisted := [name for name in tensors if name not in places]:
        said = f"{INDEX} does not list {listed(unlisted[:3])} ({len(unlisted):,} in all)"
        problems.append(Problem("index", said, severity="warning", file=INDEX))
    return problems


def _without_index(folder: Path, shards: list[str]) -> Weights:
    tensors, problems = _merged(folder, shards)
    said = (
        f"the folder holds {len(shards):,} shard{'s' if len(shards) != 1 else ''} and no {INDEX}, "
        "without which no library finds their tensors: download it too"
    )
    return Weights(tensors, {}, len(shards), (Problem("no-index", said, file=INDEX), *problems))


def _no_weights(folder: Path) -> Problem:
    for name in PICKLES:
        if _is_there(folder, name):
            return Problem(
                "pickle",
                f"{name} is a pickle and is not read: convert it with save_pretrained "
                "(safetensors) to have its tensors checked",
                severity="warning",
                file=name,
            )
    said = (
        f"the folder holds neither {SINGLE} nor {INDEX}: put the tensors beside config.json to "
        "have them checked"
    )
    return Problem("no-weights", said, severity="warning", file=SINGLE)
