"""The build that runs: the one place that programs, pages and metrics ask."""

from __future__ import annotations

import platform
from typing import NamedTuple

from koord_model.version import VERSION


class BuildInfo(NamedTuple):
    """Version of the distribution, its commit ("unknown" where nobody wrote it down), Python."""

    version: str
    revision: str
    python: str

    def labels(self) -> dict[str, str]:
        """Names and values of the metric's labels."""
        return self._asdict()


def build_info() -> BuildInfo:
    """Return what this process runs."""
    return BuildInfo(VERSION, "unknown", platform.python_version())
