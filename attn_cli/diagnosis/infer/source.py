"""Source: what the text of somebody's code says of it, without running it."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LARGEST = 2_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """The object's text with the helpers of its file that it uses: `text`, and parsed as `nodes`.

    `entry` is the function that computes: forward, __call__ or the function itself.
    """

    text: str
    nodes: tuple[ast.stmt, ...]
    entry: ast.FunctionDef | ast.AsyncFunctionDef | None

    def walk(self) -> Iterator[ast.AST]:
        for node in self.nodes:
            yield from ast.walk(node)

    def identifiers(self) -> frozenset[str]:
        """Every name, attribute, keyword and definition that occurs, in lower case."""
        found: set[str] = set()
        for node in self.walk():
            for field in ("id", "attr", "arg", "name"):
                value = getattr(node, field, None)
                if isinstance(value, str):
                    found.add(value.lower())
        return frozenset(found)

    def documents(self) -> str:
        """The docstrings and the comments, the entry's own first."""
        strings = [
            ast.get_docstring(node) or ""
            for node in (*([self.entry] if self.entry else []), *self.walk())
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ]
        comments = re.findall(r"(?:^|\s)#\s*(.+)$", self.text, re.MULTILINE)
        return "\n".join([*dict.fromkeys(strings), *comments])

    def axes(self) -> tuple[int, ...]:
        """Whole numbers that stand where an axis is meant: dim=1, shape[2], transpose(1, 2)."""
        return tuple(axis for node in self.walk() for axis in _axes(node))


def read_source(facts: dict[str, Any]) -> Source:
    """The source of the object that the worker's facts describe; empty where there is none."""
    own = _parse(textwrap.dedent(facts["source"]))
    if not own:
        return Source("", (), None)
    defined = {
        node.name: node
        for node in _parse(_file_text(facts["file"]))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    nodes, seen, texts = list(own), {_name(own[0])}, [facts["source"]]
    for node in nodes:  # grows by the helpers that are found
        for inner in ast.walk(node):
            name = inner.id if isinstance(inner, ast.Name) else ""
            if name in defined and name not in seen:
                seen.add(name)
                nodes.append(defined[name])
                texts.append(ast.unparse(defined[name]))
    return Source("\n".join(texts), tuple(nodes), _entry(own[0]))


def _entry(node: ast.stmt) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node
    if isinstance(node, ast.ClassDef):
        methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
        return methods.get("forward") or methods.get("__call__")
    return None


def _name(node: ast.stmt) -> str:
    return getattr(node, "name", "")


def _parse(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _file_text(file: str | None) -> str:
    if file is None:
        return ""
    try:
        path = Path(file)
        return path.read_text("utf-8") if path.stat().st_size < _LARGEST else ""
    except (OSError, UnicodeDecodeError):
        return ""


_TURNS = ("transpose", "permute", "movedim", "swapaxes", "swapdims", "moveaxis")
_REDUCES = ("softmax", "sum", "max", "amax", "mean", "log_softmax", "stack", "cat", "concatenate")


def _axes(node: ast.AST) -> Iterator[int]:
    if isinstance(node, ast.keyword) and node.arg in ("dim", "axis"):
        yield from _whole(node.value)
    elif isinstance(node, ast.Subscript) and _is_attribute(node.value, "shape"):
        yield from _whole(node.slice)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in (*_TURNS, "size"):
            for argument in node.args:
                yield from _whole(argument)
        elif node.func.attr in _REDUCES and len(node.args) <= 2:
            for argument in node.args[-1:]:
                yield from _whole(argument)


def _whole(node: ast.expr) -> Iterator[int]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield node.value
    elif isinstance(node, ast.Tuple):
        for part in node.elts:
            yield from _whole(part)


def flattened(source: Source) -> tuple[int, ...]:
    """The axes, counted from the front, from which something is flattened: flatten(2)."""
    calls = [
        node
        for node in source.walk()
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "flatten"
    ]
    return tuple(axis for call in calls for a in call.args[:1] for axis in _whole(a) if axis > 0)


def _is_attribute(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def unpacked(source: Source, names: tuple[str, ...]) -> tuple[str, ...] | None:
    """The names that the shape of one of the arguments `names` is unpacked into, None if none."""
    for node in ast.walk(source.entry) if source.entry else ():
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)):
            continue
        value = node.value
        if isinstance(value, ast.Call) and _is_attribute(value.func, "size") and not value.args:
            value = value.func
        if isinstance(value, ast.Attribute) and value.attr in ("shape", "size"):
            base = value.value
            if isinstance(base, ast.Name) and base.id in names:
                return tuple(
                    element.id if isinstance(element, ast.Name) else ""
                    for element in node.targets[0].elts
                )
    return None


def transposed_attributes(source: Source) -> frozenset[str]:
    """Attributes of self that are used as (out, in): F.linear(x, self.W), x @ self.W.T."""
    found: set[str] = set()
    for node in source.walk():
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "linear":
            found |= {a.attr for a in node.args[1:2] if isinstance(a, ast.Attribute)}
        if (
            isinstance(node, ast.Attribute)
            and node.attr in ("T", "mT", "t", "transpose")
            and isinstance(node.value, ast.Attribute)
        ):
            found.add(node.value.attr)
    return frozenset(found)


def fields_read(source: Source, argument: str) -> tuple[str, ...]:
    """The attributes that the constructor reads off one of its arguments: config.n_head."""
    names = (argument, f"self.{argument}")
    found = [
        node.attr
        for node in source.walk()
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in names
    ]
    return tuple(dict.fromkeys(found))


def is_added(source: Source, argument: str) -> bool:
    """Whether an argument is added to something as it is, rather than compared or converted."""
    wanted = re.compile(rf"{re.escape(argument)}(\[.*\])?")
    for node in source.walk():
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Add):
            sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
            if any(wanted.fullmatch(ast.unparse(side)) for side in sides):
                return True
    return False
