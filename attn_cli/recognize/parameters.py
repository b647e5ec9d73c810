"""Parameters: which arrays of a file are the matrices and biases of one attention layer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from attn_cli.core.dump import Dump
from attn_cli.core.names import looks_like_parameter
from attn_cli.errors import InputError
from attn_cli.recognize.listing import fit_to_print, some

Array = NDArray[Any]
Part = Literal["q", "k", "v", "qkv", "kv", "o"]
Kind = Literal["weight", "bias"]

# What the modules are called. A name is read without its case and underscores.
MODULES: Mapping[Part, tuple[str, ...]] = {
    "q": ("q", "w_q", "q_proj", "query", "to_q", "q_lin", "query_proj", "linear_q", "attn_q"),
    "k": ("k", "w_k", "k_proj", "key", "to_k", "k_lin", "key_proj", "linear_k", "attn_k"),
    "v": ("v", "w_v", "v_proj", "value", "to_v", "v_lin", "value_proj", "linear_v", "attn_v"),
    "qkv": ("qkv", "w_qkv", "qkv_proj", "c_attn", "in_proj", "to_qkv", "attn_qkv"),
    "kv": ("kv", "w_kv", "kv_proj", "to_kv"),
    "o": (
        "o",
        "w_o",
        "o_proj",
        "out_proj",
        "out",
        "to_out",
        "c_proj",
        "proj",
        "dense",
        "out_lin",
        "w_out",
        "linear_out",
        "attn_output",
    ),
}
# Without ".weight" behind it a name must be unmistakable: q, key or out may be activations.
BARE: Mapping[Kind, str] = {"weight": "w", "bias": "b"}
BARE_MODULE = re.compile(r"(q|k|v|o|out|qkv|kv|in)_?proj|to_(q|k|v|qkv|kv|out)|c_attn|[qkv]_lin")
# Fused, but not in one order: GPT-NeoX and BLOOM go head by head, others matrix by matrix.
UNTOLD = frozenset({"querykeyvalue"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One array of a layer: `part`, weight or bias, the modules before it, its name in the file."""

    part: Part
    kind: Kind
    prefix: str
    name: str


@dataclass(frozen=True, slots=True)
class Parameters:
    """The arrays of one attention layer, by the file's names; `beside` are others of its module."""

    dump: Dump
    weights: Mapping[Part, str]
    biases: Mapping[Part, str]
    beside: tuple[str, ...] = ()

    def label(self, part: Part, kind: Kind = "weight") -> str:
        """How a message names the array."""
        return fit_to_print(self._names(kind)[part])

    def array(self, part: Part, kind: Kind = "weight") -> Array:
        return self.dump.arrays[self._names(kind)[part]]

    def dtype(self, part: Part, kind: Kind = "weight") -> str:
        """The precision in the file."""
        return self.dump.dtypes[self._names(kind)[part]]

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.weights.values(), *self.biases.values())

    def _names(self, kind: Kind) -> Mapping[Part, str]:
        return self.weights if kind == "weight" else self.biases


def find_parameters(dump: Dump) -> Parameters | None:
    """The attention layer that the file holds; None where there are no matrices for q, k or v.

    Raises InputError, naming the arrays, where it holds several layers, a matrix twice, some of
    the three only, or one whose order is not told by its name.
    """
    known = list(_known(dump))
    core = [found for found in known if found.part != "o" and found.kind == "weight"]
    _check_order_told(dump)
    if not core:
        return None
    prefix = _one_prefix(core)
    mine = [found for found in known if _belongs(found, prefix)]
    parameters = Parameters(
        dump=dump,
        weights=_by_part(mine, "weight"),
        biases=_by_part(mine, "bias"),
        beside=tuple(_beside(dump, prefix, {found.name for found in mine})),
    )
    _check_parts(parameters)
    return parameters


def parameter(name: str) -> Parameter | None:
    """What a name says, whatever stands before it; None where it is no parameter of attention.

    >>> parameter("h.0.attn.c_attn.weight")
    Parameter(part='qkv', kind='weight', prefix='h.0.attn', name='h.0.attn.c_attn.weight')
    >>> parameter("W_Q").part, parameter("bq").kind, parameter("to_out.0.bias").part
    ('q', 'bias', 'o')
    >>> parameter("query"), parameter("mlp.fc1.weight")
    (None, None)
    """
    parts = _parts(name)
    kind, module, used = _module(parts)
    if kind is None:
        return None
    for part, modules in MODULES.items():
        if module in map(_plain, modules):
            return Parameter(part, kind, ".".join(parts[:-used]), name)
    return None


def _known(dump: Dump) -> Iterator[Parameter]:
    for name, array in dump.arrays.items():
        found = parameter(name)
        # q_proj alone may be what the module returned as well: that is no matrix.
        lone = BARE_MODULE.fullmatch(_parts(name)[-1].lower()) is not None
        if found is not None and (array.ndim == 2 or not lone):
            yield found


def _check_order_told(dump: Dump) -> None:
    for name in filter(looks_like_parameter, dump.arrays):
        if UNTOLD.intersection(map(_plain, _parts(name))):
            raise InputError(
                f"{fit_to_print(name)} holds q, k and v in an order that its name does not tell",
                hint="give them as q_proj.weight, k_proj.weight and v_proj.weight",
            )


def _module(parts: Sequence[str]) -> tuple[Kind | None, str, int]:
    """Weight or bias, the module's plain name, and how many parts of the name say so."""
    *before, last = parts
    kind = last.lower()
    if kind in ("weight", "bias") and before:
        module, used = before[-1], 2
        if module.isdigit() and len(before) > 1:  # to_out.0.weight: the first of a sequence
            module, used = before[-2], 3
        return ("weight" if kind == "weight" else "bias"), _plain(module), used
    suffixed = re.fullmatch(r"(.+)_(weight|bias)", last, re.IGNORECASE)
    if suffixed:
        return ("weight" if suffixed[2].lower() == "weight" else "bias"), _plain(suffixed[1]), 1
    for bare, letter in BARE.items():
        found = re.fullmatch(letter + r"_?(q|k|v|o|qkv|kv)", last, re.IGNORECASE)
        if found:
            return bare, "w" + found[1].lower(), 1
    whole = BARE_MODULE.fullmatch(last.lower())
    return ("weight" if whole else None), _plain(last), 1


def _belongs(found: Parameter, prefix: str) -> bool:
    """Whether it is of the layer: BERT keeps the output beside `self`, in `output`."""
    if found.prefix == prefix:
        return True
    above = prefix.rpartition(".")[0]
    return found.part == "o" and found.prefix == (f"{above}.output" if above else "output")


def _one_prefix(core: Sequence[Parameter]) -> str:
    prefixes = list(dict.fromkeys(found.prefix for found in core))
    if len(prefixes) > 1:
        raise InputError(
            f"these are the projections of {len(prefixes)} layers or modules "
            f"({some(prefix or 'no prefix' for prefix in prefixes)}): expected those of one",
            hint="give a file with the arrays of one of them",
        )
    return prefixes[0]


def _by_part(mine: Iterable[Parameter], kind: Kind) -> dict[Part, str]:
    named: dict[Part, str] = {}
    for found in mine:
        if found.kind != kind:
            continue
        if found.part in named:
            raise InputError(
                f"{fit_to_print(named[found.part])!r} and {fit_to_print(found.name)!r} both are "
                f"the {kind} of {found.part}",
                hint="give one of them",
            )
        named[found.part] = found.name
    return named


def _check_parts(parameters: Parameters) -> None:
    there = parameters.weights
    for letter in "qkv":
        holding = [part for part in there if letter in part]
        if len(holding) > 1:
            names = " and ".join(parameters.label(part) for part in holding)
            raise InputError(f"{names} both make {letter}", hint="give one of them")
    made = "".join(there)
    missing = [f"W_{letter}" for letter in "qkv" if letter not in made]
    if missing:
        here = some(there.values())
        raise InputError(
            f"the weights have {here} but no {' and no '.join(missing)}: a layer needs W_q, W_k "
            "and W_v",
            hint="or one fused matrix for all three",
        )


def _beside(dump: Dump, prefix: str, mine: set[str]) -> Iterator[str]:
    """Parameters of the same module that are not read: q_norm, sinks, a causal buffer."""
    for name in dump.arrays:
        if prefix:
            inside = ".".join(_parts(name)).startswith(f"{prefix}.")
        else:
            inside = looks_like_parameter(name) and len(_parts(name)) <= 2
        if inside and name not in mine:
            yield name


def _parts(name: str) -> list[str]:
    return re.split(r"[./:]", name)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()
