"""Plan: how somebody's code is built and called, and what it is meant to compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "attn.plan/1"

KINDS = ("function", "module", "object")
LIBRARIES = ("torch", "numpy", "list")
DTYPES = ("bool", "int", "float")
LAYOUTS = ("LD", "BLD", "LBD", "HLD", "BHLD", "BLHD", "BHDL", "BCHW")
HEADED = ("HLD", "BHLD", "BLHD", "BHDL")  # layouts that have an axis of heads

INPUTS = ("q", "k", "v", "x", "context", "positions", "w_q", "w_k", "w_v", "w_o")
RETURNS = ("out", "weights", "weights_mean", "weights_folded", "scores", "cache", "other")

# What the arguments of a mask may look like: its axes, and what its numbers say. B items, H heads,
# T tokens; Tq queries and Tk keys where they may differ.
MASK_KINDS: Mapping[str, tuple[str, str]] = {
    "keep_pair": ("LS", "keep"),
    "drop_pair": ("LS", "hidden"),
    "additive_pair": ("LS", "additive"),
    "bias_pair": ("HLS", "bias"),
    "keep_pad": ("BS", "keep"),
    "keep_pad_left": ("BS", "keep"),
    "drop_pad": ("BS", "hidden"),
    "additive_pad": ("BS", "additive"),
    "keep_pad_b11": ("B11S", "keep"),
    "drop_pad_b11": ("B11S", "hidden"),
    "additive_pad_b11": ("B11S", "additive"),
    "keep_btt": ("BLS", "keep"),
    "drop_btt": ("BLS", "hidden"),
    "additive_btt": ("BLS", "additive"),
    "keep_tt": ("LS", "keep"),
    "drop_tt": ("LS", "hidden"),
    "additive_tt": ("LS", "additive"),
    "keep_pair_b1": ("B1LS", "keep"),
    "drop_pair_b1": ("B1LS", "hidden"),
    "additive_b1tt": ("B1LS", "additive"),
    "bias_1htt": ("1HLS", "bias"),
    "bias_tt": ("LS", "bias"),
}

# Where the matrices of a layer are: the names each way needs, and those it may have.
WEIGHT_TYPES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "separate": (("q", "k", "v"), ("o",)),
    "fused": (("qkv",), ("o",)),
    "fused_conv1d": (("qkv",), ("o",)),
    "fused_by_head": (("qkv",), ("o",)),  # q, k and v of each head in turn
    "in_proj": (("w",), ("b", "o")),
    "kv_fused": (("q", "kv"), ("o",)),
    "mha": (("attr",), ()),
    "head_modules": (("list", "q", "k", "v"), ("o",)),
    "head_tensors": (("q", "k", "v"), ("o", "bq", "bk", "bv", "bo")),
    "conv2d_fused": (("qkv",), ("o",)),
    "numpy_attrs": (("q", "k", "v"), ("o", "bq", "bk", "bv", "bo")),
    "linear_attrs": (("q", "k", "v"), ("o", "bq", "bk", "bv", "bo")),
    "arguments": ((), ()),
}

ROPE_LAYOUTS = ("half", "interleaved")
ALIGNMENTS = ("lower-right", "upper-left")
SINUSOIDAL = "sinusoidal"


@dataclass(frozen=True, slots=True)
class Init:
    """How the code is built: arguments, or one configuration object.

    The object is an attribute of the file (`config_attr`), or an instance of one of its classes
    (`config_class`; "SimpleNamespace" where the file has none) with the fields of `config`.
    """

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    config_class: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    config_attr: str | None = None


@dataclass(frozen=True, slots=True)
class MaskSpec:
    """The argument that takes a mask: its name, a kind of MASK_KINDS, a dtype of DTYPES.

    `required`: the code cannot be called without it, and gets one that hides nothing.
    """

    arg: str
    kind: str
    dtype: str
    required: bool = False

    @property
    def axes(self) -> str:
        """The letters of its axes: BS for (batch, key), B1LS for (batch, 1, query, key), …"""
        return MASK_KINDS[self.kind][0]

    @property
    def means(self) -> str:
        """What its numbers say: keep, hidden, additive (0 or −inf) or bias (any number)."""
        return MASK_KINDS[self.kind][1]


@dataclass(frozen=True, slots=True)
class Call:
    """How the code is called.

    `inputs` are the arguments in order: a positional one by what it is, a keyword as
    "name=what". `layouts` are those it takes, of LAYOUTS. `returns` says what comes back, in
    order; `keys` the names where it is a dict or an object. `constants` are further keyword
    arguments. `dim` is the width of a token vector; `widths_may_differ` says whether v may be of
    another width than q and k, None where nobody knows.
    """

    kind: str
    lib: str
    inputs: tuple[str, ...]
    layouts: tuple[str, ...]
    lengths_may_differ: bool
    mask: MaskSpec | None
    returns: tuple[str, ...]
    keys: tuple[str, ...] | None = None
    init: Init | None = None
    dim: int | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    widths_may_differ: bool | None = None

    @property
    def roles(self) -> tuple[str, ...]:
        """What each input is, without the names of keywords."""
        return tuple(entry.rpartition("=")[2] for entry in self.inputs)

    @property
    def separate(self) -> bool:
        """Whether q, k and v are given one by one rather than as token vectors."""
        return "q" in self.roles


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions that the code applies: `layout` pairs features as in attn_cli.positions."""

    base: float = 10_000.0
    layout: str = "half"


@dataclass(frozen=True, slots=True)
class WeightsSpec:
    """Where the projections are: a type of WEIGHT_TYPES and the dotted name of each part."""

    type: str
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Intent:
    """What the code is meant to compute: None where a thing is not meant to happen.

    `scale` None is 1/√head_dim. `causal` is lower-right where there are more keys than queries,
    unless `align` is "upper-left"; with `window` w a query sees exactly w keys, its own included
    (|q − k| < w without `causal`); `mask` is an expression of `attn mask` for anything else that is
    hidden, the same for every item and head. `sink` and `positions` name the attributes with one
    logit a head and with the table that is added to x ("sinusoidal": the paper's); `cache_arg` the
    argument that takes the cache back.
    """

    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    causal: bool = False
    scale: float | None = None
    rope: Rope | None = None
    window: int | None = None
    softcap: float | None = None
    alibi: bool = False
    sink: str | None = None
    positions: str | None = None
    weights: WeightsSpec | None = None
    context_dim: int | None = None
    dropout: float | None = None
    cache_arg: str | None = None
    align: str | None = None
    mask: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done with the code (`call`) and what is right (`intent`)."""

    call: Call
    intent: Intent
