"""Installation of an extra's libraries: the one place that describes it."""

from __future__ import annotations

import re
import shlex
import sys
from importlib import metadata

_DISTRIBUTION = "pykoord"
_NAME = re.compile(r"[\w.-]+")


def install_command(extra: str) -> str:
    """Build the command that installs those libraries of ``extra`` that this interpreter lacks.

    It names the libraries, not ``pykoord[extra]``: pykoord is on no package index, and the
    checkout or wheel that it was installed from may be gone.
    """
    needed = requirements(extra)
    missing = [requirement for requirement in needed if not _is_installed(requirement)]
    return shlex.join([sys.executable, "-m", "pip", "install", *(missing or needed)])


def requirements(extra: str) -> list[str]:
    """Requirements of ``extra`` as pip takes them; the extra of a checkout if not installed."""
    try:
        declared = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return [f".[{extra}]"]
    marker = f'extra == "{extra}"'
    split = (requirement.partition(";") for requirement in declared)
    return [name.strip() for name, _, condition in split if condition.strip() == marker]


def _is_installed(requirement: str) -> bool:
    name = _NAME.match(requirement)
    try:
        return name is not None and bool(metadata.version(name[0]))
    except metadata.PackageNotFoundError:
        return False
