"""Programs that a release is made by, run one after the other."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


class ReleaseError(Exception):
    """Failure to build a release; one line for people, and a program's last lines."""


def run(
    *command: str | Path, folder: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run a program in a folder, with ``env`` added to its environment, and return its output.

    Raises:
        ReleaseError: it is not installed, or failed.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env=os.environ | (env or {}),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except FileNotFoundError:
        raise ReleaseError(f"{words[0]} is not installed; tools/system_packages release") from None
    if done.returncode:
        raise ReleaseError(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout
