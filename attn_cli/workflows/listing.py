"""listing: the masks, positions, engines, statistics, formats and stages that there are."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec

from attn_cli.core.listing import Entry, Listing
from attn_cli.core.model_heads import MEANS, OTHERS, ROLES
from attn_cli.core.names import STAGE_WORDS
from attn_cli.core.registry import unknown_name
from attn_cli.core.trace import EVERY_STAGE
from attn_cli.engines import ENGINES
from attn_cli.formats import READERS
from attn_cli.masks import MASKS
from attn_cli.positions import POSITIONS
from attn_cli.stats import STATISTICS

OTHER_WORDS = 3  # of a stage; there are more that files may use
STAGES = {
    "x": "token vectors",
    "x_positions": "with sinusoidal or learned positions added",
    "q": "queries",
    "k": "keys",
    "v": "values",
    "q_rotated": "queries turned by their positions, under RoPE",
    "k_rotated": "keys turned by their positions, under RoPE",
    "scores": "q · kᵀ",
    "scaled": "scores ÷ √d_k, or × the scale",
    "softcapped": "C · tanh(scaled ÷ C)",
    "biased": "with the bias added",
    "masked": "−∞ where a key is hidden, and additive masks added",
    "weights": "softmax over the keys",
    "context": "weights · v, in each head",
    "merged": "the heads' contexts side by side",
    "output": "what attention returns: merged · W_o, or merged without W_o, or the context without "
    "token vectors",
}
AROUND: Mapping[str, str] = {  # attention, in a model
    "embedded": "of a model: the rows of its embedding at the tokens of the text",
    "stream": "of a model with LayerNorm before attention: what comes into the layer",
    "residual": "of a model: output added to what came into the layer",
    "normed": "of a model with LayerNorm after attention: what goes on to the next layer",
    "final": "of a model: LayerNorm behind the last layer",
    "logits": "of a model: final, or what the last layer leaves, · unembeddingᵀ",
}


def listing(kind: str) -> Listing:
    """The names of one kind; InputError for an unknown kind."""
    if kind not in KINDS:
        raise unknown_name("list", kind, tuple(KINDS))
    return Listing(kind, tuple(KINDS[kind]()))


def _masks() -> Iterator[Entry]:
    for name in MASKS:
        yield Entry(MASKS[name].signature, MASKS[name].description)


def _positions() -> Iterator[Entry]:
    for name in POSITIONS:
        yield Entry(name, POSITIONS[name].description)


def _engines() -> Iterator[Entry]:
    for name, target in ENGINES.entries.items():
        yield Entry(name, _told(target).split(": ", 1)[-1])


def _statistics() -> Iterator[Entry]:
    for name in STATISTICS:
        statistic = STATISTICS[name]
        yield Entry(name, statistic.title + (f" ({statistic.unit})" if statistic.unit else ""))


def _formats() -> Iterator[Entry]:
    suffixes: dict[str, list[str]] = {}
    for suffix, target in READERS.entries.items():
        suffixes.setdefault(target, []).append(suffix)
    for target, names in suffixes.items():
        yield Entry(" ".join(names), _first_line(target))


def _stages() -> Iterator[Entry]:
    for name in EVERY_STAGE:
        if name in AROUND:
            yield Entry(name, AROUND[name])
            continue
        others = [word for word in STAGE_WORDS[name] if word != name][:OTHER_WORDS]
        yield Entry(name, f"{STAGES[name]} (in files also {', '.join(others)})")


def _heads() -> Iterator[Entry]:
    """What is said of a head of a real model: its figures, and what it may do."""
    for name, words in {**MEANS, **OTHERS}.items():
        yield Entry(name, words)
    for role, (letter, rule) in ROLES.items():
        yield Entry(f"{letter} {role}", rule)


def _told(target: str) -> str:
    """The docstring below the attribute of "module:attribute", or else that of the module."""
    tree, attribute = _parsed(target), target.split(":")[1]
    for node, below in itertools.pairwise(tree.body):
        match node, below:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(told))),
            ) if name == attribute:
                return told.split("\n")[0].rstrip(".")
    return _first_line(target)


def _first_line(target: str) -> str:
    """What the module of "module:attribute" says it is."""
    return (ast.get_docstring(_parsed(target)) or "").split("\n")[0].rstrip(".")


def _parsed(target: str) -> ast.Module:
    """The module of "module:attribute", read without importing it.

    Importing an engine or a reader may load torch, which a list has no need of.
    """
    module = target.split(":")[0]
    spec = find_spec(module)
    source = getattr(spec and spec.loader, "get_source", lambda _: None)(module) or ""
    return ast.parse(source)


KINDS: Mapping[str, Callable[[], Iterator[Entry]]] = {
    "masks": _masks,
    "positions": _positions,
    "engines": _engines,
    "statistics": _statistics,
    "formats": _formats,
    "stages": _stages,
    "heads": _heads,
}
