"""Markdown of tables. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; bars in cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') or '–' for cell in line)} |\n"
        for line in lines
    )


def code(text: str) -> str:
    """Return a name or value in backticks, nothing for none."""
    return f"`{text}`" if text else ""
