"""Callbacks for warnings of the controller runtime. No IO."""

from __future__ import annotations

from collections.abc import Callable

OnWarning = Callable[[str], None]
"""Gets one line without a line end."""


def ignore_warning(_line: str) -> None:
    """Drop the line."""
