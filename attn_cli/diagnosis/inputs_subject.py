"""InputsSubject: somebody's code that is given AttentionInputs, as one of attn's engines is.

A function is given q, k and v. A layer is made to see them: its tokens are unit vectors, so that
the rows of its matrices are the very q, k and v of the tokens, and W_o is the identity. Heads of
one mask are asked together, as many as the code has heads and items for; what is left of its heads
and of their widths holds zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Projections, merge_heads, split_heads
from attn_cli.core.masks import BoolArray
from attn_cli.diagnosis.answers import Observed
from attn_cli.diagnosis.host.trouble import Trouble
from attn_cli.diagnosis.meaning import ask
from attn_cli.diagnosis.placing import Place, place
from attn_cli.diagnosis.plan import HEADED
from attn_cli.diagnosis.subject import Adapted
from attn_cli.errors import UnsupportedError

Array = NDArray[Any]
Pairs = list[tuple[int, int]]  # (item, head) of a question
_LAYOUTS = ("BHLD", "BLHD", "BHDL", "HLD", "BLD", "LBD", "BCHW", "LD")  # the fewest calls first


class CodeFailed(Exception):
    """The code gave no answer to a question that it should be able to answer."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(f"{trouble.kind}: {trouble.message}")
        self.trouble = trouble


@dataclass(frozen=True, slots=True)
class InputsSubject:
    """Code behind a plan, asked by AttentionInputs."""

    code: Adapted

    @property
    def name(self) -> str:
        return self.code.name

    @property
    def width(self) -> int | None:
        """The width of a head of the layer; None where a function takes any."""
        layer = self.code.parameters.projections
        return None if layer is None else int(layer.w_q.shape[1] // self._counts[0])

    def context(self, inputs: AttentionInputs, dtype: str) -> Array:
        """The context (B, H, L, d_v) in `dtype`.

        Raises UnsupportedError where the code is not meant to compute this (another scale, a mask
        that it cannot be given), CodeFailed where it gives no answer.
        """
        self._check(inputs)
        B, H, L, _ = inputs.shape
        out = np.zeros((B, H, L, inputs.v.shape[-1]))
        alike = _alike(inputs)
        places = [place(self.code.plan, seen) for seen, _ in alike]
        ask_some = self._of_function if self.width is None else self._of_layer
        layer = self.code.parameters.projections
        try:
            for (_, pairs), there in zip(alike, places, strict=True):
                for some in self._turns(inputs, pairs, there):
                    context = ask_some(inputs, some, there, dtype)
                    start = there.starts[0]
                    rows = context[: len(some), start : start + L, : out.shape[-1]]
                    out[tuple(np.transpose(some))] = rows
        finally:
            if layer is not None:
                self.code.with_projections(layer)
        return out

    def _turns(self, inputs: AttentionInputs, pairs: Pairs, there: Place) -> Iterator[Pairs]:
        """The pairs that are asked at once: as many as the code has heads and items for."""
        layout, each = self._layout, self._each(inputs, pairs)
        most = 1 if layout == "LD" else len(pairs)
        if (layer := self.code.parameters.projections) is not None:
            items = len(layer.w_q) // there.lengths[0], len(layer.w_k) // there.lengths[1]
            if not min(items):
                raise UnsupportedError("the code is not meant for more tokens than features")
            most = each if layout == "LD" else each * min(items)
        yield from (pairs[start : start + most] for start in range(0, len(pairs), most))

    def _each(self, inputs: AttentionInputs, pairs: Pairs) -> int:
        """How many heads of the question one item of the code has; its heads that share keys can
        have those of a question that share as many, or one alone."""
        heads, kv_heads = self._counts
        if heads == kv_heads:
            return heads
        whole = len(pairs) % inputs.shape[1] == 0 and len({b for b, _ in pairs}) * heads == len(
            pairs
        )
        return heads if (heads, kv_heads) == (inputs.shape[1], inputs.kv_heads) and whole else 1

    def _of_function(
        self, inputs: AttentionInputs, pairs: Pairs, there: Place, dtype: str
    ) -> Array:
        """The contexts of these heads, (n, L, d_v)."""
        plan, layout = self.code.plan, self._layout
        q, k, v = _heads(inputs, pairs, there)
        if not plan.call.widths_may_differ:
            v = _wider(v, q.shape[-1])
        given = {"q": q, "k": k, "v": v}
        if layout == "HLD":
            given = {name: array[None] for name, array in given.items()}
        elif layout in HEADED:
            B, H = inputs.shape[:2] if len(pairs) == math.prod(inputs.shape[:2]) else (-1, 1)
            given = {name: a.reshape(B, H, *a.shape[1:]) for name, a in given.items()}
        else:
            each = self._each(inputs, pairs)
            counts = zip(given, (self._counts[0], *[self._counts[1]] * 2), strict=True)
            given = {
                name: merge_heads(_in_items(given[name], each, count)) for name, count in counts
            }
        question = ask(
            plan, self.code.parameters, given, name="inputs", layout=layout, keep=there.keep
        )
        output = _answer(self.code.attend(question, dtype=dtype))
        if layout not in HEADED:
            output = output[:, : self._each(inputs, pairs)]
        return output.reshape(-1, *output.shape[-2:])

    def _of_layer(self, inputs: AttentionInputs, pairs: Pairs, there: Place, dtype: str) -> Array:
        """The same from a layer whose rows are q, k and v."""
        code, plan = self.code, self.code.plan
        layer, width = code.parameters.projections, self.width
        assert layer is not None
        assert width is not None
        q, k, v = _heads(inputs, pairs, there)
        q = q * 2.0 ** round(math.log2(inputs.effective_scale / self._scale(inputs)))
        each, (heads, kv_heads) = self._each(inputs, pairs), self._counts
        if each > 1 and heads != kv_heads:  # of the heads that share a key, the first one's
            k, v = (a[:: heads // kv_heads] for a in (k, v))
        rows = [
            merge_heads(_in_items(_wider(array, width), min(each, count), count))
            for array, count in zip((q, k, v), (heads, kv_heads, kv_heads), strict=True)
        ]
        seeing = Projections(
            w_q=_matrix(rows[0], layer.w_q),
            w_k=_matrix(rows[1], layer.w_k),
            w_v=_matrix(rows[2], layer.w_v),
            w_o=None if layer.w_o is None else np.eye(*layer.w_o.shape),
        )
        asked = code.with_projections(seeing)
        unit = {
            role: np.eye(len(rows[0]) * n, len(matrix)).reshape(len(rows[0]), n, -1)
            for role, n, matrix in self._tokens(there, layer)
        }
        question = ask(
            plan, asked.parameters, unit, name="inputs", layout=self._layout, keep=there.keep
        )
        output = split_heads(_answer(asked.attend(question, dtype=dtype)), heads)[:, :each]
        return output.reshape(-1, *output.shape[-2:])

    def _tokens(self, there: Place, layer: Projections) -> Iterator[tuple[str, int, Array]]:
        """The roles of tokens that the layer is given, how many each, and the matrix behind."""
        behind = {"x": (0, layer.w_q), "q": (0, layer.w_q), "context": (1, layer.w_k)}
        behind |= {"k": (1, layer.w_k), "v": (1, layer.w_v)}
        for role in self.code.plan.call.roles:
            if role in behind:
                which, matrix = behind[role]
                yield role, there.lengths[which], matrix

    @property
    def _layout(self) -> str:
        """The layout that takes the most at once."""
        return min(self.code.plan.call.layouts, key=_LAYOUTS.index)

    @property
    def _counts(self) -> tuple[int, int]:
        """The heads, and the key/value heads, of an item of the code."""
        intent = self.code.plan.intent
        return intent.heads or 1, intent.kv_heads or intent.heads or 1

    def _scale(self, inputs: AttentionInputs) -> float:
        """The factor on the scores that the code is meant to have."""
        width = self.width or inputs.q.shape[-1]
        return self.code.plan.intent.scale or 1 / math.sqrt(width)

    def _scales(self, inputs: AttentionInputs, *, exactly: bool) -> bool:
        """Whether the code's scale is the inputs', or a power of 2 that q can carry exactly."""
        factor = inputs.effective_scale / self._scale(inputs)
        if exactly or not factor > 0:
            return math.isclose(factor, 1.0, rel_tol=1e-15)
        return math.isclose(factor, 2.0 ** round(math.log2(factor)), rel_tol=1e-15)

    def _check(self, inputs: AttentionInputs) -> None:
        """Raises UnsupportedError where the code is meant to compute something else."""
        intent, width = self.code.plan.intent, self.width
        layer = self.code.parameters.projections
        own_positions = (intent.rope, intent.positions, intent.sink) != (None, None, None)
        matters = {
            "a scale of its own": not self._scales(inputs, exactly=layer is None),
            "a softcap": inputs.softcap != intent.softcap,
            "positions or sinks": own_positions or intent.alibi or inputs.sinks is not None,
            "rotations or biases": inputs.rotation is not None or inputs.has_bias,
            "an additive mask": inputs.additive is not None,
        }
        if layer is not None:
            assert width is not None
            finite = all(np.isfinite(a).all() for a in (inputs.q, inputs.k, inputs.v))
            matters["wider heads"] = max(inputs.q.shape[-1], inputs.v.shape[-1]) > width
            square = layer.w_o is None or layer.w_o.shape[0] == layer.w_o.shape[1]
            matters["an output of another width"] = not square
            # 0 · NaN: through a matrix it would reach every token.
            matters["matrices that are not finite"] = not finite
        elif inputs.q.shape[-1] < inputs.v.shape[-1]:
            matters["values of another width"] = not self.code.plan.call.widths_may_differ
        for what, differs in matters.items():
            if differs:
                raise UnsupportedError(f"the code is not meant for {what}")


def _alike(inputs: AttentionInputs) -> list[tuple[BoolArray, Pairs]]:
    """The heads of all items by what their queries see, (L, S)."""
    B, H, _, _ = inputs.shape
    found: dict[bytes, tuple[BoolArray, Pairs]] = {}
    for b in range(B):
        for h, seen in enumerate(inputs.keep(b)[:H]):
            found.setdefault(seen.tobytes(), (seen, []))[1].append((b, h))
    return list(found.values())


def _heads(
    inputs: AttentionInputs, pairs: Sequence[tuple[int, int]], there: Place
) -> tuple[Array, Array, Array]:
    """q, k and v of these heads, (n, tokens, width), with zeros where no token of theirs stands."""
    items, heads = np.transpose(pairs)
    shared = heads * inputs.kv_heads // inputs.shape[1]
    (L, S), (first, start) = there.lengths, there.starts
    q = _among(inputs.q[items, heads], L, first)
    return (
        q,
        _among(inputs.k[items, shared], S, start),
        _among(inputs.v[items, shared], S, start),
    )


def _among(array: Array, count: int, start: int) -> Array:
    """(n, count, width) in which the tokens of `array` stand from `start` on."""
    among = np.zeros((len(array), count, array.shape[-1]))
    among[:, start : start + array.shape[1]] = array
    return among


def _wider(array: Array, width: int) -> Array:
    """The array with zeros behind its last axis, up to `width`."""
    wider = np.zeros((*array.shape[:-1], width))
    wider[..., : array.shape[-1]] = array
    return wider


def _in_items(array: Array, each: int, heads: int) -> Array:
    """(n, tokens, width) as items of `heads` heads, of which the first `each` hold them."""
    items = -(-len(array) // each)
    filled = np.zeros((items * each, *array.shape[1:]))
    filled[: len(array)] = array
    placed = np.zeros((items, heads, *array.shape[1:]))
    placed[:, :each] = filled.reshape(items, each, *array.shape[1:])
    return placed


def _matrix(rows: Array, like: Array) -> Array:
    """A matrix of the shape of `like` whose first rows are the tokens of all items."""
    matrix = np.zeros(like.shape)
    matrix[: rows.shape[0] * rows.shape[1]] = rows.reshape(-1, rows.shape[-1])
    return matrix


def _answer(observed: Observed) -> Array:
    if observed.output is None:
        assert observed.trouble is not None
        raise CodeFailed(observed.trouble)
    return observed.output
