"""The layout: what components there are, and what the tools know of them."""

from __future__ import annotations

import configparser
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools import package_graph

ROOT = Path(__file__).parents[1]
BANNED = {"util", "utils", "common", "helper", "helpers", "misc"}
# One import package each; the other folders hold no product code.
COMPONENTS = sorted(path.parent.parent for path in ROOT.glob("[a-z]*/*/py.typed"))
PACKAGES = {next(component.glob("*/py.typed")).parent.name for component in COMPONENTS}
PROTOS = sorted(path for component in COMPONENTS for path in component.glob("*/*.proto"))


def ini() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    return parser


def test_every_package_is_known_to_import_linter() -> None:
    assert set(ini()["importlinter"]["root_packages"].split()) == PACKAGES


def test_every_package_is_in_a_layer() -> None:
    layers = ini()["importlinter:contract:layers"]["layers"]
    assert set(re.findall(r"\w+", layers)) == PACKAGES


def test_the_picture_of_the_packages_is_that_of_the_code() -> None:
    page = package_graph.PAGE.read_text()
    assert package_graph.with_graph(page) == page, "run: python tools/package_graph.py"


def test_every_component_is_packaged_and_typed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names = {component.name for component in COMPONENTS}
    apart = {component.name for component in COMPONENTS if (component / "pyproject.toml").exists()}
    assert apart == {"demo", "simulation"}
    assert set(project["tool"]["setuptools"]["packages"]["find"]["where"]) == names - apart


@pytest.mark.parametrize(
    "folder", ["manager", "systemd", "tests", *(one.name for one in COMPONENTS)]
)
def test_every_component_says_what_lives_there(folder: str) -> None:
    text = (ROOT / folder / "README.md").read_text()
    # Tables and examples are looked up, not read.
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines()
    lines = [line for line in prose if not line.startswith("|")]
    assert lines[0].startswith("# ")
    assert 3 <= len(lines) <= 20, "about ten lines"


def test_no_module_is_a_drawer() -> None:
    modules = [path for component in COMPONENTS for path in component.rglob("*.py")]
    assert [path for path in modules if path.stem in BANNED or path.parent.name in BANNED] == []


@pytest.mark.skipif(
    importlib.util.find_spec("grpc_tools") is None, reason="needs grpcio-tools (extra test-all)"
)
@pytest.mark.parametrize("proto", PROTOS, ids=lambda proto: proto.name)
def test_generated_modules_are_up_to_date(proto: Path, tmp_path: Path) -> None:
    component = proto.parent.parent
    name = str(proto.relative_to(component))
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={tmp_path}"]
    subprocess.run([*command, f"--pyi_out={tmp_path}", name], cwd=component, check=True)
    for made in (tmp_path / name).parent.iterdir():
        if made.suffix == ".py" and "Protobuf Python Version" in made.read_text():
            assert _descriptor(made) == _descriptor(proto.parent / made.name), "run: make proto"
        else:
            assert made.read_text() == (proto.parent / made.name).read_text(), "run: make proto"


def _descriptor(module: Path) -> str:
    """What is in the module; which release of protoc wrote it does not matter."""
    [line] = re.findall(r"AddSerializedFile\((.*)\)", module.read_text())
    return str(line)
