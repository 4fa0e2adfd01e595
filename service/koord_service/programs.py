"""Starts a program, and names the missing extra if a library is not installed."""

from __future__ import annotations

import importlib
import sys

_OURS = ("koord_", "koordlet", "koordctl")


def start(program: str, module: str, extra: str) -> None:
    """Import ``module`` and call its ``main``, whose result is the exit status, as scripts' is.

    A program's ``extra`` installs the libraries that it needs. If one is missing, one line on
    stderr names the extra, and the exit status is 1.
    """
    try:
        status = importlib.import_module(module).main()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith(_OURS):
            raise
        hint = f"needs the extra \"{extra}\": pip install 'pykoord[{extra}]'"
        sys.stderr.write(f"{program}: {hint} ({error})\n")
        raise SystemExit(1) from None
    raise SystemExit(status)
