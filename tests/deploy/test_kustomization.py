"""The kustomization, as kubectl builds it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.manifests import (
    DEPLOY,
    NAMESPACE,
    Id,
    Object,
    containers,
    environ,
    identity,
    installed,
    load,
)
from tools.deploy_files import BASE, COMPONENTS, components


def test_it_has_every_file_that_is_to_be_installed() -> None:
    there = {str(path.relative_to(BASE)) for path in BASE.rglob("*.yaml")}
    named = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    assert sorted([*named, "kustomization.yaml"]) == sorted(there)
    assert yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"] == ["base"]


needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")


@needs_kubectl
def test_kubectl_builds_what_is_there() -> None:
    assert build(DEPLOY) == installed()


@needs_kubectl
@pytest.mark.parametrize("name", sorted(components()))
def test_each_component_adds_its_objects_to_an_overlay(name: str, tmp_path: Path) -> None:
    built = build(overlay(tmp_path, name))
    assert built.keys() == installed(name).keys()
    changed = {key for key, given in installed(name).items() if built[key] != given}
    assert changed == PATCHED.get(name, set())


@needs_kubectl
def test_the_node_metric_api_is_switched_on_by_its_component(tmp_path: Path) -> None:
    built = build(overlay(tmp_path, "node-metric-api"))
    [manager] = [one for _, one in containers(built) if one["name"] == "manager"]
    assert environ(manager)["KOORD_MANAGER_ENABLE_NODE_METRIC_API"] == "true"
    assert len(environ(manager)) == len(manager["env"]), "the other settings are still there"


PATCHED = {"node-metric-api": {("Deployment", NAMESPACE, "koord-manager")}}


def overlay(folder: Path, *names: str) -> Path:
    """A kustomization as somebody writes it who wants these components."""
    given = {"resources": [os.path.relpath(DEPLOY, folder)]}
    given["components"] = [os.path.relpath(COMPONENTS / name, folder) for name in names]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(given))
    return folder


def build(folder: Path) -> dict[Id, Object]:
    command = ["kubectl", "kustomize", "--load-restrictor=LoadRestrictionsNone", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {identity(one): one for one in load(done.stdout)}
