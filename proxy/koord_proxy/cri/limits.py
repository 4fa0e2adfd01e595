"""Limits of the bytes of one connection that are kept in memory."""

from __future__ import annotations

from koord_proxy.contract import events

MAX_MESSAGE = events.MAX_MESSAGE
"""One request that is held or watched."""
MAX_HELD = 4 * MAX_MESSAGE
"""All requests held or watched at a time on one connection."""
MAX_RESPONSE = 1 << 20
"""A response that is read; those of intercepted calls are tiny."""
MAX_HEADER_BLOCK = 1 << 18
"""One header block, compressed, over all its CONTINUATION frames."""
