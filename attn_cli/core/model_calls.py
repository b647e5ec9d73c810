"""Model calls: what is said of every attention call of a model's forward, without its arrays."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from attn_cli.core.compare import Verdict

How = Literal["interface", "sdpa", "softmax"]
_TOWER = re.compile(
    r"(?:^|[._])(?:vision|visual|image|img|video|audio|pixel|qformer|resampler|abstractor|vqmodel"
    r"|projector|connector)(?=[._]|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, order=True)
class CallPlace:
    """Which attention call of a forward; the key of everything that is said of it.

    `path` is the module's path, `turn` how often that module had run before in this forward (layers
    may share one module), `piece` which call within one run of the module (a tower of pictures may
    call once a picture). All count from 0.

    >>> str(CallPlace("encoder.attention", turn=3))
    'encoder.attention#3'
    """

    path: str
    turn: int = 0
    piece: int = 0

    @property
    def tower(self) -> bool:
        """Whether the module is of a tower beside the text's, by the words of its path.

        >>> CallPlace("model.vision_tower.layers.0.self_attn").tower
        True
        """
        return bool(_TOWER.search(self.path))

    def __str__(self) -> str:
        piece = f".{self.piece}" if self.piece else ""
        return f"{self.path}#{self.turn}{piece}" if self.turn or piece else self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskFacts:
    """The mask as it was given: `kind` "bool" (True = may attend) or "additive".

    `fill` is the most negative number that is added (−inf, finfo.min, …); None for a boolean one.
    `shape` is the tensor's own. `hidden` is the share of the pairs that it hides (≤ −1e4 counts).
    """

    kind: Literal["bool", "additive"]
    shape: tuple[int, ...]
    dtype: str
    fill: float | None
    hidden: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "fill": self.fill,
            "hidden": self.hidden,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """One attention call.

    `how` it was seen: at the attention interface of transformers, at PyTorch's
    scaled_dot_product_attention, or at a softmax (then q, k and v are unknown, and so are `d_k` and
    `kv_heads`). `backend` computed the output. `order` counts calls as they ran; `layer` counts the
    layers of one `stack` ("" or, where there are several towers, the path before the number).
    `q_offset` is the position of query 0 among the keys, None for cross-attention. `causal`: the
    backend hides k > q by itself, counted from the upper left, and there is no mask. `window` is
    the number that the model passes along; its mask does the hiding. `softmax_dtype` is the
    precision in which the softmax ran; "kernel" inside scaled_dot_product_attention, which keeps
    its sums in float32 or wider. `kwargs` are arguments that came along and change no number.
    """

    place: CallPlace
    order: int
    stack: str
    layer: int
    how: How
    backend: str
    module_class: str
    layer_type: str | None
    cross: bool
    batch: int
    heads: int
    kv_heads: int | None
    queries: int
    keys: int
    d_k: int | None
    d_v: int | None
    q_offset: int | None
    causal: bool
    mask: MaskFacts | None
    window: int | None
    scaling: float | None
    softcap: float | None
    sinks: bool
    position_bias: bool
    softmax_dtype: str
    kwargs: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        names = [name for name in self.__slots__ if name not in ("place", "mask", "kwargs")]
        return {
            "path": self.place.path,
            "turn": self.place.turn,
            "piece": self.place.piece,
            **{name: getattr(self, name) for name in names},
            "mask": None if self.mask is None else self.mask.to_dict(),
            "kwargs": list(self.kwargs),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCoverage:
    """One layer of a stack: the attention calls seen in it, or what mixes its tokens instead."""

    path: str
    stack: str
    layer: int
    places: tuple[CallPlace, ...]
    says: str

    @property
    def softmax(self) -> bool:
        """Whether the layer is softmax attention that was seen."""
        return bool(self.places)

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "stack": self.stack,
            "layer": self.layer,
            "softmax": self.softmax,
            "says": self.says,
            "calls": [str(place) for place in self.places],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCoverage:
    """What of a model was seen: `sentence` says it first, `precision` of the softmax second.

    `elsewhere` are the modules whose softmax is taken for no attention, such as a router's;
    `unread` those of attention in chunks or bands, whose weights are not shown.
    """

    layers: tuple[LayerCoverage, ...]
    calls: tuple[CallFacts, ...]
    elsewhere: tuple[str, ...]
    unread: tuple[str, ...]
    sentence: str
    precision: str

    def call(self, place: CallPlace) -> CallFacts:
        """The facts of one call; KeyError where there was none."""
        return {facts.place: facts for facts in self.calls}[place]

    def to_dict(self) -> dict[str, Any]:
        return {
            "sentence": self.sentence,
            "precision": self.precision,
            "layers": [layer.to_dict() for layer in self.layers],
            "calls": [facts.to_dict() for facts in self.calls],
            "elsewhere": list(self.elsewhere),
            "unread": list(self.unread),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCheck:
    """The captured model's outputs against those of the same model left alone.

    `max_abs` is the largest difference, `limit` what counts as rounding, `output` the name of the
    output where the difference is largest, with its index `where`.
    """

    verdict: Verdict
    max_abs: float
    limit: float
    output: str
    where: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "max_abs": self.max_abs,
            "limit": self.limit,
            "output": self.output,
            "where": list(self.where),
        }
