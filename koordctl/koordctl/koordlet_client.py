"""Asking koordlet: its address, and its pages as values."""

from __future__ import annotations

import argparse

from koordctl.errors import AskError
from koordctl.proxy_documents import A, read
from koordctl.status_client import KOORDLET, ask

ADDRESS = "unix:///var/run/koordlet/status.sock"
"""Default address of koordlet's status; everybody on the node may ask."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add koordlet's address beside that of another program."""
    _add(parser, "--koordlet-address")


def add_address(parser: argparse.ArgumentParser) -> None:
    """Add koordlet's address to a command that asks koordlet alone."""
    _add(parser, "--address")


def _add(parser: argparse.ArgumentParser, flag: str) -> None:
    parser.add_argument(
        flag,
        default=ADDRESS,
        metavar="ADDRESS",
        help="koordlet's --status-address: unix:///PATH or HOST:PORT (default: %(default)s)",
    )


def ask_koordlet(address: str, page: str, kind: type[A]) -> tuple[bytes, A]:
    """A page as it came and as a value.

    Raises:
        UsageError: the address is not valid.
        AskError: koordlet does not answer, or another program does.
    """
    body = ask(address, page, KOORDLET)
    try:
        return body, read(body, kind)
    except ValueError as error:
        raise AskError(f"{address} does not answer {page} as koordlet does: {error}") from None
