"""Errors that end a command with one line, which has the way out."""

from __future__ import annotations


class AskError(Exception):
    """Error about a thing that is not there, or an answer that did not come: exit code 1."""


class UsageError(ValueError):
    """Error about arguments that cannot be, or do not go together: exit code 2."""
