"""Family: how one kind of model calls its layers, its projections and its settings, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from attn_cli.core.geometry import Kind
from attn_cli.models.checkpoint.fields import Fields
from attn_cli.models.checkpoint.sizes import Size

Flag = bool | str  # a fact, or the name of a true-or-false field
TEXT = r"^(?!.*(vision|visual|image|audio|vit\b)).*$"  # a prefix that is of no other tower
ANYWHERE = r""


@dataclass(frozen=True, slots=True)
class At:
    """One layer as a rule sees it: which of how many, its word, the width of its head."""

    fields: Fields
    index: int
    count: int
    word: str = "attention"
    d_k: int = 0


Sized = Callable[[Fields], Size | None]
Whole = Callable[[At], int | None]
Real = Callable[[At], float | None]
Word = Callable[[At], str | None]


def no_number(at: At) -> None:
    """The rule of a setting that a family does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The tensors of one attention module, by their names below the layer.

    Separate matrices `q`, `k`, `v`, or one `qkv` for the three, or `latent` (MLA). Matrices are
    (out, in) as nn.Linear keeps them, or (in, out) where `conv1d`. `bias` maps letters of q, k, v,
    o to whether they have one, `also` other tensors to their shapes in attn's words, such as
    {"q_norm.weight": "d_k", "sinks": "heads"}; `also_if` says when they are there. `ignored` are
    patterns of tensors in the module that are not held against anything.
    """

    module: str = "self_attn"
    q: str = "q_proj"
    k: str = "k_proj"
    v: str = "v_proj"
    o: str | None = "o_proj"
    qkv: str | None = None
    latent: bool = False
    gated: bool = False  # q_proj also makes a gate of the same width
    conv1d: bool = False
    cross: bool = False
    bias: Mapping[str, Flag] = field(default_factory=dict)
    bias_name: Mapping[str, str] = field(default_factory=dict)  # where it is no "{name}.bias"
    also: Mapping[str, str] = field(default_factory=dict)
    also_if: Flag = True
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mixer:
    """What mixes tokens in a layer whose configuration calls it by some word, and its module."""

    kind: Kind
    says: str
    module: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One tower of like layers.

    `layers` is the path of a layer with {} for its number, `within` a pattern that the path before
    it must match. `words` renames sizes (Fields), `mixers` the words of layers that are no softmax
    attention. The rules give a setting for a layer; see `rules`.
    """

    layers: str = "layers.{}"
    attention: tuple[Attention, ...] = (Attention(),)
    name: str = ""
    within: str = TEXT
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mixers: Mapping[str, Mixer] = field(default_factory=dict)
    kinds: Word = lambda at: "attention"
    both: Mixer | None = None  # a second mixer beside attention in every layer
    number: Callable[[Fields, int], int] = lambda fields, index: index  # where layers share weights
    causal: Flag = True
    kv_heads: Sized | None = None
    d_k: Sized | None = None
    d_v: Sized | None = None
    window: Whole = no_number
    chunk: Whole = no_number
    scale: Real = no_number
    softcap: Real = no_number
    sinks: Flag = False
    positions: Word = lambda at: "rope"
    d_model: Sized | None = None
    extra_layers: str = (
        ""  # the field that counts layers behind the last, of multi-token prediction
    )
    counted_by: tuple[str, ...] = ()  # lists of one entry a layer, where no field counts them
    optional: bool = False  # a tower that a checkpoint may be without


@dataclass(frozen=True, slots=True)
class Family:
    """The towers of a model."""

    stacks: tuple[Stack, ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """A model of models: the configuration's part → (name of the tower, pattern, model_type).

    The model_type is what the part is where it does not say.
    """

    parts: Mapping[str, tuple[str, str, str]]
