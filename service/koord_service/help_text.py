"""Text of ``--help``: an example of a call ends it."""

from __future__ import annotations

import argparse

_TITLE = "Example:"


def example(*calls: str) -> str:
    """The epilog of a parser: calls as one would type them."""
    return "\n".join((_TITLE, *(f"  {call}" for call in calls)))


def calls_of(epilog: str | None) -> list[str]:
    """The calls in the epilog of a parser."""
    _, _, calls = (epilog or "").partition(f"{_TITLE}\n")
    return [line.strip() for line in calls.splitlines()]


class HelpFormatter(argparse.HelpFormatter):
    """Wraps all texts but examples, which are lines to copy."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        words, title, calls = text.partition(_TITLE)
        filled = super()._fill_text(words, width, indent) if words.strip() else ""
        if not title:
            return filled
        return "\n\n".join(filter(None, (filled, f"{title}{calls}")))
