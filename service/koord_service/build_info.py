"""The build that runs: the one place that programs, pages and metrics ask."""

from __future__ import annotations

import platform
from typing import NamedTuple

from koord_model.version import COMMIT, VERSION


class BuildInfo(NamedTuple):
    """Version of the distribution, its commit ("checkout" without a release), Python."""

    version: str
    revision: str
    python: str

    def labels(self) -> dict[str, str]:
        """Names and values of the metric's labels."""
        return self._asdict()


def build_info() -> BuildInfo:
    """Return what this process runs."""
    revision = "checkout" if COMMIT.startswith("$") else COMMIT
    return BuildInfo(VERSION, revision, platform.python_version())
