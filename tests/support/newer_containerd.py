"""A containerd that is newer than the machine's: its package is unpacked, not installed.

It comes from where the machine's own apt gets its packages, from a newer
suite, and apt checks its signature. Apt is given its own state, so that the
machine's knows nothing of it. What was fetched is kept in the user's cache.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.containerd import Containerd, why_not

__all__ = ["Containerd", "programs"]

PACKAGE = "containerd"
NEEDED = ("containerd", "containerd-shim-runc-v2", "ctr")
_TARGETS = "$(CREATED_BY)|$(ORIGIN)|$(CODENAME)|$(COMPONENT)|$(REPO_URI)"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

_CONFIGURATION = """\
Dir::Etc::SourceList "{directory}/newer.list";
Dir::Etc::SourceParts "-";
Dir::State "{directory}";
Dir::State::Lists "{directory}/lists";
Dir::State::Status "/dev/null";
Dir::Cache "{directory}/cache";
APT::Sandbox::User "root";
Acquire::Retries "0";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


class NotToBeHadError(Exception):
    """There is no newer containerd here; the message says why."""


@functools.cache
def programs(suite: str) -> Path:
    """The directory with the programs of a suite's containerd, fetched unless it was before.

    Raises:
        NotToBeHadError: no root, no Debian, or no network.
    """
    reason = why_not()
    if reason is not None:
        raise NotToBeHadError(reason)
    kept = _cache() / f"{PACKAGE}-{suite}"
    directory = kept / "usr" / "bin"
    if not kept.exists():
        _fetch(suite, kept)
    missing = [name for name in NEEDED if not (directory / name).exists()]
    if missing:
        raise NotToBeHadError(f"{kept}: the package has no {', '.join(missing)}")
    return directory


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pykoord"


def _fetch(suite: str, kept: Path) -> None:
    if shutil.which("apt-get") is None:
        raise NotToBeHadError(f"a newer {PACKAGE} is fetched with apt-get, which is not there")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=kept.parent) as name:
        directory = Path(name)
        (directory / "newer.list").write_text(_source(suite))
        (directory / "apt.conf").write_text(_CONFIGURATION.format(directory=directory))
        (directory / "lists" / "partial").mkdir(parents=True)
        (directory / "cache" / "archives" / "partial").mkdir(parents=True)
        apt = ["apt-get", "-c", str(directory / "apt.conf"), "-qq"]
        _run([*apt, "-o", "APT::Update::Error-Mode=any", "update"], directory)
        _run([*apt, "download", PACKAGE], directory)
        [package] = directory.glob(f"{PACKAGE}_*.deb")
        unpacked = directory / "unpacked"
        _run(["dpkg-deb", "-x", str(package), str(unpacked)], directory)
        try:
            unpacked.rename(kept)
        except OSError:
            # Another run may have been first; what it left is whole.
            if not kept.exists():
                raise


def _source(suite: str) -> str:
    """The line of sources.list that means the machine's own mirror, with another suite."""
    for line in _run(["apt-get", "indextargets", "--format", _TARGETS], Path("/")).splitlines():
        created_by, origin, codename, component, uri = line.split("|")
        # Updates and security have mirrors of their own, backports have other suites.
        plain = "-" not in codename and "security" not in uri
        if (created_by, origin, component) == ("Packages", "Debian", "main") and plain:
            # Without the keyring, those that apt trusts for every source count.
            signed = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
            return f"deb {signed}{uri} {suite} main\n"
    raise NotToBeHadError("apt knows no Debian mirror (or needs apt-get update first)")


def _run(command: list[str], directory: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=directory, check=True, capture_output=True, text=True, timeout=300
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise NotToBeHadError(f"{command[0]}: {' '.join(said.split())[-300:]}") from None
    return done.stdout
