"""Packages of distributions: ``.deb`` and ``.rpm``, of one tree of files."""

from __future__ import annotations

import gzip
import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from koord_model.version import VERSION

from tools.release import prefix
from tools.release.commands import run
from tools.release.sources import Sources

UNITS = "usr/lib/systemd/system"
DOCUMENTS = "usr/share/doc/pykoord"
_TEMPLATES = "deploy/packages"


def tree(sources: Sources, installed: Path, root: Path) -> None:
    """Add to a root folder with the programs what belongs to a system: units, manuals and more.

    The programs are ``installed`` in ``root`` already.
    """
    (root / "usr/bin").mkdir(parents=True)
    for program in prefix.programs(installed):
        (root / "usr/bin" / program).symlink_to(prefix.PREFIX / "bin" / program)
    run(
        *(sys.executable, "-m", "tools.release.manuals", root),
        folder=sources.folder,
        env={"PYTHONPATH": str(prefix.packages(installed)), **sources.environment},
    )
    for path in sources.folder.glob("systemd/*.s*"):
        if path.is_file():
            _put(root / UNITS / path.name, path.read_bytes())
    docker = "systemd/koord-runtime-proxy.service.d/docker.conf"
    _put(root / "usr/share/pykoord/docker.conf", (sources.folder / docker).read_bytes())
    _put(root / DOCUMENTS / "copyright", (sources.folder / "LICENSE").read_bytes())
    changes = (sources.folder / "CHANGELOG.md").read_bytes()
    _put(root / DOCUMENTS / "changelog.gz", gzip.compress(changes, 9, mtime=0))
    users = (sources.folder / _TEMPLATES / "pykoord.sysusers").read_bytes()
    _put(root / "usr/lib/sysusers.d/pykoord.conf", users)
    for path in _paths(root):
        os.utime(path, (sources.epoch, sources.epoch), follow_symlinks=False)


def deb(sources: Sources, root: Path, to: Path) -> Path:
    """Build the ``.deb`` of a tree, and return its path.

    Raises:
        ReleaseError: dpkg-deb is not installed, or failed.
    """
    architecture = run("dpkg", "--print-architecture").strip()
    control = root / "DEBIAN"
    files = [path for path in _paths(root) if not path.is_dir() or path.is_symlink()]
    values = {
        "VERSION": VERSION,
        "ARCHITECTURE": architecture,
        "SIZE": str(sum(path.lstat().st_size for path in files) // 1024),
        "SERVICES": " ".join(_services(root)),
    }
    control.mkdir()
    for template in (sources.folder / _TEMPLATES / "debian").iterdir():
        path = control / template.name
        path.write_text(_filled(template.read_text(), values))
        path.chmod(0o644 if template.name == "control" else 0o755)
    sums = (
        f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n"
        for path in files
        if not path.is_symlink()
    )
    (control / "md5sums").write_text("".join(sums))
    package = to / f"pykoord_{VERSION}_{architecture}.deb"
    run(
        *("dpkg-deb", "--root-owner-group", "-Zzstd", "-z9", "--build", root, package),
        env=sources.environment,
    )
    shutil.rmtree(control)
    return package


def rpm(sources: Sources, root: Path, to: Path, scratch: Path) -> Path:
    """Build the ``.rpm`` of a tree, and return its path.

    Raises:
        ReleaseError: rpmbuild is not installed, or failed.
    """
    listed = scratch / "rpm-files"
    values = {
        "VERSION": VERSION,
        "FILES": str(listed),
        "SERVICES": " ".join(_services(root)),
    }
    spec = scratch / "pykoord.spec"
    spec.write_text(_filled((sources.folder / _TEMPLATES / spec.name).read_text(), values))
    own = ("opt/pykoord", "usr/share/doc/pykoord", "usr/share/pykoord")
    files = {
        str(path.relative_to(root)) for path in _paths(root) if path.is_symlink() or path.is_file()
    }
    others = sorted(name for name in files if not name.startswith(own))
    listed.write_text("".join(f'"/{name}"\n' for name in (*own, *others)))
    run(
        *("rpmbuild", "-bb", "--quiet", spec, "--define", f"tree {root}"),
        *("--define", f"_topdir {scratch}/rpm", "--define", f"_rpmdir {scratch}"),
        *("--define", f"_dbpath {scratch}/rpmdb"),
        env=sources.environment,
    )
    name = f"pykoord-{VERSION}-1.{platform.machine()}.rpm"
    return Path(shutil.move(scratch / platform.machine() / name, to / name))


def _services(root: Path) -> list[str]:
    return sorted(path.name for path in (root / UNITS).glob("*.service"))


def _filled(template: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"@{name}@", value)
    return template


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _paths(root: Path) -> Iterator[Path]:
    """All that is below a folder, in an order that is always the same."""
    for folder, folders, files in os.walk(root):
        folders.sort()
        yield from (Path(folder, name) for name in sorted((*folders, *files)))
