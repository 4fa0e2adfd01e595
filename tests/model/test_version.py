from __future__ import annotations

import io
import subprocess
import tarfile
from importlib.metadata import version
from pathlib import Path

from koord_model.version import VERSION, describe_version

ROOT = Path(__file__).parents[2]


def test_the_distribution_has_this_version() -> None:
    assert version("pykoord") == VERSION


def test_what_git_archives_names_its_commit() -> None:
    def git(*command: str) -> bytes:
        return subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True).stdout

    commit = git("rev-parse", "HEAD").decode().strip()
    archive = git("archive", "--worktree-attributes", "HEAD", "model/koord_model/version.py")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        source = tar.extractfile("model/koord_model/version.py")
        assert source is not None
        module: dict[str, str] = {}
        exec(source.read(), module)
    assert describe_version("p", module["COMMIT"]) == f"p {VERSION} (commit {commit[:12]})"
    assert describe_version("p") == f"p {VERSION} (a checkout)"
