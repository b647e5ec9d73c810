"""Instrumenting: a file's code again, in which every expression shows its value on the way.

`scores / d ** 0.5` becomes `saw(7, scores / saw(6, d ** 0.5))`, and `saw` gives back what it is
given: the same operations run in the same order on the same objects, whatever library they belong
to, and a value is known with the line and the very text it comes from. Interception inside torch
(`TorchFunctionMode`) sees no NumPy and no lists, and takes `nn.MultiheadAttention` off its fast
path.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import CodeType
from typing import TypeVar

_T = TypeVar("_T", bound=ast.AST)

# How the code calls the watcher; both ends underlined, so that no class mangles them.
SAW, BEFORE, NAMED = "__attn_saw__", "__attn_before__", "__attn_named__"

# Operations that lay numbers out anew, or write over them: what they were given is told too.
_LAYOUT = (
    "view reshape contiguous transpose permute swapaxes swapdims movedim moveaxis t flatten "
    "unflatten squeeze unsqueeze expand expand_as view_as reshape_as ravel clone copy_ chunk split "
    "unbind rearrange ascontiguousarray narrow resize_ transpose_ squeeze_ unsqueeze_ t_"
)
LAYOUT = frozenset(_LAYOUT.split())
_TURNED = ("T", "mT", "H", "mH")  # attributes that are operations
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.MatMult: "@",
    ast.Pow: "**",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.USub: "-x",
    ast.Invert: "~",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


@dataclass(frozen=True, slots=True)
class Node:
    """One expression of the file. `line` is where its operation stands; `outer` says that no other
    expression of its statement uses it; `store` that it is what a statement wrote into."""

    line: int
    source: str
    name: str
    outer: bool
    store: bool = False


def instrument(source: str, file: str, first: int = 0) -> tuple[CodeType, list[Node]]:
    """The code of a whole file, and its expressions; the first one has the number `first`."""
    tree = ast.parse(source, file)
    rewriter = _Rewriter(source, first)
    rewriter.visit(tree)
    ast.fix_missing_locations(tree)
    return compile(tree, file, "exec", dont_inherit=True), rewriter.nodes


class _Rewriter(ast.NodeTransformer):
    def __init__(self, source: str, first: int) -> None:
        self.source, self.first = source, first
        self.lines = source.encode().splitlines()
        self.nodes: list[Node] = []
        self.depth = 0  # expressions that are watched around this one, in its statement

    # What is not computed when the code is called, or must stand as it is.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = self._block(node.body)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.body = self._block(node.body)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        depth, self.depth = self.depth, 0
        node.body = self.visit(node.body)
        self.depth = depth
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        if node.guard is not None:
            node.guard = self.visit(node.guard)
        node.body = self._block(node.body)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return node

    def visit_Delete(self, node: ast.Delete) -> ast.AST:
        return node

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for statement in body:
            new = self.visit(statement)
            done += new if isinstance(new, list) else [new]
        return done

    # Statements that write into something.

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        targets = [target for target in node.targets if isinstance(target, ast.Subscript)]
        stores = [store for t in targets if (store := self._store(t, node, "[]=")) is not None]
        node.value = self._used(node.value, by_store=bool(stores))
        return [node, *stores]

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.AST]:
        store = self._store(node.target, node, _OPERATORS.get(type(node.op), "") + "=")
        node.value = self._used(node.value, by_store=store is not None)
        return [node] if store is None else [node, store]

    def _used(self, value: ast.expr, *, by_store: bool) -> ast.expr:
        """The value of a statement, which is not its last word where it is written into a thing."""
        self.depth += by_store
        new: ast.expr = self.visit(value)
        self.depth -= by_store
        return new

    def _store(self, target: ast.expr, statement: ast.stmt, name: str) -> ast.stmt | None:
        """A statement that shows what was written into, where looking at it does nothing."""
        while isinstance(target, ast.Subscript):
            target = target.value
        base: ast.expr = target
        while isinstance(base, ast.Attribute):
            base = base.value
        if not isinstance(base, ast.Name):
            return None
        number = self._number(statement.lineno, self._text(statement), name, outer=True, store=True)
        again = ast.parse(ast.unparse(target), mode="eval").body
        return self._at(ast.Expr(self._call(SAW, number, again)), statement)

    # Expressions.

    def visit_Call(self, node: ast.Call) -> ast.AST:
        text, line = self._text(node), node.lineno
        if isinstance(node.func, ast.Attribute):
            line = node.func.end_lineno or line  # the line of .name in a chain over several lines
        number = self._number(line, text, _name(node.func), outer=self.depth == 0)
        self._inside(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("super", "locals", "vars", "dir"):
            return node
        if _name(node.func) in LAYOUT:
            self._tell_before(node, number)
        if isinstance(node.func, ast.Name | ast.Attribute | ast.Subscript):
            node.func = self._call(NAMED, number, node.func)
        return self._at(self._call(SAW, number, node), node)

    def _tell_before(self, node: ast.Call, number: int) -> None:
        if isinstance(node.func, ast.Attribute):
            node.func.value = self._call(BEFORE, number, node.func.value)
        if node.args and not isinstance(node.args[0], ast.Starred):
            node.args[0] = self._call(BEFORE, number, node.args[0])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        return self._watched(node, _OPERATORS.get(type(node.op), ""))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        name = _OPERATORS.get(type(node.op), "")
        if not name or isinstance(node.operand, ast.Constant):
            return self.generic_visit(node)
        return self._watched(node, name)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return self._watched(node, _OPERATORS.get(type(node.ops[0]), "compare"))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return self._watched(node, "[]") if isinstance(node.ctx, ast.Load) else node

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._watched(node, "[… for …]")

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if node.attr in _TURNED and isinstance(node.ctx, ast.Load):
            number = self._number(
                node.end_lineno or node.lineno, self._text(node), node.attr, outer=self.depth == 0
            )
            self._inside(node)
            node.value = self._call(BEFORE, number, node.value)
            return self._at(self._call(SAW, number, node), node)
        return self.generic_visit(node)

    def _watched(self, node: ast.expr, name: str) -> ast.AST:
        number = self._number(node.lineno, self._text(node), name, outer=self.depth == 0)
        self._inside(node)
        return self._at(self._call(SAW, number, node), node)

    def _inside(self, node: ast.AST) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    def _number(self, line: int, text: str, name: str, *, outer: bool, store: bool = False) -> int:
        self.nodes.append(Node(line, text, name, outer, store))
        return self.first + len(self.nodes) - 1

    def _text(self, node: ast.expr | ast.stmt) -> str:
        """The expression as it is written, in one line."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        lines = self.lines[first : last + 1]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return " ".join(b" ".join(lines).decode(errors="replace").split())

    @staticmethod
    def _call(function: str, number: int, value: ast.expr) -> ast.Call:
        return ast.copy_location(
            ast.Call(ast.Name(function, ast.Load()), [ast.Constant(number), value], []), value
        )

    @staticmethod
    def _at(new: _T, old: ast.AST) -> _T:
        return ast.copy_location(new, old)


def _name(function: ast.expr) -> str:
    """The last name of what is called."""
    if isinstance(function, ast.Attribute):
        return function.attr
    if isinstance(function, ast.Subscript):
        return _name(function.value)
    return function.id if isinstance(function, ast.Name) else "call"
