"""Draw who imports whom into docs/architecture.md: ``python tools/package_graph.py``.

The rows are the layers of ``.importlinter``, highest first; an arrow is an import that the code
has. What another arrow already implies is left out.
"""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
_PLACE = re.compile(r"(<!-- packages -->\n).*?(<!-- end -->)", re.DOTALL)


def with_graph(page: str) -> str:
    """The page with its graph as the code is now."""
    return _PLACE.sub(lambda place: f"{place[1]}```mermaid\n{graph()}```\n{place[2]}", page)


def graph() -> str:
    """The packages by layer, and the imports between them, in Mermaid's language."""
    layers = _layers()
    edges = _reduced({name: _imported(name) for layer in layers for name in layer})
    lines = ["flowchart TD"]
    for number, layer in enumerate(layers):
        lines.append(f"  subgraph layer{number}[ ]")
        lines += [f"    {name}" for name in layer]
        lines.append("  end")
    lines += [
        f"  {package} --> {other}" for package in sorted(edges) for other in sorted(edges[package])
    ]
    return "\n".join(lines) + "\n"


def _layers() -> list[list[str]]:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    rows = parser["importlinter:contract:layers"]["layers"].split("\n")
    return [sorted(re.findall(r"\w+", row)) for row in rows if row.strip()]


def _imported(package: str) -> set[str]:
    """The packages of ours that a package imports itself."""
    ours = {name for layer in _layers() for name in layer}
    [folder] = ROOT.glob(f"*/{package}/py.typed")
    found: set[str] = set()
    for module in folder.parent.rglob("*.py"):
        found.update(_tops(ast.parse(module.read_text())))
    return (found & ours) - {package}


def _tops(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)


def _reduced(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Without edges to what is reached by a longer way too."""
    return {
        package: {
            other
            for other in direct
            if not any(other in _reached(edges, between) for between in direct - {other})
        }
        for package, direct in edges.items()
    }


def _reached(edges: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = edges[ahead.pop()] - found
        found |= new
        ahead += new
    return found


if __name__ == "__main__":
    PAGE.write_text(with_graph(PAGE.read_text()))
