"""Foreign text inside our error messages: quoted, on one line, never long."""

from __future__ import annotations

_SHOWN = 40


def excerpt(text: str) -> str:
    """The text in double quotes, control characters escaped, cut after 40 characters."""
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return '"' + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown) + '"'
