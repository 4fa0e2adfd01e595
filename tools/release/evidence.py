"""Evidence about a release: its bill of materials, and checksums."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

from koord_model.version import VERSION

from tools.release.commands import run
from tools.release.sources import Sources

SUMS = "SHA256SUMS"


def bill_of_materials(sources: Sources, installed: Path, to: Path) -> Path:
    """Write what an installed prefix is made of as CycloneDX, and return the path."""
    bill = to / f"pykoord-{VERSION}.cdx.json"
    run(
        *(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"),
        *("--pyproject", sources.folder / "pyproject.toml", "--mc-type=application"),
        *("--output-format=JSON", "--output-file", bill, installed / "bin/python"),
    )
    return bill


def checksums(folder: Path) -> None:
    """Write the SHA-256 of each file of a release, as ``sha256sum --check`` takes them."""
    lines = (f"{_digest(path)}  {path.relative_to(folder)}\n" for path in _files(folder))
    (folder / SUMS).write_text("".join(sorted(lines, key=lambda line: line.partition("  ")[2])))


def _files(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
