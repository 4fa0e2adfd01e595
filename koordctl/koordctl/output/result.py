"""The result of a command, and the options for how to show it. No IO."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from koordctl.output.tables import Block


class OutputFormat(StrEnum):
    """Values of ``-o``; ``TABLE`` is that of its absence."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """``document`` is for programs and ``blocks`` are for people: both say the same.

    ``problem`` is why the command fails after it has shown all of it: exit code 1, "" if the
    blocks say it already.
    """

    document: Any
    blocks: Iterable[Block]
    problem: str | None = None


Command = Callable[[argparse.Namespace], CommandOutput]


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add ``-o``; ``--json`` is its old spelling, accepted until 1.0."""
    parser.add_argument(
        "-o",
        "--output",
        choices=[OutputFormat.WIDE.value, OutputFormat.JSON.value, OutputFormat.YAML.value],
        default=OutputFormat.TABLE.value,
        help="wide: all columns, nothing shortened; json or yaml: the same for programs",
    )
    parser.add_argument(
        "--json",
        dest="output",
        action="store_const",
        const=OutputFormat.JSON.value,
        help=argparse.SUPPRESS,
    )
