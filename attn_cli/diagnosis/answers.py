"""Answers: what the code returned, brought into attn's layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attn_cli.diagnosis.arguments import rectangle, swapped
from attn_cli.diagnosis.host.trouble import Trouble, trouble_of
from attn_cli.diagnosis.plan import Call, Plan
from attn_cli.diagnosis.question import Question

Array = NDArray[Any]
WeightsKind = Literal["heads", "mean"]


class Misfit(Exception):
    """What came back is not what the plan says; the message says both.

    `kind` is "shape" where an array came, of another shape, else "answer".
    """

    def __init__(self, message: str, kind: str = "answer") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """What came of one question.

    `output` has the shape of the reference's `question.stage`: (B, H, L, d_v) or (B, L, d);
    `weights` and `scores` are (B, H, L, S), or (B, 1, L, S) where `weights_kind` says that they are
    the mean over the heads. `dtype` is that of the output as it came. `repeats` are the outputs of
    further calls with the same arguments. `mutated` names the arguments whose numbers the code
    changed. With a `trouble` there is no output. `misfit` says that the weights or the scores have
    another shape than a map; they are then left out.
    """

    output: Array | None = None
    weights: Array | None = None
    weights_kind: WeightsKind = "heads"
    scores: Array | None = None
    dtype: str = ""
    repeats: tuple[Array, ...] = ()
    trouble: Trouble | None = None
    misfit: str = ""
    printed: str = ""
    mutated: tuple[str, ...] = ()
    seconds: float = 0.0


def observe(plan: Plan, question: Question, answer: dict[str, Any], index: int = -1) -> Observed:
    """The worker's answer to a call, as an Observed. `index` picks one call of several."""
    printed = str(answer.get("printed", ""))
    if "trouble" in answer:
        return Observed(trouble=trouble_of(answer), printed=printed)
    call = answer["ok"][index]
    try:
        first, *others = [_joined(plan, question, steps) for steps in call["repeats"]]
    except Misfit as error:
        trouble = Trouble("answer", error.kind, str(error))
        return Observed(trouble=trouble, printed=printed, seconds=call["seconds"])
    return replace(
        first,
        repeats=tuple(other.output for other in others if other.output is not None),
        printed=printed,
        mutated=_roles(plan, call["mutated"]),
        seconds=call["seconds"],
    )


def _joined(plan: Plan, question: Question, steps: list[dict[str, Any]]) -> Observed:
    """One run: its steps' outputs one after the other; weights and scores of a single step only."""
    parts = [_parts(plan.call, result) for result in steps]
    lengths = question.steps or (question.shape[2],)
    outputs = [
        _output(plan, question, part["out"], n) for part, n in zip(parts, lengths, strict=True)
    ]
    dtype = str(parts[0]["out"]["dtype"])
    observed = Observed(output=np.concatenate(outputs, axis=-2), dtype=dtype)
    if len(parts) > 1:
        return observed
    return _with_maps(observed, parts[0], question)


def _with_maps(observed: Observed, part: dict[str, Any], question: Question) -> Observed:
    """The weights and the scores, where they came and have the shape of a map."""
    for name in ("weights", "weights_mean", "weights_folded", "scores"):
        if name not in part:
            continue
        try:
            array = _map(part[name], question, name)
        except Misfit as error:
            observed = replace(observed, misfit=str(error))
            continue
        if name == "scores":
            observed = replace(observed, scores=array)
        else:
            kind: WeightsKind = "mean" if name == "weights_mean" else "heads"
            observed = replace(observed, weights=array, weights_kind=kind)
    return observed


def _parts(call: Call, result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What was returned, by the words of the plan."""
    if call.keys is not None:
        if result["t"] != "dict":
            raise Misfit(f"it returned {words(result)}, and {', '.join(call.keys)} were expected")
        named = dict(result["items"])
        missing = [key for key in call.keys if key not in named]
        if missing:
            raise Misfit(f"what it returned has no {missing[0]}, only {', '.join(named)}")
        items = [named[key] for key in call.keys]
    elif len(call.returns) == 1 and result["t"] != "tuple":
        items = [result]
    elif result["t"] != "tuple":
        raise Misfit(f"it returned {words(result)}, and {len(call.returns)} results were expected")
    else:
        items = result["items"]
    if len(items) < len(call.returns):
        raise Misfit(f"it returned {words(result)}, and {', '.join(call.returns)} were expected")
    parts = dict(zip(call.returns, items, strict=False))
    for name, item in list(parts.items()):
        if item["t"] == "none" and name != "out":
            del parts[name]  # weights that were not asked for
        elif item["t"] != "array" and name not in ("cache", "other"):
            raise Misfit(f"it returned {words(item)} where {name} was expected")
    return parts


def _output(plan: Plan, question: Question, item: dict[str, Any], length: int) -> Array:
    """The output as (B, H, L, d_v) or (B, L, d)."""
    array = np.asarray(item["array"])
    if array.dtype.kind in "fiub":
        array = array.astype(np.float64)
    B, H, _, _ = question.shape
    tokens = from_layout(array, question.layout, length)
    if question.stage != "context":
        width = tokens.shape[-1] if tokens is not None else 0
        if tokens is None or tokens.shape != (B, length, width):
            raise Misfit(_unexpected(array, question, length), "shape")
        if (right := _width(question)) != width:
            raise Misfit(
                f"its output is {width} wide, and {right} was expected: shape {array.shape}",
                "shape",
            )
        return tokens
    d_v = question.inputs.v.shape[-1]
    if tokens is not None and tokens.shape == (B, length, H * d_v) and tokens.ndim == 3:
        return tokens.reshape(B, length, H, d_v).swapaxes(1, 2)
    if tokens is not None and tokens.shape == (B, H, length, d_v):
        return tokens
    raise Misfit(_unexpected(array, question, length), "shape")


def from_layout(array: Array, layout: str, length: int) -> Array | None:
    """The array as (B, n, d) or (B, H, n, d); None where its rank is not the layout's.

    Three axes where the layout has heads are taken for heads that were merged, (B, n, H·d).
    """
    rank = {"LD": 2, "HLD": 3, "BLD": 3, "LBD": 3}.get(layout, 4)
    if layout in ("BHLD", "BLHD", "BHDL") and array.ndim == 3:
        return array
    if layout == "HLD" and array.ndim == 2:
        return array[None]
    if array.ndim != rank:
        return None
    if layout in ("LD", "HLD"):
        return array[None]
    if layout == "BCHW":
        fits = array.shape[2:] == rectangle(length)
        return array.reshape(*array.shape[:2], -1).swapaxes(1, 2) if fits else None
    return swapped(array, layout)


def _width(question: Question) -> int:
    layer = question.inputs.output_projection
    if layer is not None and layer.w_o is not None:
        return int(layer.w_o.shape[1])
    return question.shape[1] * int(question.inputs.v.shape[-1])


def _map(item: dict[str, Any], question: Question, name: str) -> Array:
    """Weights or scores as (B, H, L, S), those that are a mean as (B, 1, L, S)."""
    array = np.asarray(item["array"]).astype(np.float64)
    B, H, L, S = question.shape
    full = (B, 1, L, S) if name == "weights_mean" else (B, H, L, S)
    if array.shape == full:
        return array
    fewer = {
        "weights_mean": ((B, L, S),),
        "weights_folded": ((B * H, L, S),),
    }.get(name, tuple(shape for shape, on in (((B, L, S), H == 1), ((H, L, S), B == 1)) if on))
    if array.shape in fewer or (array.shape == (L, S) and full[:2] == (1, 1)):
        return array.reshape(full)
    if question.layout == "BLHD" and array.shape == (B, L, H, S) and L != H:
        return array.swapaxes(1, 2)
    raise Misfit(f"its {name} have shape {array.shape}, and {full} was expected", "shape")


def _unexpected(array: Array, question: Question, length: int) -> str:
    B, H, _, _ = question.shape
    sizes = {"B": B, "H": H, "L": length, "D": "…"}
    return (
        f"its output has shape {array.shape}, and layout {question.layout} was expected with "
        + ", ".join(
            f"{letter} {size}" for letter, size in sizes.items() if letter in question.layout
        )
    )


def _roles(plan: Plan, names: list[str]) -> tuple[str, ...]:
    """Arguments by their names; positional ones by what they are."""
    roles = plan.call.roles
    return tuple(roles[int(name)] if name.isdigit() else name for name in names)


def words(item: dict[str, Any]) -> str:
    """What was returned, in words: None, an array of shape (2, 3), a tuple of 2, …"""
    if item["t"] == "none":
        return "None"
    if item["t"] == "array":
        return f"an array of shape {np.asarray(item['array']).shape}"
    if item["t"] == "tuple":
        return f"a tuple of {len(item['items'])}"
    if item["t"] == "dict":
        return f"an object with {', '.join(name for name, _ in item['items'])}"
    return f"a {item['type']}"
