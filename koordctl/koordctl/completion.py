"""``koordctl completion``: a script by which a shell completes commands and flags."""

from __future__ import annotations

import argparse

from koordctl.output.result import CommandOutput

SHELLS = ("bash", "zsh", "fish")


def run(arguments: argparse.Namespace) -> CommandOutput:
    """The script for a shell."""
    # Imported late: no other command needs them.
    import shtab

    from koordctl.commands import parser

    lines = str(shtab.complete(parser(), shell=arguments.shell)).rstrip("\n").split("\n")
    return CommandOutput(lines, lines)
