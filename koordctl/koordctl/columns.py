"""Rows of text in columns. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence


def table(rows: Sequence[Sequence[str]], words: Collection[int] | None = None) -> Iterator[str]:
    """Columns as wide as what is in them: ``words`` (``None``: all) to the left, others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if words is None or i in words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
