"""Katalyst's QRM plugin gives containers CPUs on a real containerd, by NRI and through the proxy.

The plugin is built from Katalyst's sources (tests/koordlet/resource_plugins/qrm_plugin.go.txt), and
named by $KATALYST_QRM_PLUGIN; without it the test is skipped.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import grpc
import pytest
from koord_model.qos import KubeQoS

from tests.support import kubepods
from tests.support.cgroups import container_pid
from tests.support.cri import Cri, PodPlan, RunningPod, burstable_pod_config, run_pod
from tests.support.koordlet_programs import NodeKoordlet
from tests.support.kubelet import settles
from tests.support.kubepods import Kubepods
from tests.support.newer_containerd import Containerd, NotToBeHadError, programs
from tests.support.processes import Program, until
from tests.support.proxy import Proxy

PLUGIN = os.environ.get("KATALYST_QRM_PLUGIN", "")
DEDICATED = {
    "katalyst.kubewharf.io/qos_level": "dedicated_cores",
    "katalyst.kubewharf.io/numa_binding": "true",
}
MOST = 1.5
"""Seconds that plugins may add to a pod's start."""

pytestmark = [
    pytest.mark.containerd,
    pytest.mark.skipif(kubepods.why_not() is not None, reason=kubepods.why_not() or "-"),
    pytest.mark.skipif(not PLUGIN, reason="$KATALYST_QRM_PLUGIN names no plugin of Katalyst's"),
]


class Node:
    """A kubelet that lists its pods, koordlet, and Katalyst's plugin."""

    def __init__(self, directory: Path, groups: Kubepods, containerd: Containerd, by: str) -> None:
        self.directory = directory
        self.groups = groups
        self.refuses = by == "nri"
        self.list = directory / "pods.json"
        self.listed: list[dict[str, object]] = []
        self.write_list()
        nri = containerd.nri_address if by == "nri" else directory / "none"
        self.koordlet = NodeKoordlet(
            directory,
            f"--runtime-hooks-nri-socket-path={nri}",
            f"--pod-list-source={self.list}",
            "--resource-plugins-topology-policy=single-numa-node",
            "--resource-plugins-failure-policy=Fail",
        )
        self.plugin = Program("qrm", directory)

    def start_plugin(self, times: int) -> None:
        self.plugin.spawn([PLUGIN, str(self.directory / "plugins")])
        until(lambda: len(self.koordlet.events("plugin registered")) >= times)

    def write_list(self) -> None:
        aside = self.list.with_suffix(".new")
        items = {"kind": "PodList", "apiVersion": "v1", "items": self.listed}
        aside.write_text(json.dumps(items))
        aside.rename(self.list)

    def run(
        self, cri: Cri, annotations: Mapping[str, str] | None = None
    ) -> tuple[RunningPod, float]:
        """Start a pod of one CPU as a kubelet does: its group, then the sandbox; in how long."""
        plan = burstable_pod_config(cpu_milli=1000, annotations=annotations)
        meta = plan.sandbox.metadata
        self.groups.make_pod(KubeQoS.BURSTABLE, meta.uid, shares=1024)
        self.listed.append(_listed(plan))
        self.write_list()
        before = time.monotonic()
        pod = run_pod(cri, plan)
        seconds = time.monotonic() - before
        self.listed[-1] = _listed(plan, pod.container_id)
        self.write_list()
        return pod, seconds

    def cpus(self, pod: RunningPod) -> str:
        return self.groups.read(self.group(pod), "cpuset.cpus")

    def group(self, pod: RunningPod) -> str:
        uid = pod.plan.sandbox.metadata.uid
        return f"kubepods/burstable/pod{uid}/{pod.container_id}"


def _listed(plan: PodPlan, container_id: str = "") -> dict[str, object]:
    meta = plan.sandbox.metadata
    running: dict[str, object] = {"name": "main", "containerID": f"containerd://{container_id}"}
    running |= {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    requests = {"cpu": "1", "memory": "16Mi"}
    return {
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "spec": {
            "hostNetwork": True,
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        },
        "status": {
            "phase": "Running" if container_id else "Pending",
            "qosClass": "Burstable",
            "containerStatuses": [running] if container_id else [],
        },
    }


@pytest.fixture(params=["nri", "proxy"])
def node(request: pytest.FixtureRequest) -> Iterator[tuple[Node, Cri]]:
    try:
        where = programs("trixie")
    except NotToBeHadError as reason:
        pytest.skip(str(reason))
    with ExitStack() as stack:
        groups = stack.enter_context(Kubepods())
        containerd = stack.enter_context(Containerd(programs=where, nri_timeout=2.0))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pykoord-it-")))
        (directory / "plugins").mkdir()
        found = Node(directory, groups, containerd, request.param)
        stack.callback(containerd.remove_all_pods)
        stack.callback(found.plugin.close)
        stack.enter_context(found.koordlet)
        cri = containerd.cri()
        if request.param == "proxy":
            proxy = stack.enter_context(Proxy(directory, containerd.address))
            proxy.wait_for_server("koordlet")
            cri = proxy.cri()
        else:
            until(lambda: found.koordlet.events("nri connected"))
        yield found, stack.enter_context(cri)
        print(found.koordlet.said)


def test_a_plugin_of_katalyst_gives_cpus_that_stay(node: tuple[Node, Cri]) -> None:
    """All at once: a plugin that works, koordlet's restart, a dead plugin, an older pod."""
    here, cri = node
    here.start_plugin(1)
    first, seconds = here.run(cri)
    print(f"first pod: CPUs {here.cpus(first)}, started in {seconds:.2f} s")
    given = here.cpus(first)
    assert given in ("0", "1")
    pid = container_pid(cri, first.container_id)
    assert f"GIVEN_CPUS={given}" in Path(f"/proc/{pid}/environ").read_text().split("\0")

    # A dead plugin and a restart: what it gave stays, and is put right again.
    here.plugin.kill()
    assert here.koordlet.stop() == 0
    older, _ = here.run(cri)
    assert here.cpus(older) == "0-1"
    here.koordlet.start()
    here.groups.write(here.group(first), "cpuset.cpus", "0-1")
    settles(partial(here.cpus, first), given)

    # Nobody answers for the plugin: a pod starts, and not late.
    late, seconds = here.run(cri)
    print(f"without the plugin: CPUs {here.cpus(late)}, started in {seconds:.2f} s")
    assert seconds < MOST + 5  # runc, on a machine that others use, and what plugins may add
    if here.refuses:  # the proxy's own failure policy is Ignore
        with pytest.raises(grpc.RpcError, match="resource plugin"):
            here.run(cri, DEDICATED)
        del here.listed[-1]
    assert here.koordlet.complaints("resources not allocated", "plugin not registered") == []

    # It has forgotten everything, and gives anew: to the two of three pods that there are CPUs for.
    here.start_plugin(2)
    until(lambda: sorted(map(here.cpus, (first, older, late))) == ["0", "0-1", "1"])
    print(f"plugin: {here.plugin.said}")
