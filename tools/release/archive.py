"""One file with all programs and their libraries, which needs nothing but a Python."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from koord_model.version import VERSION

from tools.release.commands import run
from tools.release.prefix import PYTHON
from tools.release.sources import Sources


def build(sources: Sources, wheel: Path, libraries: Path, extras: str, to: Path) -> Path:
    """Build the archive, and return its path.

    Raises:
        ReleaseError: pex failed.
    """
    archive = to / f"pykoord-{VERSION}-{PYTHON}-{platform.machine()}.pex"
    run(
        *(sys.executable, "-m", "pex", f"pykoord[{extras}] @ {wheel.as_uri()}"),
        *("--no-index", f"--find-links={libraries}", "--no-compile"),
        *("--include-tools", "--venv=prepend", f"--python-shebang=/usr/bin/env {PYTHON}"),
        *("--script=koordctl", f"--output-file={archive}"),
        folder=to,
        env=sources.environment,
    )
    return archive
