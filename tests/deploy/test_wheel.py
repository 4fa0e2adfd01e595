"""What an installation in production holds: the wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from email import message_from_string
from zipfile import ZipFile

import pytest

from tests.deploy.manifests import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKED = PROJECT["tool"]["setuptools"]["packages"]["find"]["where"]
CHECKOUT_ONLY = ("demo", "simulation")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    # Built in a copy: setuptools leaves folders behind. With all that lies beside what is packed.
    for name in [*PACKED, *CHECKOUT_ONLY]:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, timeout=600)
    [made] = folder.glob("*.whl")
    return ZipFile(made)


def packages(wheel: ZipFile) -> set[str]:
    return {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}


def test_it_has_the_packages_of_production_alone(wheel: ZipFile) -> None:
    expected = {next((ROOT / one).glob("*/py.typed")).parent.name for one in PACKED}
    assert packages(wheel) == expected
    for one in CHECKOUT_ONLY:
        name = next((ROOT / one).glob("*/py.typed")).parent.name
        assert name not in expected


def test_its_scripts_are_of_its_packages(wheel: ZipFile) -> None:
    [name] = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    parser = ConfigParser()
    parser.read_string(wheel.read(name).decode())
    scripts = dict(parser["console_scripts"])
    assert set(scripts) == {
        "koordctl",
        "koordlet",
        "kubectl-koord",
        "koord-descheduler",
        "koord-device-daemon",
        "koord-manager",
        "koord-runtime-proxy",
        "koord-scheduler",
    }
    for target in scripts.values():
        module, _, _ = target.partition(":")
        assert f"{module.replace('.', '/')}.py" in wheel.namelist()


def test_the_largest_library_comes_only_where_it_is_asked_for(wheel: ZipFile) -> None:
    [name] = [name for name in wheel.namelist() if name.endswith("METADATA")]
    needs = message_from_string(wheel.read(name).decode()).get_all("Requires-Dist") or []
    [own] = [one for one in needs if one.startswith("kubernetes>")]
    assert own.endswith('extra == "kubeconfig"')
