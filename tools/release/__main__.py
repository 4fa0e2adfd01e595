"""Make a release of the tag, or a package of the working tree: ``make release``, ``make deb``."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tools.release import archive, distributions, evidence, images, packages, prefix, sources
from tools.release.commands import ReleaseError
from tools.release.sources import ROOT, Sources

T = TypeVar("T")
DIST = ROOT / "dist"
KEPT = ROOT / ".cache"
EXTRAS = ",".join(extra for extra in distributions.EXTRAS if extra != "wheel")


def main() -> None:
    """The program; exits with 1 and one line on failure."""
    parser = argparse.ArgumentParser(prog="make", description=__doc__)
    parser.add_argument("what", choices=("release", "deb", "lock"))
    what = parser.parse_args().what
    try:
        if what == "lock":
            distributions.lock(Sources(ROOT, 0))
            return
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        KEPT.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="pykoord-release-") as scratch:
            (_release if what == "release" else deb)(Path(scratch), DIST)
    except ReleaseError as error:
        sys.exit(f"make {what}: {error}")


def deb(scratch: Path, to: Path, kept: Path = KEPT) -> Path:
    """Build the ``.deb`` of the working tree, and return its path.

    ``scratch`` is an empty folder for what is made on the way; libraries stay in ``kept``.

    Raises:
        ReleaseError: it cannot be made here.
    """
    source = sources.working_tree(scratch / "source")
    wheel = distributions.build(source, scratch, "--wheel")
    libraries = distributions.libraries(source.folder / distributions.LOCK, kept)
    root = _tree(source, wheel, libraries, scratch)
    return packages.deb(source, root, to)


def _release(scratch: Path, to: Path) -> None:
    source = sources.tagged(scratch / "source")
    lock = source.folder / distributions.LOCK
    shutil.copy(lock, to)
    wheel = _timed("sdist and wheel", lambda: distributions.build(source, to))
    libraries = _timed("libraries", lambda: distributions.libraries(lock, KEPT))
    root = _timed("tree", lambda: _tree(source, wheel, libraries, scratch))
    installed = root / prefix.PREFIX.relative_to("/")
    _timed("SBOM", lambda: evidence.bill_of_materials(source, installed, to))
    _timed(".deb", lambda: packages.deb(source, root, to))
    _timed(".rpm", lambda: packages.rpm(source, root, to, scratch))
    _timed("archive", lambda: archive.build(source, wheel, libraries, EXTRAS, to))
    _timed("images", lambda: images.build(source, libraries, to, scratch))
    _timed("checksums", lambda: evidence.checksums(to))


def _tree(source: Sources, wheel: Path, libraries: Path, scratch: Path) -> Path:
    root = scratch / "root"
    root.mkdir()
    packages.tree(source, prefix.install(source, wheel, libraries, EXTRAS, root), root)
    return root


def _timed(what: str, make: Callable[[], T]) -> T:
    begin = time.monotonic()
    made = make()
    print(f"{what}: {time.monotonic() - begin:.0f} s", flush=True)
    return made


if __name__ == "__main__":
    main()
