"""Layouts: how the arrays lie that the code takes, by its documentation and its axes."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from attn_cli.diagnosis.infer import documents
from attn_cli.diagnosis.infer.source import Source, flattened, unpacked
from attn_cli.diagnosis.plan import HEADED
from attn_cli.diagnosis.weights import Tensor

_GENERIC = ("LD", "BLD", "BHLD")


def layouts_to_try(
    source: Source,
    arguments: Sequence[str],
    *,
    separate: bool,
    lib: str,
    tensors: Mapping[str, Tensor],
    batch_first: object = None,
) -> tuple[tuple[str, ...], bool]:
    """Layouts, best first; and whether all that work count (else the first one).

    Code that counts axes from the end may take any number of leading axes. Code that counts them
    from the front is written for one rank: on another it may run and mean something else.
    """
    if any(tensor.family == "conv" for tensor in tensors.values()):
        return ("BCHW", "BLD"), False
    if isinstance(batch_first, bool):
        return ("BLD",) if batch_first else ("LBD",), False
    headed = separate and not tensors
    stated = documents.layouts(source.documents())
    stated = tuple(s for s in stated if headed or s not in HEADED)
    names = unpacked(source, tuple(arguments))
    unpacks = documents.layout_of_names(names) if names else None
    if names and headed and len(names) == 4:
        unpacks = unpacks or "BHLD"
    exact = [layout for layout in stated if layout != "*"]
    if unpacks is not None:
        same_rank = [layout for layout in exact if len(layout) == len(unpacks)]
        return (*same_rank, unpacks, *_OTHERS[len(unpacks)]), False
    if len(exact) > 1:  # of several, a layer is asked in the first; a batch says more than none
        return tuple(sorted(exact, key=lambda layout: not headed and "B" not in layout)), headed
    if exact:
        return (*exact, *(_GENERIC if headed else ("BLD", "LD"))), False
    if not headed:
        return (("LD", "BLD") if lib != "torch" else ("BLD", "LD", "LBD")), False
    if "*" not in stated and (rank := _rank(source)) is not None:
        return ({2: "LD", 3: "BLD", 4: "BHLD"}[rank], *_OTHERS[rank]), False
    return (("LD",), False) if lib == "list" else (_GENERIC, True)


_OTHERS = {
    2: ("BLD", "BHLD"),
    3: ("LD", "BHLD"),
    4: ("BLD", "LD"),
}


def _rank(source: Source) -> int | None:
    """The rank that the code is written for: None where it counts axes from the end alone."""
    ranks = [axis + 1 for axis in source.axes() if axis > 0]
    if not {"view", "reshape", "unflatten"} & source.identifiers():
        ranks += [axis + 2 for axis in flattened(source)]  # it merges this axis and the next
    for node in source.walk():
        if isinstance(node, ast.Attribute):
            ranks += {"bmm": [3], "baddbmm": [3], "T": [2], "t": [2]}.get(node.attr, [])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            ranks += _einsum_ranks(node.value)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
            ranks.append(2)  # a loop over rows: q[i]
    return min(max(ranks), 4) if ranks and max(ranks) >= 2 else None


def _einsum_ranks(text: str) -> list[int]:
    """The longest operand of an einsum: "bhqd,bhkd->bhqk" has rank 4."""
    left, arrow, _ = text.replace(" ", "").partition("->")
    if not arrow or not left.replace(",", "").isalpha():
        return []
    return [max(len(operand) for operand in left.split(","))]
