"""Man pages and completions, made of what the programs' parsers of arguments know.

``python -m tools.release.manuals ROOT`` writes those of the installed programs.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from importlib.metadata import EntryPoint, distribution
from pathlib import Path
from unittest.mock import patch

import shtab
from argparse_manpage.manpage import Manpage
from koord_model.version import VERSION

COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/{}",
    "zsh": "usr/share/zsh/vendor-completions/_{}",
    "fish": "usr/share/fish/vendor_completions.d/{}.fish",
}
"""Files in which shells look for the completions of a program."""
_COMMAND = "koordctl"
_ALIAS = "kubectl-koord"
"""The same program, which kubectl starts."""


class _ParserFound(BaseException):
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def programs() -> list[EntryPoint]:
    """Return the installed programs."""
    scripts = distribution("pykoord").entry_points.select(group="console_scripts")
    return sorted(
        (script for script in scripts if script.name != _ALIAS), key=lambda script: script.name
    )


def parser(program: EntryPoint) -> argparse.ArgumentParser:
    """Return the parser that a program would print its help by, and koordctl's of all commands.

    Raises:
        LookupError: it prints none.
    """
    if program.name == _COMMAND:
        # For its help it makes no parsers of commands.
        from koordctl.commands import parser as of_commands

        return of_commands()

    def found(self: argparse.ArgumentParser, _: object = None) -> None:
        raise _ParserFound(self)

    arguments = patch.object(sys, "argv", [program.name, "--help"])
    with arguments, patch.object(argparse.ArgumentParser, "print_help", found):
        try:
            program.load()()
        except _ParserFound as error:
            return error.parser
    raise LookupError(f"{program.name} has no --help")


def section(program: str) -> int:
    """Return 1 for what people run, 8 for what runs as a service."""
    return 1 if program == _COMMAND else 8


def manual(program: EntryPoint) -> str:
    """The man page of a program in the language of troff, of the day of $SOURCE_DATE_EPOCH."""
    known = parser(program)
    about = {
        "description": (known.description or "").partition(": ")[0].rstrip("."),
        "project_name": "pykoord",
        "version": VERSION,
        "manual_section": section(program.name),
        "manual_title": "pykoord",
    }
    return str(Manpage(known, about))


def write(root: Path) -> None:
    """Write man pages and completions of all programs into the folders of a root."""
    for program in programs():
        folder = f"usr/share/man/man{section(program.name)}"
        text = manual(program).encode()
        _put(
            root / folder / f"{program.name}.{section(program.name)}.gz",
            gzip.compress(text, 9, mtime=0),
        )
        for shell, pattern in COMPLETIONS.items():
            _put(
                root / pattern.format(program.name), shtab.complete(parser(program), shell).encode()
            )


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
