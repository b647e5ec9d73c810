"""Instrumented code computes what the code computes, and shows its expressions as written."""

from __future__ import annotations

from typing import Any

import pytest

from attn_cli.diagnosis.trace.instrument import BEFORE, NAMED, SAW, instrument

EVERYTHING = '''
"""A docstring."""
from __future__ import annotations
import functools

def once(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs) + 1
    return inner

class Base:
    def value(self, n: int = 2 + 1) -> list[int]:
        return [n * i for i in range(n)]

class Derived(Base):
    __hidden = 5

    def value(self, n: int = 4) -> list[int]:
        __local = self.__hidden + n
        return super().value(n) + [__local]

@once
def count(*args, start=0, **more):
    total = start
    for index, arg in enumerate(args):
        total += arg if index % 2 else -arg
    return total + sum(more.values())

def matched(value):
    match value:
        case {"a": [first, *_]} if first + 1 > 2:
            return f"{first + 1:>{2 + 2}}"
        case Base():
            return "base"
        case _:
            return not value

def walrus(items):
    return [y for x in items if (y := x * 2) > 2], (lambda a, b=items[0] + 1: a + b)(1)

def generator(n):
    for i in range(n):
        got = yield i * 2
    return got

def written():
    box = {"a": [1, 2, 3]}
    box["a"][0] += 5
    box["a"][1:] = [x + 1 for x in box["a"][1:]]
    del box["a"][-1]
    a, (b, *c) = 1, (2, 3, 4)
    x: int = a + b
    return box, c, x, 1 < x + 1 < 9, -x, ~x, x if x > 2 else 0, sorted(locals())

def caught():
    try:
        return {}[1 + 1]
    except KeyError as error:
        return str(error)
    finally:
        assert 1 + 1 == 2, "no"

def closure():
    seen = 0
    def up():
        nonlocal seen
        seen += 1
        return seen
    return up() + up() * up()

def answers():
    steps = generator(2)
    return [
        Derived().value(), Base().value(), count(1, 2, start=3, more=4), matched({"a": [3, 4]}),
        matched(Base()), matched(0), walrus([1, 2, 3]), next(steps), next(steps), written(),
        caught(), closure(), once.__name__, count.__name__, Base.value.__defaults__,
    ]
'''


def run(code: Any, watched: list[tuple[int, Any]] | None = None) -> Any:
    def saw(number: int, value: Any) -> Any:
        if watched is not None:
            watched.append((number, value))
        return value

    def alike(number: int, value: Any) -> Any:
        return value

    namespace: dict[str, Any] = {SAW: saw, BEFORE: alike, NAMED: alike, "__name__": "code"}
    exec(code, namespace)
    return namespace["answers"]()


def test_all_of_the_language_computes_what_it_did() -> None:
    code, _ = instrument(EVERYTHING, "everything.py")
    seen: list[tuple[int, Any]] = []
    assert run(code, seen) == run(compile(EVERYTHING, "everything.py", "exec"))
    assert len(seen) > 50


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a @ b / c", [(1, "a @ b / c", "/", True), (1, "a @ b", "@", False)]),
        ("f(x).T", [(1, "f(x).T", "T", True), (1, "f(x)", "f", False)]),
        (
            "y = (\n  f(x)\n  .view(2)\n)",
            [(3, "f(x) .view(2)", "view", True), (2, "f(x)", "f", False)],
        ),
        ("x[0] = a + b", [(1, "x[0] = a + b", "[]=", True), (1, "a + b", "+", False)]),
        ("x *= 2", [(1, "x *= 2", "*=", True)]),
        ("n = -1", []),
        ("é = 'ü' + ß", [(1, "'ü' + ß", "+", True)]),
    ],
)
def test_expressions_are_known_by_line_text_and_operation(
    source: str, expected: list[tuple[int, str, str, bool]]
) -> None:
    _, nodes = instrument(source, "file.py")
    found = [(node.line, node.source, node.name, node.outer) for node in nodes]
    assert found == expected


def test_numbers_go_on_from_the_first() -> None:
    code, nodes = instrument("def answers():\n    return [1 + 1]\n", "file.py", 7)
    seen: list[tuple[int, Any]] = []
    assert run(code, seen) == [2]
    assert seen == [(7, 2)]
    assert len(nodes) == 1
