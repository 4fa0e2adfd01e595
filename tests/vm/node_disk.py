"""The node's disk: the kept root, and pykoord out of this checkout in /opt."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.vm import base, readme, recipe

CHECKOUT = Path(__file__).parents[2]
SIZE = "1500M"

# A mount namespace of its own: the kept root stays as it is, and nothing is left mounted.
_INSTALL = """\
set -eu
root=$1 opt=$2 wheels=$3 disk=$4 install=$5
mount --bind "$opt" "$root/opt"
mkdir "$root/opt/wheels" "$root/opt/tmp"
mount --bind "$wheels" "$root/opt/wheels"
chroot "$root" sh -c "cd $CHECKOUT && $install"
umount "$root/opt/wheels"
rm -r "$root/opt/wheels" "$root/opt/tmp"
mke2fs -q -t ext4 -d "$root" "$disk" "$SIZE"
"""


def make(directory: Path) -> Path:
    """Write the disk into a directory of the caller's, and return its path.

    Raises:
        RuntimeError: it cannot be made; the message has what the failing program said.
    """
    opt = directory / "opt"
    checkout = opt / Path(recipe.CHECKOUT).name
    copy_checkout(checkout)
    [install] = readme.steps((checkout / "README.md").read_text())[1]
    disk = directory / "node.ext4"
    places = [base.root(), opt, _wheels(checkout, install), disk]
    base.run(
        *("unshare", "--mount", "sh", "-c", _INSTALL, "sh", *map(str, places), install),
        CHECKOUT=recipe.CHECKOUT,
        SIZE=SIZE,
        PATH="/usr/sbin:/usr/bin:/sbin:/bin",
        HOME="/opt/tmp",
        TMPDIR="/opt/tmp",
        # The machine's own pip settings name places that the root has not.
        PIP_CONFIG_FILE="/dev/null",
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS="/opt/wheels",
        PIP_NO_CACHE_DIR="1",
        PIP_ROOT_USER_ACTION="ignore",
    )
    shutil.rmtree(opt)
    return disk


def copy_checkout(to: Path) -> None:
    """Copy the working tree: what git tracks, or would track, as it stands now."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        # What is tracked may have been removed since.
        if (CHECKOUT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, to / name)


def _wheels(checkout: Path, install: str) -> Path:
    """What the README's command will ask an index for; kept for each list of requirements."""
    project = (checkout / "pyproject.toml").read_bytes()
    key = hashlib.sha256(project + install.encode() + recipe.PYTHON.encode()).hexdigest()[:16]
    kept = base.cache() / f"wheels-{key}"
    extras = install.partition(".[")[2].partition("]")[0]
    if not kept.exists():
        new = checkout.parent / "new-wheels"
        base.run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(new)),
            *("--python-version", recipe.PYTHON, "--only-binary=:all:"),
            *(
                f"{checkout}[{extras}]",
                *tomllib.loads(project.decode())["build-system"]["requires"],
            ),
        )
        shutil.move(new, kept)
    return kept
