"""The kustomization, as kubectl builds it."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import yaml

from tests.deploy.manifests import DEPLOY, Id, Object, identity, installed


def test_it_has_every_file_that_is_to_be_installed() -> None:
    elsewhere = {"chart", "containers", "examples", "grafana"}
    there = {
        str(path.relative_to(DEPLOY))
        for path in DEPLOY.rglob("*.yaml")
        if path.relative_to(DEPLOY).parts[0] not in elsewhere | {"kustomization.yaml"}
    }
    named = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    assert sorted(named) == sorted(there)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kubectl_builds_what_is_there() -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY)], capture_output=True, text=True, check=True
    )
    built: dict[Id, Object] = {identity(one): one for one in yaml.safe_load_all(done.stdout)}
    assert built == installed()
