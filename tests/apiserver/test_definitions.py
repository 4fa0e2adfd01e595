"""Our definitions at a real API server, and what kubectl makes of them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from koord_kube.definitions.catalogue import DEFINITIONS
from koordctl.main import main

from tests.apiserver import example_commands
from tests.apiserver.administrator import administrator
from tests.apiserver.real_cluster import ROOT, RealCluster
from tests.kube.definitions.documents import document
from tests.kube.definitions.test_served import TestDocuments, written
from tests.support.admin_client import AdminClient
from tests.support.kube_apiserver import ADMIN, KubeApiserver

__all__ = ["TestDocuments"]

KINDS = [one["spec"]["names"] for one in DEFINITIONS]
SHOWN = {
    "metric": "NAME CPU MEMORY UPDATED AGE | n 1500m 2Gi {age}",
    "slo": "NAME SUPPRESS BURST AGE | n 65 none",
    "device": "NAME GPU-VENDOR GPU-MODEL DRIVER AGE | n",
    "newer topology": "NAME POLICY AGE | n",
    "profile": "NAME QOS PRIORITYCLASS PROBABILITY AGE | n BE koord-batch 30%",
    "reservation": "NAME PHASE NODE TTL EXPIRES AGE | n Available n 1h 2026-01-01T00:00:00Z",
    "recommendation": "NAME TYPE KIND TARGET PROVIDED UPDATED AGE"
    " | n workload Deployment web {age}",
}
"""The columns, and one line but for the age of the object."""


@pytest.fixture
async def ask(server: KubeApiserver) -> AsyncIterator[AdminClient]:
    async with administrator(server) as client:
        yield client


def test_all_are_established_and_nothing_is_wrong_with_them(installed: RealCluster) -> None:
    for one in installed.get("crd")["items"]:
        conditions = {each["type"]: each["status"] for each in one["status"]["conditions"]}
        approved = "KubernetesAPIApprovalPolicyConformant"
        assert conditions.pop(approved, "True") == "True"
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert len(installed.get("crd")["items"]) == len(DEFINITIONS)


def test_what_is_installed_is_kept_as_it_was_written(
    installed: RealCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    before = installed.get("crd")["items"]
    config = installed.server.kubeconfig("admin", ADMIN)
    main(["crds", "install", "--json", f"--kubeconfig={config}"])
    done = json.loads(capsys.readouterr().out)
    assert done == {one["metadata"]["name"]: "unchanged" for one in DEFINITIONS}
    assert installed.get("crd")["items"] == before


@pytest.mark.parametrize("names", KINDS, ids=lambda names: str(names["kind"]))
def test_they_are_explained(installed: RealCluster, names: dict[str, str]) -> None:
    definition = next(one for one in DEFINITIONS if one["spec"]["names"] == names)
    for version in definition["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        group = f"{definition['spec']['group']}/{version['name']}"
        said = installed.kubectl("explain", names["plural"], f"--api-version={group}")
        words = " ".join(said.split())
        assert f"KIND: {names['kind']}" in words
        assert schema["description"] in words
        for field in schema["properties"].keys() - {"apiVersion", "kind", "metadata"}:
            assert schema["properties"][field]["description"] in words


@pytest.mark.parametrize("file", example_commands.WITHOUT_COMMANDS, ids=lambda f: f.stem)
def test_the_examples_are_as_they_should_be(installed: RealCluster, file: Path) -> None:
    for _ in range(2):
        installed.kubectl("apply", "--validate=strict", "-f", str(file))
    said = installed.kubectl("diff", "-f", str(file))
    installed.kubectl("delete", "-f", str(file))
    assert said == ""


def test_the_profile_with_everything_is_taken(installed: RealCluster) -> None:
    folder = str(ROOT / "deploy/profiles/everything")
    said = installed.kubectl("apply", "--validate=strict", "--dry-run=server", "-k", folder)
    assert "deployment.apps/koord-scheduler configured (server dry run)" in said


@pytest.mark.parametrize(("name", "shown"), SHOWN.items())
async def test_what_kubectl_shows_of_them(
    installed: RealCluster, ask: AdminClient, name: str, shown: str
) -> None:
    answer = await written(ask, document(name))
    assert answer.status < 300, answer
    plural = next(one["plural"] for one in KINDS if one["kind"] == document(name)["kind"])
    head, line = installed.kubectl("get", plural).splitlines()
    wanted_head, wanted = shown.split(" | ")
    assert head.split() == wanted_head.split()
    *cells, age = line.split()
    assert age.endswith("s")
    assert len(cells) == len(wanted.split())
    for cell, one in zip(cells, wanted.split(), strict=True):
        assert re.fullmatch(r"(\d+[smhdy])+", cell) if one == "{age}" else cell == one
