"""Writes reports to stdout, as it is: a terminal of some width, or a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping

from koord_service.terminal import flush, write_line

from koordctl.output.documents import as_json, as_yaml
from koordctl.output.result import CommandOutput, OutputFormat
from koordctl.output.tables import Canvas, lines_of


def write(report: CommandOutput, output: OutputFormat) -> None:
    """Write a report in a format."""
    for line in _lines(report, output):
        write_line(line)
    flush()


def canvas(*, is_terminal: bool, width: int, environ: Mapping[str, str], is_wide: bool) -> Canvas:
    """The canvas of an output; https://no-color.org says what turns colours off."""
    if not is_terminal:
        return Canvas(is_wide=is_wide)
    has_colors = not environ.get("NO_COLOR") and environ.get("TERM") not in ("dumb", "", None)
    return Canvas(width, has_colors, is_wide)


def _lines(report: CommandOutput, output: OutputFormat) -> Iterator[str]:
    if output is OutputFormat.JSON:
        return iter([as_json(report.document)])
    if output is OutputFormat.YAML:
        return iter([as_yaml(report.document)])
    is_terminal = sys.stdout.isatty()
    width = os.get_terminal_size(sys.stdout.fileno()).columns if is_terminal else 0
    is_wide = output is OutputFormat.WIDE
    shown = canvas(is_terminal=is_terminal, width=width, environ=os.environ, is_wide=is_wide)
    return lines_of(report.blocks, shown)
