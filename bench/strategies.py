"""Costs of deciding on a full node: a round of all strategies, and koordlet as a whole.

The node is simulated (``tests/support/simulated_node``: cgroup v2, 64 CPUs, 2 NUMA nodes, 110
pods of 3 containers), every gate is on and the NodeSLO asks for everything. The peer of a
round is the floor: the same views built, with nobody asked. The whole is a koordlet process
on such a node whose use moves each second, with hook calls at ten pods a minute, measured by
the CPU time that the kernel accounts to it.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import grpc
from koord_hooks.stages import SERVICE
from koord_host.kernel import KernelFilesystem
from koord_host.knobs.table import KNOBS
from koord_model import node_slo_document
from koord_model.demand import Demand
from koord_model.node import Kernel as Offered
from koord_model.node import NodeView
from koord_proto import hook_pb2 as pb
from koordlet.agent.config import KoordletSettings
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.qos_manager.core.strategy_runner import StrategyRunner
from koordlet.qos_manager.strategy_table import select_enabled
from koordlet.qos_manager.view_builder import StrategyViewBuilder, ViewSources
from koordlet.states_informer.state.pod_inventory import PodRecord

from bench.node import cpu_ms
from bench.observe import CONTAINERS, PODS, Watched
from bench.report import Measure
from tests.support.caller import LIKE_A_KUBELET
from tests.support.proxy import Koordlet
from tests.support.simulated_node import SimulatedNode

_MEMORY = {"enable": True, "minLimitPercent": 50, "lowLimitPercent": 80, "throttlingPercent": 80}
NODE_SLO = {
    "kind": "NodeSLO",
    "spec": {
        "resourceUsedThresholdWithBE": {
            "enable": True,
            "cpuSuppressThresholdPercent": 65,
            "cpuEvictBESatisfactionLowerPercent": 40,
            "cpuEvictBESatisfactionUpperPercent": 60,
            "cpuEvictThresholdPercent": 90,
            "memoryEvictThresholdPercent": 90,
            "cpuAllocatableEvictThresholdPercent": 110,
            "cpuAllocatableEvictLowerPercent": 100,
            "memoryAllocatableEvictThresholdPercent": 110,
            "memoryAllocatableEvictLowerPercent": 100,
            "evictEnabledPriorityThreshold": 5999,
            "allocatableEvictPriorityThreshold": 5999,
        },
        "cpuBurstStrategy": {"policy": "auto"},
        "resourceQOSStrategy": {
            name: {"memoryQOS": _MEMORY, "resctrlQOS": {"enable": True}}
            for name in ("lsrClass", "lsClass", "beClass")
        },
        "systemStrategy": {"minFreeKbytesFactor": 100},
    },
}
GATES = dict.fromkeys(DEFAULTS, True)
_SECONDS = 60
_NOT_HERE = ("Accelerators", "RDMADevices", "CPICollector")
"""Gates of collectors that look at hardware, which is this machine's."""
_FILES = {
    "cpu.max": "max 100000",
    "cpu.max.burst": "0",
    "cpu.weight": "100",
    "cpu.idle": "0",
    "cpuset.cpus": "",
    "cpuset.cpus.effective": "0-63",
    "memory.min": "0",
    "memory.low": "0",
    "memory.high": "max",
    "memory.max": "max",
    "memory.current": "0",
    "memory.oom.group": "0",
}


class PlainKoordlet(Koordlet):
    """koordlet whose kernel files are plain files: what is written replaces all that was there."""

    def spawn(self, command: Sequence[str]) -> None:
        super().spawn([sys.executable, "-m", "bench.plain_koordlet", *command[1:]])


class DecidedNode(SimulatedNode):
    """Has the files that strategies write; what is written to them stays."""

    def _write_limits(self, name: str) -> None:
        for directory in self._directories(name):
            for file, text in _FILES.items():
                path = directory / file
                if not path.exists():
                    limited = file == "cpu.max" and "/burstable/pod" in name
                    path.write_text("50000 100000\n" if limited else f"{text}\n")

    def pod_list(self) -> str:
        """Return the kubelet's list of pods."""
        return json.dumps({"items": [_item(record) for record in self.records]})


def measure(rounds: int) -> list[Measure]:
    with tempfile.TemporaryDirectory(prefix="koord-bench-", dir="/dev/shm") as name:
        asked, floors = _rounds(Path(name), max(rounds, 9) * 3)
    with tempfile.TemporaryDirectory(prefix="koord-bench-", dir="/dev/shm") as name:
        busy, resident = _whole(Path(name))
    return [
        Measure("a round of all strategies, CPU", "ms", statistics.median(asked), "", None, 20.0),
        Measure(
            "a round of all strategies, floor",
            "ms",
            statistics.median(asked),
            "views alone",
            statistics.median(floors),
            None,
        ),
        Measure("koordlet as a whole on a full node, CPU", "% of a core", busy, "", None, 8.0),
        Measure("koordlet as a whole on a full node, RSS", "MiB", resident, "", None, 180.0),
    ]


def _rounds(directory: Path, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds of CPU of each round, and of views with nobody asked, in turns."""
    watched = Watched(directory, node=DecidedNode)
    kernel = KernelFilesystem((str(directory),))
    there = frozenset(knob.name for knob in KNOBS.values() if _is_there(watched.node, knob.v2))
    slo, _ = node_slo_document.parse(NODE_SLO)
    seen = ViewSources(
        watched.node.layout,
        kernel,
        pods=lambda: watched.node.records,
        pods_known=lambda: True,
        view=partial(NodeView, slo=slo, kernel=Offered(knobs=there, resctrl=True)),
        newest=watched.observer.newest,
        cache=watched.cache,
    )
    strategies, off = select_enabled(asdict(KoordletSettings()), GATES)
    assert not off, off
    rounds, views, alone = (
        StrategyRunner(strategies, time.thread_time),
        StrategyViewBuilder(seen),
        StrategyViewBuilder(seen),
    )
    asked, floors = [], []
    for _ in range(count + 3):
        watched.clock.wall += 1
        watched.look()

        def one() -> None:
            found = rounds.decide(
                views.build(watched.clock.wall, watched.clock.steady, rounds.signals)
            )
            assert not found.problems, found.problems

        asked.append(cpu_ms(one))
        floors.append(
            cpu_ms(partial(alone.build, watched.clock.wall, watched.clock.steady, rounds.signals))
        )
    # The first find no rates, and look up what stays.
    return asked[3:], floors[3:]


def _is_there(node: SimulatedNode, file: str) -> bool:
    return bool(file) and Path(node.layout.group_path("kubepods/besteffort", "cpu"), file).exists()


def _whole(directory: Path) -> tuple[float, float]:
    """Percent of a core and MiB of a koordlet that does all it can on a full node."""
    node = DecidedNode(directory / "node", pods=PODS, containers=CONTAINERS)
    pods, slo = directory / "pods.json", directory / "nodeslo.yaml"
    pods.write_text(node.pod_list())
    slo.write_text(json.dumps(NODE_SLO))
    koordlet = PlainKoordlet(directory, directory / "hookserver.d", *flags(node, pods, slo))
    done = threading.Event()
    moving = threading.Thread(target=_move, args=(node, done))
    with koordlet, grpc.insecure_channel(f"unix:{koordlet.socket}", LIKE_A_KUBELET) as channel:
        call = channel.unary_unary(
            f"/{SERVICE}/PreRunPodSandboxHook",
            pb.PodSandboxHookRequest.SerializeToString,
            pb.PodSandboxHookResponse.FromString,
        )
        moving.start()
        try:
            time.sleep(15)  # until it knows pods and has rates
            before, began = _cpu_seconds(koordlet.pid), time.monotonic()
            for _ in range(_SECONDS // 6):
                time.sleep(6)
                call(_batch_pod(node))
            spent = _cpu_seconds(koordlet.pid) - before
            return 100 * spent / (time.monotonic() - began), koordlet.resident()
        finally:
            done.set()
            moving.join()


def flags(node: SimulatedNode, pods: Path, slo: Path) -> tuple[str, ...]:
    """Those of a koordlet that does all it can on a simulated node, but for its hardware."""
    directory = pods.parent
    return (
        "--standalone",
        f"--pod-list-source={pods}",
        f"--nodeslo-file={slo}",
        f"--cgroup-root-dir={node.layout.cgroup_root}",
        "--cgroup-version=2",
        "--cgroup-driver=cgroupfs",
        f"--proc-root-dir={node.layout.proc_root}",
        f"--sys-root-dir={node.sys_root}",
        f"--sys-fs-root-dir={directory}/sysfs",
        f"--state-dir={directory}/state",
        "--evict-dry-run",
        "--feature-gates=" + ",".join(f"{name}=true" for name in GATES if name not in _NOT_HERE),
    )


def _batch_pod(node: SimulatedNode) -> pb.PodSandboxHookRequest:
    pod = node.records[0].pod
    return pb.PodSandboxHookRequest(
        pod_meta=pb.PodSandboxMetadata(name=pod.name, namespace=pod.namespace, uid=pod.uid),
        labels=dict(pod.labels),
        cgroup_parent=pod.cgroup_parent,
    )


def _move(node: SimulatedNode, done: threading.Event) -> None:
    """A second passes each second; what that costs is this process's own."""
    while not done.wait(1.0):
        node.advance(1.0)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _item(record: PodRecord) -> dict[str, object]:
    pod, demand = record.pod, record.demand
    assert demand is not None
    amounts = {name: f"{n}m" if name == "cpu" else str(n) for name, n in _each(demand).items()}
    limits = {**amounts, "cpu": "500m", "memory": str(1 << 30)} if "cpu" in amounts else amounts
    resources = {"requests": amounts, "limits": limits}
    names = [container.name for container in record.containers.values()]
    return {
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "labels": dict(pod.labels),
        },
        "spec": {
            "priority": demand.priority,
            "containers": [{"name": name, "resources": resources} for name in names],
        },
        "status": {
            "phase": "Running",
            "qosClass": "BestEffort" if "cpu" not in amounts else "Burstable",
            "containerStatuses": [
                {
                    "name": container.name,
                    "containerID": f"containerd://{ident}",
                    "state": {"running": {}},
                }
                for ident, container in record.containers.items()
            ],
        },
    }


def _each(demand: Demand) -> Mapping[str, int]:
    return next(iter(demand.container_requests.values()))
