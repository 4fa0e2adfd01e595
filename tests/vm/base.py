"""The node's root directory without pykoord: made by debootstrap once, and kept."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.vm import recipe

# Root's PATH need not have the system's directories, which debootstrap needs.
PATH = f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"


def cache() -> Path:
    """Where roots and wheels are kept; it may be deleted at any time."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(home) / "pykoord" / "vm"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def root() -> Path:
    """The root directory, made now if this recipe's is not there yet (about a minute).

    Raises:
        RuntimeError: it cannot be made here; the message says why.
    """
    there = cache() / f"root-{recipe.key()}"
    with _locked(cache() / "lock"):
        if not there.exists():
            _make(there)
    return there


def run(*command: str, **more: str) -> str:
    """Run a program of the host, with ``more`` in its environment, and return what it says.

    Raises:
        RuntimeError: it failed; the message has the end of its output.
    """
    done = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PATH": PATH} | more,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def mirror(suite: str) -> str:
    """The archive from which this machine's apt takes the suite's packages."""
    rows = run("apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)")
    for row in rows.splitlines():
        release, component, uri = row.split(maxsplit=2)
        if (release, component) == (suite, "main"):
            return uri
    raise RuntimeError(f"apt on this machine has no source for {suite}/main")


def _make(there: Path) -> None:
    # Beside its place, so that a root is either whole or not there.
    with tempfile.TemporaryDirectory(dir=there.parent, prefix="new-") as scratch:
        new = Path(scratch) / "root"
        _debootstrap(new)
        for name, text in recipe.FILES.items():
            path = new / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for command in recipe.FINISH:
            run("chroot", str(new), *command)
        for spent in ("var/cache/apt", "var/lib/apt/lists"):
            shutil.rmtree(new / spent)
        new.rename(there)


def _debootstrap(new: Path) -> None:
    include = f"--include={','.join(recipe.PACKAGES)}"
    source = (recipe.SUITE, str(new), mirror(recipe.SUITE))
    # It mounts /proc and /sys in the root. In a namespace of its own, none can be left
    # behind for the removal of a half-made root to walk into.
    run("unshare", "--mount", "debootstrap", "--variant=minbase", include, *source, **_proxy())


def _proxy() -> dict[str, str]:
    """The proxy that apt goes through, if any, for debootstrap, which does not ask apt."""
    said = run("apt-config", "dump", "--format", "%v%n", "Acquire::http::Proxy").split()
    return {"http_proxy": said[0]} if said else {}


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def missing(programs: Sequence[str]) -> list[str]:
    """Those of the programs that are not installed."""
    return [program for program in programs if shutil.which(program, path=PATH) is None]
