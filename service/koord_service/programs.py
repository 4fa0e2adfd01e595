"""Starts a program, and names the missing extra if a library is not installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

from koord_service.extras import install_command
from koord_service.terminal import exit_with

_OURS = ("koord_", "koordlet", "koordctl")


def start(program: str, module: str, extra: str) -> None:
    """Import ``module`` and call its ``main``, whose result is the exit status, as scripts' is.

    Exits as ``needs_extra``.
    """
    with needs_extra(program, extra):
        status = importlib.import_module(module).main()
    raise SystemExit(status)


@contextmanager
def needs_extra(program: str, extra: str) -> Iterator[None]:
    """Name the ``extra`` of ``program`` that installs its libraries if one of them is missing.

    One line on stderr does, and the exit status is 1.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith(_OURS):
            raise
        lacks = f'the extra "{extra}" is not installed ({error})'
        exit_with(program, 1, f"{lacks}; run: {install_command(extra)}")
