"""The files that a release is made of."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from koord_model.version import VERSION

from tools.release.commands import ReleaseError, run

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Sources:
    """A copy of the project's files."""

    folder: Path
    epoch: int
    """Time of the commit in seconds, which every file made of it has."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables that make builds repeatable."""
        return {"SOURCE_DATE_EPOCH": str(self.epoch), "PYTHONHASHSEED": "0"}


def tagged(folder: Path) -> Sources:
    """Copy the files of this version's tag into a folder that does not exist yet.

    Raises:
        ReleaseError: the working tree is not that of the tag.
    """
    tag = f"v{VERSION}"
    if changed := run("git", "status", "--porcelain", folder=ROOT).splitlines():
        raise ReleaseError(
            f'{len(changed)} files differ from the commit, such as "{changed[0][3:]}"; commit them'
        )
    if tag not in run("git", "tag", "--points-at", "HEAD", folder=ROOT).split():
        raise ReleaseError(f"HEAD has no tag {tag}, its version; git tag {tag}, or make deb")
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    run("git", "archive", "--output", archive, tag, folder=ROOT)
    run("tar", "--extract", "--file", archive, "--directory", folder)
    archive.unlink()
    return Sources(folder, _epoch())


def working_tree(folder: Path) -> Sources:
    """Copy what git tracks, or would track, as it is now."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", folder=ROOT)
    for name in filter(None, listed.split("\0")):
        # What is tracked may have been removed since.
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return Sources(folder, _epoch())


def _epoch() -> int:
    return int(run("git", "log", "-1", "--format=%ct", folder=ROOT))
