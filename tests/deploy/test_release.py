"""Sources of a release: the lock, and the tag."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from koord_model.version import VERSION
from packaging.requirements import Requirement

from tests.deploy.manifests import ROOT
from tools.release import distributions, sources
from tools.release.commands import ReleaseError

LOCK = (ROOT / distributions.LOCK).read_text()
LOCKED = re.findall(r"^([\w.-]+)==([\w.]+)", LOCK, re.MULTILINE)


def test_the_lock_has_what_programs_require() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(distributions.EXTRAS) <= extras.keys()
    needed = [
        *project["dependencies"],
        *(one for name in distributions.EXTRAS for one in extras[name]),
    ]
    for requirement in map(Requirement, needed):
        if requirement.name == "pykoord":
            continue
        versions = [version for name, version in LOCKED if name == requirement.name.lower()]
        assert versions, f"{requirement}: run: make lock"
        assert all(requirement.specifier.contains(version) for version in versions), (
            "run: make lock"
        )


def test_each_locked_library_has_digests() -> None:
    entries = re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.MULTILINE)[1:]
    assert len(entries) == len(LOCKED)
    assert all("--hash=sha256:" in entry for entry in entries)


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository with one commit, in place of this one."""
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "file").write_text("1\n")
    for command in (
        "init --quiet",
        "add .",
        "-c user.name=a -c user.email=a@example.com commit --quiet --message=1",
    ):
        subprocess.run(["git", *command.split()], cwd=repository, check=True)
    monkeypatch.setattr(sources, "ROOT", repository)


@pytest.mark.usefixtures("git")
def test_a_release_is_of_its_tag(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=rf"^HEAD has no tag v{VERSION}, "):
        sources.tagged(tmp_path / "copy")
    subprocess.run(["git", "tag", f"v{VERSION}"], cwd=sources.ROOT, check=True)
    made = sources.tagged(tmp_path / "copy")
    assert [path.name for path in made.folder.iterdir()] == ["file"]
    (sources.ROOT / "file").write_text("2\n")
    with pytest.raises(ReleaseError, match=r'^1 files differ from the commit, such as "file"; '):
        sources.tagged(tmp_path / "other")
