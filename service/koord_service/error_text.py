"""Errors as one line of a log or a status page."""

from __future__ import annotations


def describe_error(error: Exception) -> str:
    """The text of a ValueError, which is for people; of any other error its kind too."""
    text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())


def describe_os_error(error: OSError) -> str:
    """Describe an error of the system, with the file."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def first_error(error: Exception) -> Exception:
    """Return the error itself, where a group of tasks wraps what one of them raised."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
