"""Where the parts of the controller runtime send lines for people. No IO."""

from __future__ import annotations

from collections.abc import Callable

OnWarning = Callable[[str], None]
"""Gets one line without a line end."""


def ignore_warning(_line: str) -> None:
    """Drop the line."""
