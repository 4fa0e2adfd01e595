"""The answer of a program to ``--check``: its settings are read and judged, and nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from koord_service.terminal import exit_with, flush, printable, write_line

CHECK_HELP = (
    "only read flags and configuration, print what is in force and what has no effect, and exit: "
    "0, 1 if something has no effect, 2 if something is invalid"
)


@dataclass(frozen=True, slots=True)
class SettingsReport:
    """Lines on what is in force, and on what was given and has no effect."""

    in_force: Sequence[str]
    without_effect: Sequence[str]


def check_and_exit(program: str, check: Callable[[], SettingsReport]) -> NoReturn:
    """Print the report and end the program; ``check`` raises ValueError for what is invalid."""
    try:
        report = check()
    except ValueError as error:
        exit_with(program, 2, str(error))
    for line in report.in_force:
        write_line(printable(line))
    for line in report.without_effect:
        write_line(printable(f"no effect: {line}"))
    flush()
    raise SystemExit(1 if report.without_effect else 0)
