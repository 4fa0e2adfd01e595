"""A terminal that is drawn over again: the alternate screen, and keys as they are pressed.

Fifty lines of ANSI sequences that every terminal of today knows; a library for them
would be koordctl's only dependency of its own.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from koord_service.terminal import printable, write_control

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


class Screen:
    """Terminal whose content is replaced as a whole."""

    def __init__(self, keyboard: int | None) -> None:
        self._keyboard = keyboard

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines; those of old where the terminal says none."""
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
        return columns or 80, lines or 24

    def show(self, lines: Sequence[str], bold: Sequence[int] = ()) -> None:
        """Draw lines of text, cut to the screen."""
        columns, height = self.size
        shown = [
            f"{_BOLD}{printable(line[:columns])}{_PLAIN}"
            if i in bold
            else printable(line[:columns])
            for i, line in enumerate(lines[:height])
        ]
        text = f"{_REST_OF_LINE}\r\n".join(shown)
        write_control(f"{_HOME}{text}{_REST_OF_LINE}{_REST}")

    def key(self, seconds: float) -> str:
        """The key pressed within so many seconds; "" if none was."""
        keyboard = [] if self._keyboard is None else [self._keyboard]
        ready, _, _ = select.select(keyboard, [], [], seconds)
        return os.read(ready[0], 1).decode(errors="replace") if ready else ""


@contextmanager
def screen() -> Iterator[Screen]:
    """Take the terminal over, and give it back as it was."""
    keyboard = sys.stdin.fileno() if sys.stdin.isatty() else None
    before = None if keyboard is None else termios.tcgetattr(keyboard)
    try:
        if keyboard is not None:
            tty.setcbreak(keyboard)
        write_control(_ENTER)
        yield Screen(keyboard)
    finally:
        write_control(_LEAVE)
        if keyboard is not None and before is not None:
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
