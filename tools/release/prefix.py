"""The programs with their libraries, as packages and images install them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tools.release.commands import ReleaseError, run
from tools.release.sources import Sources

PREFIX = Path("/opt/pykoord")
PYTHON = "python3.11"
"""Python of Debian 12, and a package of its own in Red Hat's 9: packages have its byte code."""
INTERPRETER = f"/usr/bin/{PYTHON}"


def install(sources: Sources, wheel: Path, libraries: Path, extras: str, root: Path) -> Path:
    """Install the wheel into ``/opt/pykoord`` of a root folder, and return that.

    Raises:
        ReleaseError: this is another Python than the packages are for.
    """
    if sys.version_info[:2] != (3, 11):
        raise ReleaseError(f"packages are for {PYTHON}; this is {sys.version.split()[0]}")
    prefix = root / PREFIX.relative_to("/")
    run(INTERPRETER, "-m", "venv", "--without-pip", prefix)
    run(
        *(sys.executable, "-m", "pip", f"--python={prefix}/bin/python", "install", "--quiet"),
        *("--no-compile", "--no-index", f"--find-links={libraries}", f"{wheel}[{extras}]"),
        # Beside a checkout pip would find the project installed already.
        folder=root,
        env={"PYTHONPATH": ""},
    )
    _keep_own_programs(prefix, root)
    _set_times(prefix, sources.epoch)
    _compile(prefix, root)
    _set_times(prefix, sources.epoch)
    return prefix


def programs(prefix: Path) -> list[str]:
    """Names of the project's programs."""
    return sorted(path.name for path in (prefix / "bin").iterdir() if "koord" in path.name)


def packages(prefix: Path) -> Path:
    """Return the folder of Python packages."""
    return prefix / "lib" / PYTHON / "site-packages"


def _keep_own_programs(prefix: Path, root: Path) -> None:
    """Leave out those of libraries, and let ours find their Python without the root folder."""
    for path in (prefix / "bin").iterdir():
        if "koord" in path.name:
            path.write_text(path.read_text().replace(str(prefix), str(PREFIX), 1))
        elif not path.name.startswith("python"):
            path.unlink()
    settings = prefix / "pyvenv.cfg"
    settings.write_text(settings.read_text().replace(str(root), ""))
    for metadata in packages(prefix).glob("*.dist-info"):
        # Where the wheel was, which is nowhere later, and pip's own list of files.
        for name in ("direct_url.json", "RECORD"):
            (metadata / name).unlink(missing_ok=True)


def _compile(prefix: Path, root: Path) -> None:
    """Write byte code beside modules: services cannot, and every start would compile anew."""
    run(
        *(INTERPRETER, "-m", "compileall", "-q", "-j0", "--invalidation-mode=timestamp"),
        *("-s", root, "-p", "/", prefix / "lib"),
        env={"PYTHONDONTWRITEBYTECODE": ""},
    )


def _set_times(prefix: Path, epoch: int) -> None:
    for folder, folders, files in os.walk(prefix):
        for name in (*folders, *files):
            os.utime(Path(folder, name), (epoch, epoch), follow_symlinks=False)


def copy(prefix: Path, root: Path) -> None:
    """Copy an installed prefix into another root folder."""
    shutil.copytree(prefix, root / PREFIX.relative_to("/"), symlinks=True)
