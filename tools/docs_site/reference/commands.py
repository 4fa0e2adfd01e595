"""Commands of koordctl, of its parser. No IO."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from koordctl.commands import parser as koordctl_parser

from tools.docs_site.reference.markdown import code, table


def markdown() -> str:
    """Return a section for each command, with those below it."""
    return "\n".join(_section(path, parser) for path, parser in commands(koordctl_parser()) if path)


def commands(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Yield the words and the parser of each command, in order."""
    yield path, parser
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to its parts
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, below in action.choices.items():
                yield from commands(below, (*path, name))


def _section(path: tuple[str, ...], parser: argparse.ArgumentParser) -> str:
    rows = list(_arguments(parser))
    about = parser.description or ""
    shown = table(("argument", "default", "what it is"), rows) if rows else ""
    return f"{'#' * min(len(path) + 1, 4)} koordctl {' '.join(path)}\n\n{about}\n\n{shown}"


def _arguments(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, str]]:
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction | argparse._HelpAction):  # noqa: SLF001
            continue
        name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
        shown = f"{name} {value}" if action.option_strings and value else name
        default = action.default
        is_shown = default not in (None, False, argparse.SUPPRESS, "", [], ())
        about = (action.help or "") % {**vars(action), "prog": parser.prog}
        yield code(shown), code(str(default)) if is_shown else "", about
