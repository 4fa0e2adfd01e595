"""Reasons for a server's missing answer, in words for people."""

from __future__ import annotations

import os
import ssl

import aiohttp


def reason_of(error: Exception) -> str:
    """One line, without the URL and without anything that was sent."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate is not trusted: {_distrust(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        # The text differs between event loops.
        reason = os.strerror(number) if number and number > 0 else error.os_error
        words = _one_line(reason) or type(error.os_error).__name__
        return f"{error.host}:{error.port}: {words}"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return _one_line(error) or type(error).__name__


def _distrust(error: Exception) -> str:
    return error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else str(error)


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
