"""The commands of deploy/README.md for programs outside the cluster, as they stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from koord_demo.programs import console_script

from tests.apiserver.real_cluster import ROOT, RealCluster, pod
from tests.deploy.manifests import DEPLOY
from tests.support.kube_apiserver import ADMIN, KubeApiserver, find_program
from tests.support.processes import Program
from tests.support.waiting import until

ADDRESS = "192.0.2.10"
"""The machine's, in the page."""


def blocks() -> list[str]:
    """The section's commands, by block."""
    text = (DEPLOY / "README.md").read_text()
    [section] = re.findall(r"^## Outside the cluster$(.*?)^## ", text, re.M | re.S)
    return re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S)


class Machine:
    """The folder in which the page's commands are run, and what they start."""

    def __init__(self, server: KubeApiserver) -> None:
        self.folder = server.folder / "machine"
        self.folder.mkdir()
        (self.folder / "pykoord").symlink_to(ROOT)
        self._network = server.network
        found = (find_program("kubectl") or "", console_script("koordctl"))
        self._environ = {
            "PATH": ":".join([*(str(Path(one).parent) for one in found), os.environ["PATH"]]),
            "KUBECONFIG": str(server.kubeconfig("admin", ADMIN)),
            "HOME": str(self.folder),
        }
        self.started: list[Program] = []

    def run(self, commands: str) -> str:
        """The output of a block."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands.replace(ADDRESS, self._network.address)],
            cwd=self.folder,
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, commands: str) -> None:
        """Start each line in the background."""
        for line in commands.replace(ADDRESS, self._network.address).splitlines():
            program = Program(line.partition(" ")[0], self.folder)
            command = f"cd {self.folder}; exec {line.removesuffix(' &')}"
            environ = [f"{key}={value}" for key, value in self._environ.items()]
            program.spawn(self._network.inside(["env", "-i", *environ, "bash", "-c", command]))
            self.started.append(program)


@pytest.fixture
def machine(server: KubeApiserver) -> Iterator[Machine]:
    made = Machine(server)
    yield made
    for program in made.started:
        program.close()
    for program in made.started:
        print(f"---- {program.name}\n{program.said[-4000:]}")
        assert "Traceback" not in program.said
        assert "forbidden" not in program.said.lower()


BATCH = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}
RESIZE = """
    {"spec": {"containers": [{"name": "main", "resources": {
        "limits": {"kubernetes.io/batch-cpu": "900"},
        "requests": {"kubernetes.io/batch-cpu": "900"}}}]}}
"""


def batch_pod() -> dict[str, object]:
    spec = {"priorityClassName": "koord-batch", "schedulerName": "koord-scheduler"}
    labels = {"koordinator.sh/qosClass": "BE"}
    made = pod("job-1", "default", spec, {"requests": BATCH, "limits": BATCH}, **labels)
    made["spec"]["containers"][0]["name"] = "main"
    return made


async def test_the_commands_of_the_page(server: KubeApiserver, machine: Machine) -> None:
    cluster = RealCluster(server)
    install, where, who, start = blocks()
    for block in (install, where, who):
        machine.run(block)
    for kind in ("deployments", "poddisruptionbudgets"):
        assert cluster.get(kind, "-A")["items"] == []
    machine.start(start)

    def leaders() -> list[str]:
        found = json.loads(machine.run("koordctl status cluster -o json || true"))["programs"]
        return [one["leader"] for one in found if one["leader"] and one["health"] != "down"]

    await until(lambda: len(leaders()) == 2, "leaders")

    # The API server reaches the webhooks and the NodeMetric API.
    cluster.namespace("default")
    await until(lambda: cluster.names("mutatingwebhookconfigurations") != set(), "webhooks")
    name = "v1alpha1.metrics.koordinator.sh"
    await until(lambda: name in cluster.names("apiservices"), "the APIService")
    cluster.kubectl("wait", "--for=condition=Available", "apiservice", name, "--timeout=60s")
    cluster.apply(batch_pod())
    written = cluster.get("pod", "job-1")["metadata"]["annotations"]
    assert "node.koordinator.sh/extended-resource-spec" in written

    # The scheduler places pods.
    cluster.ready_node("n1", {"cpu": "4", "memory": "8Gi", "pods": "10", **BATCH})
    found = lambda: cluster.get("pod", "job-1")["spec"].get("nodeName")  # noqa: E731
    await until(lambda: found() == "n1", "job-1 has its node")
    _resizes(cluster, machine)
    for program in machine.started:
        assert program.stop() == 0


def _resizes(cluster: RealCluster, machine: Machine) -> None:
    """As docs/operations/koordlet.md says: not by Kubernetes, but by the annotation."""
    page = (ROOT / "docs/operations/koordlet.md").read_text()
    section = page.partition("## Resize a batch pod")[2]
    [refusal] = re.findall(r",\s+with\s+`(.*?)`", section.partition("```")[0])
    [annotate] = re.findall(r"^```sh\n(.*?)^```$", section.partition("\n## ")[0], re.M | re.S)
    with pytest.raises(RuntimeError, match=refusal):
        cluster.kubectl("patch", "pod", "job-1", "--subresource=resize", "-p", RESIZE)
    machine.run(annotate)
    written = cluster.get("pod", "job-1")["metadata"]["annotations"]
    assert (
        '"kubernetes.io/batch-cpu": "500"' in written["node.koordinator.sh/extended-resource-spec"]
    )
    # More than the spec is admitted, with a warning: no quota counts this pod.
    machine.run(annotate.replace('"500"', '"900"'))
