"""The node's disk: the kept root, the package of this checkout, and the checkout in /opt."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.vm import base, readme, recipe
from tools.release import sources
from tools.release.__main__ import deb

SIZE = "1900M"

# The kept root stays as it is: what packages write to is copied, and for the rest a name is enough.
_COPY = """\
set -eu
cp --archive --link "$kept" "$root"
for changed in etc var opt; do
    rm -r "$root/$changed"
    cp --archive "$kept/$changed" "$root/$changed"
done
"""


def make(directory: Path) -> Path:
    """Write the disk into a directory of the caller's, and return its path.

    Raises:
        RuntimeError: it cannot be made; the message has what the failing program said.
        ReleaseError: the package cannot be made; the same.
    """
    root, disk = directory / "root", directory / "node.ext4"
    base.run("sh", "-c", _COPY, kept=str(base.root()), root=str(root))
    checkout = root / recipe.CHECKOUT.lstrip("/")
    sources.working_tree(checkout)
    _install(checkout, root, directory)
    base.run("mke2fs", "-q", "-t", "ext4", "-d", str(root), str(disk), SIZE)
    shutil.rmtree(root)
    return disk


def _install(checkout: Path, root: Path, directory: Path) -> None:
    """Do the README's first step: `make deb` here, and the other command on the node."""
    _, install = readme.steps((checkout / "README.md").read_text())[1]
    scratch, to = directory / "release", checkout / "dist"
    scratch.mkdir()
    to.mkdir()
    deb(scratch, to, base.cache())
    shutil.rmtree(scratch)
    base.run(
        *("chroot", str(root), "sh", "-c", f"cd {recipe.CHECKOUT} && {install}"),
        PATH="/usr/sbin:/usr/bin:/sbin:/bin",
        TMPDIR="/tmp",
    )
    shutil.rmtree(to)
