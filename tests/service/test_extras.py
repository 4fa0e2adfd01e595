"""The advice that installs an extra names what pyproject.toml names, and what pip can fetch."""

from __future__ import annotations

import shlex
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from koord_service.extras import install_command, requirements

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PROGRAMS = ("proxy", "koordlet", "manager", "scheduler", "koordctl", "devices")
ADVISED = (*PROGRAMS, "kubeconfig", "nvidia", "tracing", "bench")


@pytest.mark.parametrize("extra", ADVISED)
def test_it_is_what_the_project_declares(extra: str) -> None:
    assert requirements(extra) == EXTRAS[extra]
    python, *pip_install, first = shlex.split(install_command(extra))[:5]
    assert (python, pip_install) == (sys.executable, ["-m", "pip", "install"])
    assert first in EXTRAS[extra]


def test_only_what_is_missing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version

    def without_grpcio(name: str) -> str:
        if name == "grpcio":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", without_grpcio)
    assert shlex.split(install_command("proxy"))[4:] == ["grpcio>=1.80"]


def test_a_checkout_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", unknown)
    assert shlex.split(install_command("proxy"))[4:] == [".[proxy]"]


def test_nothing_else_advises_what_is_on_no_index() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in (*ROOT.glob("*/*_*/**/*.py"), *ROOT.glob("koord*/koord*/**/*.py"))
        if "pip install" in path.read_text()
    ]
    assert found == []
    pages = (*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("*/README.md"))
    assert [page.name for page in pages if "install 'pykoord[" in page.read_text()] == []
