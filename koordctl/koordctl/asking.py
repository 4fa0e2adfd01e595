"""Asking koordlet: its address, and its pages as values."""

from __future__ import annotations

from koordctl.answers import A, read
from koordctl.client import KOORDLET, AskError, ask

ADDRESS = "unix:///var/run/koordlet/status.sock"
"""Where koordlet serves its status unless told otherwise; everybody on the node may ask."""


def ask_koordlet(address: str, page: str, kind: type[A]) -> tuple[bytes, A]:
    """A page as it came and as a value.

    Raises:
        AddressError: the address is none.
        AskError: koordlet does not answer, or it is somebody else who does.
    """
    body = ask(address, page, KOORDLET)
    try:
        return body, read(body, kind)
    except ValueError as error:
        raise AskError(f"{address} answers {page} as koordlet does not: {error}") from None
