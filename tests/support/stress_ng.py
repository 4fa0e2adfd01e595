"""stress-ng as what a real container runs: the host's program, with the host's libraries."""

from __future__ import annotations

import shutil

from tests.support.host_program import HostProgram


def why_not() -> str | None:
    """What keeps stress-ng from running here; None where nothing does."""
    return None if shutil.which("stress-ng") else "not installed: stress-ng"


class StressNg(HostProgram):
    """A CRI client whose containers run stress-ng with these arguments, until stopped."""

    def __init__(self, address: object, *arguments: str) -> None:
        command = (shutil.which("stress-ng") or "", "--quiet", "--timeout", "0", *arguments)
        super().__init__(address, *command)
