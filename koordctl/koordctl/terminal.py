"""What is printed: the only place that writes to the terminal, and nothing that could control it.

Names, annotations and error messages are other people's text. Escape sequences, C1 controls and
characters that change the direction of reading stay visible, and have no effect. No IO but that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable

_UNSHOWN = "\N{REPLACEMENT CHARACTER}"


def print_lines(lines: Iterable[str], *, as_json: bool) -> None:
    """Print each; where they are JSON what is not printable stays what it is, escaped."""
    made: Callable[[str], str] = _escaped if as_json else printable
    for line in lines:
        sys.stdout.write(f"{made(line)}\n")
    sys.stdout.flush()


def control(sequence: str) -> None:
    """Write control sequences of our own, around nothing but ``printable`` text."""
    sys.stdout.write(sequence)
    sys.stdout.flush()


def say(program: str, message: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"{program}: {printable(' '.join(message.split()))}\n")


def printable(line: str) -> str:
    """One line, with a sign for each character that a terminal would not show as one."""
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else _UNSHOWN for letter in line)


def _escaped(document: str) -> str:
    """Outside of its texts JSON has but printable characters and the ends of lines."""
    return "".join(one if one.isprintable() or one == "\n" else _escape(one) for one in document)


def _escape(letter: str) -> str:
    return "\\u007f" if letter == "\x7f" else json.dumps(letter)[1:-1]
