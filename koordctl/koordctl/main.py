"""The ``koordctl`` program: parses arguments, runs one command, shows its report."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from koord_host.kernel import KernelFilesystem
from koord_service.terminal import exit_with

from koordctl.commands import PROGRAM, chosen, parser
from koordctl.errors import AskError, UsageError
from koordctl.output.result import Command, OutputFormat
from koordctl.output.writer import write

_INTERRUPTED = 130
"""Exit code, as of shells; the user knows why."""


def main(argv: Sequence[str] | None = None) -> None:
    """The console script; exits with 2 on wrong arguments, 1 on failure, 130 on Ctrl-C."""
    words = sys.argv[1:] if argv is None else argv
    arguments = parser(chosen(words)).parse_args(words)
    command: Command = arguments.command
    arguments.kernel = KernelFilesystem
    try:
        report = command(arguments)
        write(report, OutputFormat(getattr(arguments, "output", OutputFormat.TABLE)))
    except UsageError as error:
        exit_with(PROGRAM, 2, str(error))
    except AskError as error:
        exit_with(PROGRAM, 1, str(error))
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    except BrokenPipeError:
        # The reader, such as head, has closed the pipe: nothing more may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if report.problem:
        exit_with(PROGRAM, 1, report.problem)
    if report.problem is not None:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
