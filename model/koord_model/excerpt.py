"""Foreign text inside our error messages: quoted, on one line, never long."""

from __future__ import annotations

_SHOWN = 40


def excerpt(text: str, most: int = _SHOWN) -> str:
    """The text in double quotes, control characters escaped, cut after so many characters."""
    shown = text if len(text) <= most else text[:most] + "…"
    return '"' + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown) + '"'
