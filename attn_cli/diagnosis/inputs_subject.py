"""InputsSubject: somebody's code that is given AttentionInputs, as one of attn's engines is.

A function is given q, k and v. A layer is made to see them: its tokens are unit vectors, so that
the rows of its matrices are the very q, k and v of the tokens, and W_o is the identity. Heads that
it has too few of are asked in turns, and what is left of its heads and of their widths holds zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_cli.core.inputs import AttentionInputs
from attn_cli.core.layer import Projections, merge_heads, split_heads
from attn_cli.core.masks import BoolArray
from attn_cli.diagnosis.answers import Observed
from attn_cli.diagnosis.host.trouble import Trouble
from attn_cli.diagnosis.meaning import ask, own_mask
from attn_cli.diagnosis.plan import HEADED
from attn_cli.diagnosis.subject import Adapted
from attn_cli.errors import UnsupportedError

Array = NDArray[Any]


class CodeFailed(Exception):
    """The code gave no answer to a question that it should be able to answer."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(f"{trouble.kind}: {trouble.message}")
        self.trouble = trouble


@dataclass(frozen=True, slots=True)
class InputsSubject:
    """Code behind a plan, asked by AttentionInputs one (item, head) or one item at a time."""

    code: Adapted

    @property
    def name(self) -> str:
        return self.code.name

    def context(self, inputs: AttentionInputs, dtype: str) -> Array:
        """The context (B, H, L, d_v) in `dtype`.

        Raises UnsupportedError where the code is not meant to compute this (another scale, a mask
        that it cannot be given), CodeFailed where it gives no answer.
        """
        self._check(inputs)
        layered = self.code.plan.intent.weights is not None
        B, H, L, _ = inputs.shape
        out = np.zeros((B, H, L, inputs.v.shape[-1]))
        for b in range(B):
            if layered:
                out[b] = self._of_layer(inputs, b, dtype)
                continue
            for h in range(H):
                out[b, h] = self._of_function(inputs, b, h, dtype)
        return out

    def _of_function(self, inputs: AttentionInputs, b: int, h: int, dtype: str) -> Array:
        """One head's context (L, d_v)."""
        plan = self.code.plan
        layout = plan.call.layouts[0]
        kv = h * inputs.kv_heads // inputs.shape[1]
        given = {"q": inputs.q[b, h], "k": inputs.k[b, kv], "v": inputs.v[b, kv]}
        axes = (1, 1) if layout in HEADED else (1,)
        arrays = {name: a.reshape(*axes, *a.shape) for name, a in given.items()}
        keep = self._keep(inputs, inputs.keep(b)[h])
        question = ask(plan, self.code.parameters, arrays, name="inputs", layout=layout, keep=keep)
        context: Array = _answer(self.code.attend(question, dtype=dtype))[0, 0]
        return context

    def _of_layer(self, inputs: AttentionInputs, b: int, dtype: str) -> Array:
        """One item's context (H, L, d_v), from a layer whose rows are q, k and v."""
        seen = inputs.keep(b)
        _, H, L, _ = inputs.shape
        out = np.zeros((H, L, inputs.v.shape[-1]))
        for heads in self._turns(inputs, seen):
            given = self._given(inputs, b, heads)
            context = self._of_heads(inputs, given, seen[heads[0]], dtype)
            out[heads] = context[: len(heads), :, : out.shape[-1]]
        return out

    def _turns(self, inputs: AttentionInputs, seen: BoolArray) -> Iterator[list[int]]:
        """The heads that are asked at once: they have one mask, and as many places in the layer.

        A layer whose heads share keys is asked all that it has, or one head at a time.
        """
        H, most = inputs.shape[1], self._counts[0]
        alike: dict[bytes, list[int]] = {}
        for head in range(H):
            alike.setdefault(seen[head].tobytes(), []).append(head)
        if self._counts == (H, inputs.kv_heads) and len(alike) == 1:
            yield list(range(H))
            return
        most = 1 if self._counts[0] != self._counts[1] else most
        for heads in alike.values():
            yield from (heads[start : start + most] for start in range(0, len(heads), most))

    def _given(self, inputs: AttentionInputs, b: int, heads: list[int]) -> list[Array]:
        """q, k and v of these heads as the layer has them: (its heads, n, its width)."""
        G, Gkv = self._counts
        shared = [head * inputs.kv_heads // inputs.shape[1] for head in heads]
        if (G, Gkv) == (inputs.shape[1], inputs.kv_heads) and len(heads) == G:
            shared = list(range(Gkv))
        factor = inputs.effective_scale / self._scale(inputs)
        parts = [inputs.q[b, heads] * 2.0 ** round(math.log2(factor))]
        parts += [inputs.k[b, shared], inputs.v[b, shared]]
        return [_placed(a, n, self._width) for a, n in zip(parts, (G, Gkv, Gkv), strict=True)]

    def _of_heads(
        self, inputs: AttentionInputs, given: list[Array], seen: BoolArray, dtype: str
    ) -> Array:
        """The context of all heads of the layer, (heads, L, width)."""
        code, plan = self.code, self.code.plan
        layer = code.parameters.projections
        assert layer is not None
        merged = [merge_heads(a[None])[0] for a in given]
        seeing = Projections(
            w_q=_rows(merged[0], layer.w_q),
            w_k=_rows(merged[1], layer.w_k),
            w_v=_rows(merged[2], layer.w_v),
            w_o=None if layer.w_o is None else np.eye(*layer.w_o.shape),
        )
        there = code.with_projections(seeing)
        unit = {name: np.eye(n, len(layer.w_q))[None] for name, n in self._lengths(inputs).items()}
        keep = self._keep(inputs, seen)
        layout = plan.call.layouts[0]
        question = ask(plan, there.parameters, unit, name="inputs", layout=layout, keep=keep)
        output = _answer(there.attend(question, dtype=dtype))
        code.with_projections(layer)
        heads: Array = split_heads(output, self._counts[0])[0]
        return heads

    @property
    def _counts(self) -> tuple[int, int]:
        """The heads, and the key/value heads, of the layer."""
        intent = self.code.plan.intent
        return intent.heads or 1, intent.kv_heads or intent.heads or 1

    @property
    def _width(self) -> int:
        """The width of a head of the layer."""
        layer = self.code.parameters.projections
        assert layer is not None
        return int(layer.w_q.shape[1] // self._counts[0])

    def _scale(self, inputs: AttentionInputs) -> float:
        """The factor on the scores that the code is meant to have."""
        layered = self.code.parameters.projections is not None
        width = self._width if layered else inputs.q.shape[-1]
        return self.code.plan.intent.scale or 1 / math.sqrt(width)

    def _lengths(self, inputs: AttentionInputs) -> dict[str, int]:
        """Role → how many tokens the layer is given; those of x are all its queries and keys."""
        _, _, L, S = inputs.shape
        roles = [r for r in self.code.plan.call.roles if r in ("x", "context", "q", "k", "v")]
        if roles == ["x"] and L != S:
            raise UnsupportedError("the code has as many keys as queries")
        return {role: L if role in ("x", "q") else S for role in roles}

    def _keep(self, inputs: AttentionInputs, seen: BoolArray) -> BoolArray | None:
        """What the mask argument must say, (1, 1, L, S), so that code and inputs hide the same."""
        plan = self.code.plan
        own = own_mask(plan.intent, *seen.shape)
        if np.array_equal(seen, own):
            return None
        if plan.call.mask is None or plan.call.mask.means == "bias" or (seen & ~own).any():
            raise UnsupportedError("the code cannot be given this mask")
        keep = seen[None, None]
        if "L" not in plan.call.mask.axes:
            if not (seen == seen[:1]).all():
                raise UnsupportedError(f"{plan.call.mask.arg} hides the same keys from all queries")
            keep = keep[:, :, :1]
        return keep

    def _scales(self, inputs: AttentionInputs, *, exactly: bool) -> bool:
        """Whether the code's scale is the inputs', or a power of 2 that q can carry exactly."""
        factor = inputs.effective_scale / self._scale(inputs)
        if exactly or not factor > 0:
            return math.isclose(factor, 1.0, rel_tol=1e-15)
        return math.isclose(factor, 2.0 ** round(math.log2(factor)), rel_tol=1e-15)

    def _check(self, inputs: AttentionInputs) -> None:
        """Raises UnsupportedError where the code is meant to compute something else."""
        intent, parameters = self.code.plan.intent, self.code.parameters
        _, _, L, S = inputs.shape
        layer = parameters.projections
        own_positions = (intent.rope, intent.positions, intent.sink) != (None, None, None)
        matters = {
            "a scale of its own": not self._scales(inputs, exactly=layer is None),
            "a softcap": inputs.softcap != intent.softcap,
            "positions or sinks": own_positions or intent.alibi or inputs.sinks is not None,
            "rotations or biases": inputs.rotation is not None or inputs.has_bias,
            "an additive mask": inputs.additive is not None,
            "other lengths of keys": L != S and not self.code.plan.call.lengths_may_differ,
        }
        if layer is not None:
            finite = all(np.isfinite(a).all() for a in (inputs.q, inputs.k, inputs.v))
            matters["wider heads"] = max(inputs.q.shape[-1], inputs.v.shape[-1]) > self._width
            matters["more tokens than features"] = max(L, S) > min(len(layer.w_q), len(layer.w_k))
            square = layer.w_o is None or layer.w_o.shape[0] == layer.w_o.shape[1]
            matters["an output of another width"] = not square
            # 0 · NaN: through a matrix it would reach every token.
            matters["matrices that are not finite"] = not finite
        elif inputs.q.shape[-1] != inputs.v.shape[-1]:
            matters["values of another width"] = not self.code.plan.call.widths_may_differ
        for what, differs in matters.items():
            if differs:
                raise UnsupportedError(f"the code is not meant for {what}")


def _placed(array: Array, heads: int, width: int) -> Array:
    """(heads, n, width) that begins with `array`, and holds zeros behind it."""
    placed = np.zeros((heads, array.shape[1], width))
    placed[: len(array), :, : array.shape[-1]] = array
    return placed


def _rows(array: Array, like: Array) -> Array:
    """A matrix of the shape of `like` whose first rows are `array`."""
    matrix = np.zeros(like.shape)
    matrix[: len(array)] = array
    return matrix


def _answer(observed: Observed) -> Array:
    if observed.output is None:
        assert observed.trouble is not None
        raise CodeFailed(observed.trouble)
    return observed.output
