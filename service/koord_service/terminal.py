"""Output for people: the only place that writes to stdout and stderr, but for logs.

Names, annotations and error messages are other people's text. Escape sequences, C1 controls and
characters that change the direction of reading stay visible, and have no effect.
"""

from __future__ import annotations

import json
import sys
from typing import NoReturn

_UNSHOWN = "\N{REPLACEMENT CHARACTER}"


def printable(line: str) -> str:
    """One line, with a sign for each character that a terminal would not show as one."""
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else _UNSHOWN for letter in line)


def printable_json(document: str) -> str:
    """A JSON document with what is not printable escaped; as a value it is the same."""
    # Outside of its texts there are but printable characters, and the ends of lines.
    return "".join(
        character if character.isprintable() or character == "\n" else _escaped(character)
        for character in document
    )


def write_line(line: str) -> None:
    """Write a line, which may be a JSON document, to stdout; it has to be printable."""
    sys.stdout.write(f"{line}\n")


def write_control(sequence: str) -> None:
    """Write control sequences of our own, around nothing but ``printable`` text."""
    sys.stdout.write(sequence)
    sys.stdout.flush()


def flush() -> None:
    """Let what was written be seen."""
    sys.stdout.flush()


def write_error(program: str, message: str) -> None:
    """Write what a program has to say, in one line, to stderr."""
    sys.stderr.write(f"{program}: {printable(' '.join(message.split()))}\n")


def exit_with(program: str, code: int, message: str) -> NoReturn:
    """End the program with one line on stderr."""
    write_error(program, message)
    raise SystemExit(code)


def _escaped(letter: str) -> str:
    # JSON need not escape this one, and Python's does not.
    return "\\u007f" if letter == "\x7f" else json.dumps(letter)[1:-1]
