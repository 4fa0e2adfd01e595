"""The parser of arguments: errors are one line, with the names that may be meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from typing import NoReturn

from koord_service.terminal import exit_with

from koordctl.suggestions import did_you_mean

_CHOICE = re.compile(r"(?s)^argument (?:\S+ )?.*?invalid choice: '(.*?)' \(choose from (.*)\)$")
_NAME = re.compile(r"[\w.-]+")
_UNKNOWN = re.compile(r"^unrecognized arguments: (--[\w-]+)")


class CommandParser(argparse.ArgumentParser):
    """Prints what is wrong as one line, and exits with 2."""

    def error(self, message: str) -> NoReturn:
        hint = _hint(message, flags(self))
        exit_with(self.prog.partition(" ")[0], 2, f"{message}{hint} (see {self.prog} --help)")


def _hint(message: str, known: Iterable[str]) -> str:
    """Names like the one that an error is about; "" if it is about none, or none is like it."""
    if choice := _CHOICE.match(message):
        return did_you_mean(choice[1], _NAME.findall(choice[2]))
    if unknown := _UNKNOWN.match(message):
        return did_you_mean(unknown[1], known)
    return ""


def flags(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The long flags of a parser and of all below it."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them
        yield from (flag for flag in action.option_strings if flag.startswith("--"))
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for below in action.choices.values():
                yield from flags(below)
