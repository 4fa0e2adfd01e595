"""The commands in the comments of deploy/examples."""

from __future__ import annotations

import re
from pathlib import Path

from tests.deploy.manifests import DEPLOY

_REMOVE = re.compile(r"^# .*Remove it\b", re.MULTILINE)
_COMMAND = re.compile(r"^#   (.+)$", re.MULTILINE)
_FILES = sorted((DEPLOY / "examples").glob("*.yaml"))
WITH_COMMANDS = [file for file in _FILES if _REMOVE.search(file.read_text())]
"""Those that say how to try them and how they end."""
WITHOUT_COMMANDS = [file for file in _FILES if file not in WITH_COMMANDS]
"""Pieces to copy."""


def commands(file: Path) -> tuple[list[str], list[str]]:
    """Commands to try an example, and to remove it."""
    text = file.read_text()
    remove = _REMOVE.search(text)
    assert remove
    tried, removed = text[: remove.start()], text[remove.start() :]
    return _COMMAND.findall(tried), _COMMAND.findall(removed)
