"""Parts: what each part of a mask expression does by itself, and what only it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from attn_cli.core.masks import MaskContext
from attn_cli.core.results_mask import MaskPart, Verb
from attn_cli.masks import MASKS
from attn_cli.masks.counting import Allowance, TooMuch
from attn_cli.masks.tree import Combination, Complement, Node, combine
from attn_cli.workflows.mask_items import visible_pairs

MOST = 24  # parts that are told apart

Put = Callable[[Node | None], Node]


@dataclass(frozen=True, slots=True)
class Place:
    """A part within the whole. `without` is the whole when the part is left out of it.

    `inverted` says whether an odd number of ~ stands before it.
    """

    part: Node
    depth: int
    verb: Verb
    inverted: bool
    without: Node


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that were counted, and how many more there are; none where it is `too_much`."""

    counted: tuple[MaskPart, ...] = ()
    left_out: int = 0
    too_much: bool = False


def count_parts(root: Node, context: MaskContext, visible: int) -> Parts:
    """Every part, each before those that lie in it; of very many, the outermost first ones.

    `visible` is how many pairs the whole lets through. An expression of one mask has no parts.
    """
    every = list(_places(root))
    places = every
    if len(places) > MOST:
        places = [place for place in places if place.depth == 0][:MOST]
    total = context.batch * context.heads * context.queries * context.keys
    counts: dict[Node, int] = {}
    allowance = Allowance()

    def count(node: Node) -> int:
        if node not in counts:
            scattered = any(MASKS[term.name].scattered for term in node.terms())
            counts[node] = visible_pairs(
                node.build(context), context, allowance, scattered=scattered
            )
        return counts[node]

    try:
        parts = tuple(
            MaskPart(
                part=str(place.part),
                depth=place.depth,
                verb=place.verb,
                alone=_alone(place, count(place.part), total),
                only=abs(count(place.without) - visible),
            )
            for place in places
        )
    except TooMuch:
        return Parts(too_much=True)
    return Parts(parts, left_out=len(every) - len(places))


def _alone(place: Place, shown: int, total: int) -> int:
    """Pairs that the part hides or shows by itself, whichever it does in the whole."""
    shows = (place.verb == "shows") != place.inverted
    return shown if shows else total - shown


def _places(root: Node) -> Iterator[Place]:
    yield from _inside(root, depth=0, inverted=False, put=_as_root)


def _as_root(node: Node | None) -> Node:
    assert node is not None, "only a part of a combination is left out"
    return node


def _inside(node: Node, *, depth: int, inverted: bool, put: Put) -> Iterator[Place]:
    """The parts of a node; `put` puts something in the node's place and gives the whole."""
    if isinstance(node, Complement):
        yield from _inside(
            node.part,
            depth=depth,
            inverted=not inverted,
            put=lambda new: put(None if new is None else Complement(new)),
        )
    if not isinstance(node, Combination):
        return
    for at, part in enumerate(node.parts):
        hides = (node.operator == "&") != inverted
        replace = _replacing(node, at, put)
        yield Place(part, depth, "hides" if hides else "shows", inverted, replace(None))
        yield from _inside(part, depth=depth + 1, inverted=inverted, put=replace)


def _replacing(node: Combination, at: int, put: Put) -> Put:
    """Puts something in the place of a part of a combination, or leaves the part out."""

    def replace(new: Node | None) -> Node:
        parts = [*node.parts[:at], *([] if new is None else [new]), *node.parts[at + 1 :]]
        return put(combine(node.operator, parts))

    return replace
