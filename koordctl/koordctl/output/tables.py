"""Rows as data, and their text: fitted to a width, coloured or neither. No IO."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from koord_service.terminal import printable

_GAP = "  "
_NARROWEST = 8
"""Columns of text are not shortened further than to this width."""
_END = "\x1b[0m"


class Style(StrEnum):
    """Meaning of a text, which its words have too; the value is the ANSI sequence of its colour."""

    HEADER = "\x1b[1m"
    GOOD = "\x1b[32m"
    WARNING = "\x1b[33m"
    BAD = "\x1b[31m"


class StyledText(str):
    """Text with a style, which shows on terminals alone."""

    __slots__ = ("style",)
    style: Style

    @classmethod
    def of(cls, text: str, style: Style) -> StyledText:
        """The text with a style."""
        styled = cls(text)
        styled.style = style
        return styled


def good(text: str) -> str:
    """Text that says that all is well."""
    return StyledText.of(text, Style.GOOD)


def warning(text: str) -> str:
    """Text about what may need a look."""
    return StyledText.of(text, Style.WARNING)


def bad(text: str) -> str:
    """Text about what is wrong."""
    return StyledText.of(text, Style.BAD)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells. The column ``name`` says what a row is about, and is never shortened.

    ``text`` are the columns on the left, ``None`` for all; others are numbers, on the right.
    ``wide`` are those of ``-o wide`` alone. One that is not fitted is left to the terminal.
    """

    rows: Sequence[Sequence[str]]
    text: Collection[int] | None = None
    wide: Collection[int] = ()
    indent: int = 0
    has_header: bool = True
    name: int = 0
    is_fitted: bool = True


Block = str | Table
"""A line of text, or a table."""


def table(
    rows: Sequence[Sequence[str]],
    words: Collection[int] | None = None,
    *,
    wide: Collection[int] = (),
    indent: int = 0,
    has_header: bool = True,
    name: int = 0,
    is_fitted: bool = True,
) -> Table:
    """A table; ``words`` are its columns of text, ``None`` for all."""
    return Table(rows, words, wide, indent, has_header, name, is_fitted)


@dataclass(frozen=True, slots=True)
class Canvas:
    """Place to show text on: ``width`` in columns, 0 if it has no end."""

    width: int = 0
    has_colors: bool = False
    is_wide: bool = False


PLAIN = Canvas()
"""A file or a pipe: full width, no colours."""


def indented(blocks: Iterable[Block], indent: int = 2) -> Iterator[Block]:
    """Blocks further to the right; empty lines stay empty."""
    for block in blocks:
        if isinstance(block, Table):
            yield replace(block, indent=block.indent + indent)
        else:
            yield f"{' ' * indent}{block}" if block else block


def lines_of(blocks: Iterable[Block], canvas: Canvas = PLAIN) -> Iterator[str]:
    """The lines of blocks, safe for a terminal."""
    for block in blocks:
        if isinstance(block, Table):
            yield from _table_lines(block, canvas)
        else:
            yield _painted(printable(block), block, canvas)


def plain(blocks: Iterable[Block]) -> list[str]:
    """The lines of blocks at full width."""
    return list(lines_of(blocks))


def _table_lines(shown: Table, canvas: Canvas) -> Iterator[str]:
    hidden = () if canvas.is_wide else shown.wide
    columns = [number for number in range(len(shown.rows[0])) if number not in hidden]
    text = [column for column in columns if shown.text is None or column in shown.text]
    widths = {column: max(_width(row[column]) for row in shown.rows) for column in columns}
    if canvas.width and shown.is_fitted and not canvas.is_wide:
        rest = canvas.width - shown.indent - len(_GAP) * (len(columns) - 1)
        _fit(widths, [column for column in text if column != shown.name], rest)
    for number, row in enumerate(shown.rows):
        header = Style.HEADER if shown.has_header and not number else None
        cells = (
            _cell(row[column], widths[column], canvas, column in text, header) for column in columns
        )
        line = f"{' ' * shown.indent}{_GAP.join(cells)}"
        yield line.rstrip()


def _fit(widths: dict[int, int], text: Collection[int], most: int) -> None:
    """Make the widest columns of text narrower until all are within ``most``, if that can be."""
    while (excess := sum(widths.values()) - most) > 0:
        able = sorted((widths[column], column) for column in text if widths[column] > _NARROWEST)
        if not able:
            return
        width, column = able[-1]
        floor = max([_NARROWEST, *(other for other, _ in able[:-1])])
        widths[column] -= min(excess, max(width - floor, 1))


def _cell(cell: str, width: int, canvas: Canvas, is_text: bool, style: Style | None) -> str:
    shown = _shortened(printable(cell), width)
    padding = " " * (width - _width(shown))
    painted = _painted(shown, cell, canvas, style)
    return f"{painted}{padding}" if is_text else f"{padding}{painted}"


def _shortened(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    while text and _width(text) >= width:
        text = text[:-1]
    return f"{text.rstrip()}…"


def _painted(text: str, source: str, canvas: Canvas, style: Style | None = None) -> str:
    style = source.style if isinstance(source, StyledText) else style
    return f"{style}{text}{_END}" if canvas.has_colors and style and text else text


def _width(text: str) -> int:
    """Columns on a terminal: letters of East Asia take two, combining ones none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))
