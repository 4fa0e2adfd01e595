"""Write the tables of settings into docs/strategies: ``python tools/strategy_tables.py``.

What is between ``<!-- settings: STRATEGY -->`` and the next ``<!-- end -->`` is replaced by the
fields of its ``Settings`` with their docstrings. ``MODULE:CLASS`` names another dataclass.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

from koordlet.qos_manager import strategy_table
from msgspec import Meta

PAGES = Path(__file__).parents[1] / "docs" / "strategies"
_PLACE = re.compile(r"(<!-- settings: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page with its tables as the strategies have them now."""
    return _PLACE.sub(lambda place: place[1] + table(place[2]) + place[3], page)


def table(name: str) -> str:
    """One strategy's settings."""
    return "".join(f"{line}\n" for line in _lines(_class(name)))


def _class(name: str) -> type:
    module, _, of_module = name.partition(":")
    of: ModuleType = importlib.import_module(module) if of_module else strategy_table.load(name)
    found: type = getattr(of, of_module or "Settings")
    return found


def _lines(of: type) -> Iterator[str]:
    words, types = _docstrings(of), get_type_hints(of, include_extras=True)
    yield "| setting | default | range | what it is |"
    yield "|---|---|---|---|"
    for field in dataclasses.fields(of):
        said = re.sub(r"\s+", " ", words[field.name]).replace("``", "`").replace("|", "\\|")
        kind = types[field.name]
        yield f"| `{field.name}` | {_default(field)} | {_range(kind)} | {said} |"


def _docstrings(of: type) -> Mapping[str, str]:
    """Return the string below each field."""
    [body] = ast.parse(inspect.getsource(of)).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for statement, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(below, ast.Expr):
            assert isinstance(statement.target, ast.Name)
            assert isinstance(below.value, ast.Constant)
            found[statement.target.id] = str(below.value.value)
    return found


def _default(field: dataclasses.Field[Any]) -> str:
    """As it is written in YAML."""
    value = field.default
    if value is dataclasses.MISSING:
        return "must be given" if field.default_factory is dataclasses.MISSING else "nothing"
    if value is None:
        return "not set"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _range(kind: Any) -> str:
    """Bounds, or the words that there are: all that is checked of a field by itself."""
    for part in _inside(kind):
        if isinstance(part, type) and issubclass(part, Enum):
            return ", ".join(f"`{word.value}`" for word in part if word.value)
        if isinstance(part, Meta):
            if part.ge is not None and part.le is not None:
                return f"{part.ge} to {part.le}"
            bounds = (("≥", part.ge), (">", part.gt), ("≤", part.le), ("<", part.lt))
            return ", ".join(f"{sign} {at}" for sign, at in bounds if at is not None)
    return "–"


def _inside(kind: Any) -> Iterator[Any]:
    yield kind
    for part in (*get_args(kind), *getattr(kind, "__metadata__", ())):
        yield from _inside(part)


if __name__ == "__main__":
    for page in PAGES.glob("*.md"):
        page.write_text(with_tables(page.read_text()))
