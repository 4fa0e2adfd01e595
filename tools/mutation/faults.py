"""Small faults of one module: each differs from it in one operator, constant or return value.

Only what functions do is changed, not tables and definitions beside them: a fault is put into
functions that are imported already (``patching.py``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WITHOUT_BEHAVIOUR = ("annotation", "returns", "decorator_list", "type_params")


@dataclass(frozen=True, slots=True)
class Fault:
    """One change to one node of a module."""

    place: int
    """The node's number in ``ast.walk``."""
    variant: int
    lines: tuple[int, int]
    """First and last line of the statement, or of its head: tests that run none cannot notice."""
    words: str
    """Function, line and the change, for people."""


def faults(source: str) -> list[Fault]:
    """All faults of a module, in the order of its text."""
    tree = ast.parse(source)
    places = {id(node): place for place, node in enumerate(ast.walk(tree))}
    found = []
    for function, statement, node in _changeable(tree):
        for variant in range(_variants(node)):
            before = _words(node)
            undo = _mutate(node, variant)
            words = f"{function}:{node.lineno}: {before}  →  {_words(node)}"
            node.__dict__.update(undo)
            words = " ".join(words.split())
            found.append(Fault(places[id(node)], variant, _lines(statement), words))
    return found


def program(source: str, fault: Fault) -> ast.Module:
    """The module with this fault."""
    tree = ast.parse(source)
    node = next(node for place, node in enumerate(ast.walk(tree)) if place == fault.place)
    _mutate(node, fault.variant)
    return ast.fix_missing_locations(tree)


def _changeable(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, Any]]:
    """Nodes in functions, each with the function's name and the statement."""

    def walk(node: ast.AST, name: str, statement: ast.stmt | None) -> Iterator[Any]:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            name = f"{name}.{node.name}".lstrip(".")
            inside = isinstance(node, _FUNCTIONS)
            for child in node.body:
                yield from walk(child, name, child if inside else None)
            return
        if isinstance(node, ast.stmt) and statement is not None:
            statement = node
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        if statement is not None:
            yield name, statement, node
        for field, value in ast.iter_fields(node):
            if field in _WITHOUT_BEHAVIOUR:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child, name, statement)

    yield from walk(tree, "", None)


def _words(node: Any) -> str:
    return ast.unparse(node.test if isinstance(node, ast.If | ast.While) else node)


def _lines(statement: ast.stmt) -> tuple[int, int]:
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    last = statement.end_lineno or statement.lineno
    if body:
        first = body[0]
        last = (first.pattern if isinstance(first, ast.match_case) else first).lineno - 1
    return statement.lineno, max(statement.lineno, last)


def _variants(node: ast.AST) -> int:
    match node:
        case ast.Compare():
            return len(node.ops)
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp():
            return int(type(node.op) in _SWAPS)
        case ast.UnaryOp():
            return int(isinstance(node.op, ast.Not | ast.USub))
        case ast.Constant():
            return int(isinstance(node.value, int | float))
        case ast.If() | ast.IfExp() | ast.While():
            return int(not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp))
        case ast.Return():
            return int(node.value is not None and not _is_none(node.value))
    return 0


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _mutate(node: Any, variant: int) -> dict[str, Any]:
    """Change a node, and return what it had before."""
    match node:
        case ast.Compare():
            ops = [_swapped(op) if at == variant else op for at, op in enumerate(node.ops)]
            return _put(node, ops=ops)
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp():
            return _put(node, op=_swapped(node.op))
        case ast.UnaryOp(op=ast.USub()):
            return _put(node, op=ast.UAdd())
        case ast.UnaryOp():
            return _put(node, operand=ast.UnaryOp(ast.Not(), node.operand))
        case ast.Constant(value=bool() as value):
            return _put(node, value=not value)
        case ast.Constant(value=int() | float() as value):
            return _put(node, value=value + 1)
        case ast.Return():
            return _put(node, value=ast.Constant(None))
    return _put(node, test=ast.UnaryOp(ast.Not(), node.test))


def _put(node: ast.AST, **fields: object) -> dict[str, Any]:
    before = {name: getattr(node, name) for name in fields}
    for name, value in fields.items():
        setattr(node, name, value)
    return before


def _swapped(operator: ast.AST) -> ast.AST:
    return _SWAPS[type(operator)]()
