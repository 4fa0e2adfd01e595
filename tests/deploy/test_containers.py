"""The container files: checked by hadolint, and held against the project."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from koord_model.version import VERSION

from tests.deploy.manifests import DEPLOY, ROOT, containers, installed
from tests.support.koordinator_arguments import COMMANDS
from tools.published import image

FILES = sorted((DEPLOY / "containers").glob("Containerfile.*"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which(
    "hadolint"
)
INSTALLING = ("requirements.lock", "deploy/containers/install")
parametrized = pytest.mark.parametrize("file", FILES, ids=lambda file: file.suffix[1:])


@pytest.mark.skipif(HADOLINT is None, reason="needs hadolint (extra test-all)")
def test_hadolint_has_nothing_to_say() -> None:
    assert HADOLINT is not None
    command = [HADOLINT, "--no-color", *map(str, FILES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""


@parametrized
def test_what_is_built_is_what_runs(file: Path) -> None:
    text, name = file.read_text(), file.suffix[1:]
    [extras] = re.findall(r"^RUN deploy/containers/install '([\w,]+)'$", text, re.MULTILINE)
    assert set(extras.split(",")) <= PROJECT["project"]["optional-dependencies"].keys()
    [program] = re.findall(r'^ENTRYPOINT \["/opt/pykoord/bin/([\w-]+)"\]$', text, re.MULTILINE)
    assert program in PROJECT["project"]["scripts"]
    assert f"-t {program}:{VERSION} ." in text
    images = {
        container["name"].removeprefix("koord-"): container["image"]
        for _, container in containers(installed("scheduler", "descheduler", "device-daemon"))
    }
    # The proxy is what pods are started through: it is in no manifest.
    assert images.get(name, image(program)) == image(program)
    assert name in images or name == "runtime-proxy"


@parametrized
def test_koordinators_manifests_find_the_program(file: Path) -> None:
    text = file.read_text()
    [(program, path)] = re.findall(r"^RUN ln -s (\S+) (\S+)$", text, re.MULTILINE)
    assert [program] == re.findall(r'^ENTRYPOINT \["(.+)"\]$', text, re.MULTILINE)
    assert path == COMMANDS[Path(program).name]
    # Before USER: the root folder is root's.
    assert text.index("RUN ln") < text.find("USER") or "USER" not in text


def test_each_program_has_its_image() -> None:
    entries = (re.findall(r'bin/([\w-]+)"\]$', file.read_text(), re.MULTILINE) for file in FILES)
    assert {program for [program] in entries} == COMMANDS.keys()


@parametrized
def test_only_what_is_on_every_node_is_root(file: Path) -> None:
    users = re.findall(r"^USER (\d+):(\d+)$", file.read_text(), re.MULTILINE)
    root = file.suffix in (".koordlet", ".device-daemon", ".runtime-proxy")
    assert users == ([] if root else [("65532", "65532")])


def test_the_context_has_the_packages_and_what_describes_them() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    let_in = {line[1:] for line in lines if line.startswith("!")}
    packages = set(PROJECT["tool"]["setuptools"]["packages"]["find"]["where"])
    assert let_in == packages | {"LICENSE", "README.md", "pyproject.toml", *INSTALLING}
    assert all((ROOT / name).exists() for name in let_in)
