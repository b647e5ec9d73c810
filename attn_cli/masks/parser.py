"""The text of a mask expression → its tree. Python's own parser reads it; nothing is evaluated."""

from __future__ import annotations

import ast
import re
import warnings

from attn_cli.errors import InputError
from attn_cli.masks import MASKS
from attn_cli.masks.declaration import Argument, shorten
from attn_cli.masks.tree import Complement, Node, Operator, Term, combine

LONGEST_TEXT = 20_000  # characters
DEEPEST = 50

EXAMPLE = "masks are joined by & | ~ and parentheses, as in causal & (window(256) | sink(4))"
FILE_EXAMPLE = 'a mask in a file is written file("m.npy")'

# What Python would read in a way of its own: escapes in text, line ends, a keyword, a comment.
_SPECIAL = re.compile(r"'[^']*'|\"[^\"]*\"|[\n\r\t]|\bglobal\b|#")


def parse_tree(text: str) -> Node:
    """The tree of a mask expression; InputError says in one sentence what is wrong with it."""
    text = text.strip()
    _check_text(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's advice on its own syntax
            tree = ast.parse(_SPECIAL.sub(_for_python, text), mode="eval")
    except SyntaxError as error:
        raise _unreadable(text, error) from None
    except (ValueError, RecursionError, MemoryError):
        raise _too_deep() from None
    return _Reader(text).node(tree.body, depth=0)


class _Reader:
    """Walks Python's tree; names and text are read from the original at the tree's columns."""

    def __init__(self, text: str) -> None:
        self.original = text.encode()

    def node(self, tree: ast.expr, *, depth: int) -> Node:
        if depth > DEEPEST:
            raise _too_deep()
        match tree:
            case ast.BinOp(op=ast.BitAnd()):
                return self._combination("&", tree, depth)
            case ast.BinOp(op=ast.BitOr()):
                return self._combination("|", tree, depth)
            case ast.UnaryOp(op=ast.Invert()):
                return Complement(self.node(tree.operand, depth=depth + 1))
            case ast.Name():
                return self._term(tree, [], [])
            case ast.Call(func=ast.Name() as name):
                return self._term(name, tree.args, tree.keywords)
        raise self._refusal(tree)

    def _combination(self, operator: Operator, tree: ast.BinOp, depth: int) -> Node:
        """a & b & c as one: Python nests them to the left, thousands deep if there are so many."""
        kind = type(tree.op)
        operands: list[ast.expr] = []
        rest: ast.expr = tree
        while isinstance(rest, ast.BinOp) and isinstance(rest.op, kind):
            operands.append(rest.right)
            rest = rest.left
        operands.append(rest)
        return combine(operator, [self.node(part, depth=depth + 1) for part in operands[::-1]])

    def _term(self, name: ast.Name, arguments: list[ast.expr], keywords: list[ast.keyword]) -> Node:
        word = shorten(self._source(name))
        kind = MASKS[word]
        named: dict[str, Argument] = {}
        for keyword in keywords:
            if keyword.arg is None:
                raise self._refusal(keyword)
            if keyword.arg in named:
                raise InputError(
                    f"{word} is given {shorten(keyword.arg)} twice", hint=kind.signature
                )
            named[keyword.arg] = self._argument(keyword.value)
        return Term(word, kind.read([self._argument(one) for one in arguments], named))

    def _argument(self, tree: ast.expr) -> Argument:
        source = self._source(tree)
        match tree:
            case ast.Constant(value=bool()):
                return Argument(source)
            case ast.Constant(value=int() | float() as number):
                return Argument(source, number)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
                return Argument(source, -number)
            case ast.Constant(value=str()) if source[0] in "'\"":
                inside = source[1:-1]
                return Argument(source, None if source[0] in inside else inside)
        return Argument(source)

    def _source(self, tree: ast.expr | ast.keyword) -> str:
        return self.original[tree.col_offset : tree.end_col_offset].decode()

    def _refusal(self, tree: ast.expr | ast.keyword) -> InputError:
        """The error for what Python can read and a mask expression cannot contain."""
        source = shorten(self._source(tree))
        if isinstance(tree, ast.BoolOp) or (
            isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not)
        ):
            return InputError(
                f"masks are not joined by the words and, or, not: {source!r}",
                hint="write & for and, | for or, ~ for not",
            )
        return InputError(
            f"{source!r} is not part of a mask expression", hint=_hint(self.original.decode())
        )


def _for_python(found: re.Match[str]) -> str:
    """A stand-in of the same length, so that all columns stay what they are."""
    piece = found.group()
    match piece[0]:
        case "'" | '"':
            return piece.replace("\\", "/")  # text is taken as it stands, without escapes
        case "g":
            return "Global"  # a keyword of Python; the name is read from the original
        case "#":
            return "?"  # would begin a comment, and silently end the expression
    return " "


def _check_text(text: str) -> None:
    if not text:
        raise InputError("the mask expression is empty", hint=EXAMPLE)
    size = len("".join(text.split()))  # without spaces, so that the normalised text passes too
    if size > LONGEST_TEXT:
        raise InputError(
            f"the mask expression has {size} characters, and {LONGEST_TEXT} is the most",
            hint='a long mask goes into an array: file("m.npy")',
        )
    for column, character in enumerate(text):
        if not (character.isprintable() or character in "\n\r\t"):
            raise InputError(
                f"the mask expression has the character {character!a} at column {column}",
                hint=EXAMPLE,
            )


def _unreadable(text: str, error: SyntaxError) -> InputError:
    """The error with the column, from 0, and what stands there."""
    if "digits" in error.msg:  # Python's guard against huge numbers names no column
        return InputError("a number in the mask expression is too large", hint=EXAMPLE)
    column = (error.offset or 0) - 1
    if not 0 <= column < len(text):
        return InputError("the mask expression ends too early", hint=EXAMPLE)
    reason = error.msg.removeprefix("invalid syntax").strip(". ").partition(" (")[0]
    said = f": {reason[0].lower()}{reason[1:]}" if reason else ""
    return InputError(
        f"the mask expression cannot be read at column {column}, {shorten(text[column:])!r}{said}",
        hint=_hint(text),
    )


def _hint(text: str) -> str:
    """An example of what is meant: for the bare name of a file, how files are written."""
    return FILE_EXAMPLE if re.search(r"^[^()]*\.\w+['\"]?$", text) else EXAMPLE


def _too_deep() -> InputError:
    return InputError(
        "the mask expression is nested too deeply",
        hint=f"it may be {DEEPEST} parentheses or ~ deep",
    )
