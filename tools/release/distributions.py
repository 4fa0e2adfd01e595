"""Distributions for pip: the project's own, and the locked ones of libraries."""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

from tools.release.commands import run
from tools.release.sources import Sources

LOCK = "requirements.lock"
EXTRAS = (
    "proxy",
    "koordlet",
    "manager",
    "scheduler",
    "descheduler",
    "koordctl",
    "devices",
    "kubeconfig",
    "nvidia",
    "tracing",
    "wheel",
)
"""Extras whose libraries are locked: those of production, and what builds the wheel."""


def build(sources: Sources, to: Path, *formats: str) -> Path:
    """Build ``formats`` (``--sdist``, ``--wheel``) into a folder, and return the wheel."""
    run(
        *(sys.executable, "-m", "build", "--no-isolation", *formats, f"--outdir={to}"),
        sources.folder,
        env=sources.environment,
    )
    [wheel] = to.glob("*.whl")
    return wheel


def libraries(lock: Path, kept: Path) -> Path:
    """Return a folder in ``kept`` with a wheel of each locked library, checked by its digest."""
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
    folder = kept / f"wheels-{digest[:16]}"
    if not folder.exists():
        new = folder.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps"),
            *("--only-binary=:all:", f"--requirement={lock}", f"--dest={new}"),
        )
        new.rename(folder)
    return folder


def lock(sources: Sources) -> None:
    """Write the lock anew: the newest versions, for each Python and machine, with digests."""
    run(
        *(
            sys.executable,
            "-m",
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--universal",
            "--generate-hashes",
            "--upgrade",
        ),
        *("--python-version=3.11", "--no-header", "--no-annotate", f"--output-file={LOCK}"),
        *(f"--extra={extra}" for extra in EXTRAS),
        "pyproject.toml",
        folder=sources.folder,
    )
