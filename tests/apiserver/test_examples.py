"""The examples, as somebody tries them: the commands of their comments, as they stand.

What koordlet makes of them on a node is in tests/integration and tests/vm.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from koord_demo.programs import console_script
from koord_model import cpuset
from koord_model.keys import (
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_RESOURCE_STATUS,
    GPU_MEMORY_RATIO,
)

from tests.apiserver.example_cluster import CARDS, NUMA_NODES, example_cluster
from tests.apiserver.example_commands import WITH_COMMANDS, WITHOUT_COMMANDS, commands
from tests.apiserver.real_cluster import ROOT, RealCluster
from tests.support.kube_apiserver import ADMIN, KubeApiserver, find_program
from tests.support.processes import PATIENCE
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(
    find_program("kube-controller-manager") is None, reason="needs kube-controller-manager"
)


@pytest.fixture(scope="module")
def cluster(server: KubeApiserver) -> Iterator[RealCluster]:
    with example_cluster(server) as made:
        yield made


class Shell:
    """A checkout in which commands are typed."""

    def __init__(self, server: KubeApiserver) -> None:
        self._folder = server.folder / "checkout"
        self._folder.mkdir(exist_ok=True)
        if not (self._folder / "deploy").exists():
            (self._folder / "deploy").symlink_to(ROOT / "deploy")
        found = (find_program("kubectl") or "", console_script("koordctl"))
        self._environ = {
            "PATH": ":".join([*(str(Path(one).parent) for one in found), os.environ["PATH"]]),
            "KUBECONFIG": str(server.kubeconfig("shell", ADMIN)),
            "HOME": str(self._folder),
        }

    def type(self, command: str) -> None:
        """Run a command, which succeeds; the machine may be busier than the reader's."""
        command = command.replace(" wait ", f" wait --timeout={PATIENCE:.0f}s ", 1)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self._folder,
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE + 30,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"


@pytest.mark.parametrize("file", WITH_COMMANDS, ids=lambda file: file.stem)
def test_an_example_ends_as_its_comment_says(cluster: RealCluster, file: Path) -> None:
    shell = Shell(cluster.server)
    for command in commands(file)[0]:
        shell.type(command)


def test_annotations_have_what_the_comments_say(cluster: RealCluster) -> None:
    def annotation(pod: str, key: str) -> Any:
        return json.loads(cluster.get("pod", pod)["metadata"]["annotations"][key])

    for name in ("gpu-share-1", "gpu-share-2"):
        [card] = annotation(name, ANNOTATION_DEVICE_ALLOCATED)["gpu"]
        assert card["resources"][GPU_MEMORY_RATIO] == "50"
    cards = annotation("gpus-numa", ANNOTATION_DEVICE_ALLOCATED)["gpu"]
    [numa] = annotation("gpus-numa", ANNOTATION_RESOURCE_STATUS)["numaNodeResources"]
    assert [card["minor"] * NUMA_NODES // CARDS for card in cards] == [numa["node"]] * 2
    cpus = cpuset.parse(annotation("lsr-cpuset", ANNOTATION_RESOURCE_STATUS)["cpuset"])
    assert len(cpus) == 4
    assert len({cpu // 2 for cpu in cpus}) == 2, "whole cores"


def specs(cluster: RealCluster) -> list[dict[str, Any]]:
    return [one["spec"] for one in cluster.get("nodeslos")["items"]]


async def test_all_are_there_at_once_and_nothing_is_left_of_them(cluster: RealCluster) -> None:
    shell = Shell(cluster.server)
    for file in WITHOUT_COMMANDS:
        shell.type(f"kubectl apply --validate=strict -f {file}")
    for file in WITH_COMMANDS:
        for command in commands(file)[1]:
            shell.type(command)
    kinds = "job,deployment,pod,elasticquota,reservation,drainnode,podmigrationjob"
    await until(lambda: cluster.kubectl("get", kinds, "-o", "name") == "", "all is gone")
    assert "spark" not in cluster.names("clustercolocationprofiles")
    assert cluster.names("podgroups") == {"training"}, "a piece to copy"
    await until(lambda: not any("extensions" in one for one in specs(cluster)), "no settings left")
