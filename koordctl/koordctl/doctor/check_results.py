"""The result of a check, and results as text. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from koordctl.output.tables import Block, Style, StyledText, table
from koordctl.render import clean, count


class Level(StrEnum):
    """Severity. ``UNKNOWN`` is what could not be looked at."""

    OK = "ok"
    NOTE = "note"
    UNKNOWN = "unknown"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check; ``way_out`` is what to do about it, "" where nothing is to be done."""

    level: Level
    about: str
    text: str
    way_out: str = ""

    def as_json(self, place: str) -> Mapping[str, str]:
        """The result as part of a document; ``place`` is "node" or "cluster"."""
        return {
            "place": place,
            "level": self.level,
            "about": self.about,
            "text": self.text,
            "wayOut": self.way_out,
        }


_STYLES = {
    Level.OK: Style.GOOD,
    Level.WARNING: Style.WARNING,
    Level.UNKNOWN: Style.WARNING,
    Level.PROBLEM: Style.BAD,
}


def blocks(results: Iterable[CheckResult]) -> Iterator[Block]:
    """A row for each, and below it the way out."""
    rows: list[tuple[str, str, str]] = []
    for result in results:
        level = str(result.level)
        if result.level in _STYLES:
            level = StyledText.of(level, _STYLES[result.level])
        rows.append((level, clean(result.about), clean(result.text)))
        if result.way_out:
            rows.append(("", "", f"→ {clean(result.way_out)}"))
    if rows:
        # Sentences: a terminal wraps them, and nothing of them is lost.
        yield table(rows, has_header=False, is_fitted=False)


def summary(results: Iterable[CheckResult]) -> str:
    """The last line: how many need something done."""
    levels = [result.level for result in results]
    problems, warnings = levels.count(Level.PROBLEM), levels.count(Level.WARNING)
    if not problems and not warnings:
        return "nothing to mend"
    return f"{count(problems, 'problem')}, {count(warnings, 'warning')}"


def some(names: Iterable[str], most: int = 3) -> str:
    """The first of many names, and how many more there are."""
    every = sorted(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
