"""Tables of a page, and texts that the code passes to functions."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
END = "<!-- end -->"


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def pages(folder: str) -> str:
    """All pages of a folder, one after the other."""
    return "\n".join(path.read_text() for path in sorted((ROOT / "docs" / folder).glob("*.md")))


def between(text: str, start: str, end: str = END) -> str:
    return text.partition(start)[2].partition(end)[0]


def marked(text: str, mark: str) -> str:
    """What is between a mark and the next end."""
    return between(text, f"<!-- {mark} -->\n")


def block(text: str, mark: str) -> str:
    """The code right after a mark."""
    return text.partition(f"<!-- {mark} -->\n")[2].split("```")[1].partition("\n")[2]


def rows(table: str) -> list[list[str]]:
    """The cells of a table, without its head."""
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def all_rows(text: str) -> list[list[str]]:
    """The rows of all tables of a text."""
    return [row for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE) for row in rows(table)]


def metric_rows(text: str) -> Iterator[tuple[str, str, set[str]]]:
    """Name, type and labels of each metric that a page lists.

    "*pod* stands for ..." names several labels at once.
    """
    short = {
        name: code(labels)
        for name, labels in re.findall(r"^- \*(\w+)\* stands for (.*)", text, re.M)
    }
    tables = re.findall(rf"<!-- metrics(?:, each with `(\w+)`)? -->\n(.*?){END}", text, re.DOTALL)
    for everywhere, table in tables:
        for name, kind, cell, _ in rows(table):
            named = (short[group] for group in re.findall(r"\*(\w+)\*", cell))
            labels = {*code(cell), *itertools.chain(*named), *filter(None, (everywhere,))}
            yield code(name)[0], kind, labels


def code(cell: str) -> list[str]:
    """What is in backticks."""
    return cell.split("`")[1::2]


def sources(*places: str) -> list[Path]:
    """Modules, and those of folders."""
    found = (ROOT / place for place in places)
    return [path for one in found for path in (one.rglob("*.py") if one.is_dir() else [one])]


def texts(
    modules: Iterable[Path],
    is_asked: Callable[[str], bool],
    place: int = 0,
    names: Mapping[str, str] | None = None,
) -> set[str]:
    """The literal texts that are passed to functions, as their ``place``-th argument.

    ``is_asked`` is of the function as it is written ("log.info"); ``names`` are the values of
    what stands in braces.
    """
    found = set()
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text())):
            if (
                isinstance(node, ast.Call)
                and node.args[place:]
                and is_asked(ast.unparse(node.func))
            ):
                found |= set(_texts(node.args[place], names or {}))
    return found


def constants(modules: Iterable[Path]) -> set[object]:
    """All literal values."""
    trees = (ast.parse(module.read_text()) for module in modules)
    return {one.value for tree in trees for one in ast.walk(tree) if isinstance(one, ast.Constant)}


def _texts(node: ast.expr, names: Mapping[str, str]) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp():
            yield from (*_texts(node.body, names), *_texts(node.orelse, names))
        case ast.JoinedStr():
            parts = [
                names.get(ast.unparse(part.value), "…")
                if isinstance(part, ast.FormattedValue)
                else ast.literal_eval(part)
                for part in node.values
            ]
            yield "".join(map(str, parts))
