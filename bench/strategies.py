"""Costs of deciding on a full node: a round of all strategies, and koordlet as a whole.

The node is simulated (``tests/support/simulated_node``: cgroup v2, 64 CPUs, 2 NUMA nodes, 110
pods of 3 containers), every gate is on and the NodeSLO asks for everything. The peer of a
round is the floor: the same views built, with nobody asked. The whole is a koordlet process
on such a node whose use moves each second, with hook calls at ten pods a minute, measured by
the CPU time that the kernel accounts to it. As root its pods have real processes and network
namespaces, of which it reads delays and connections.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

from bench import pod_processes
from bench.node import cpu_ms
from bench.observe import CONTAINERS, PODS, Watched
from bench.report import Measure
from tests.support.caller import LIKE_A_KUBELET
from tests.support.proxy import Koordlet
from tests.support.simulated_node import SimulatedNode

_MEMORY = {
    "enable": True,
    "minLimitPercent": 50,
    "lowLimitPercent": 80,
    "throttlingPercent": 80,
    "wmarkRatio": 95,
}
_POOLS = {"katalyst.kubewharf.io/cpu_enhancement": '{"cpuset_pool": "spark"}'}
_SERVICES = [
    {"name": f"app-{number}", "selector": {"matchLabels": {"app": f"app-{number}"}}}
    for number in range(10)
]
_TARGETS = {"psi": 20, "sched_wait": 200, "usage": 0.8}
STRATEGIES = {
    "cpu_weight": {"services": [service | {"cores": 2} for service in _SERVICES]},
    "memory_offload": {"policy": "integrated"},
    "pressure_suppress": {"services": [service | {"targets": _TARGETS} for service in _SERVICES]},
    "threshold_evict": {"thresholds": [{"signal": "memory.available", "percent": 5}]},
}
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
        "extensions": {"pykoord": {"strategies": STRATEGIES}},
    },
}
GATES = dict.fromkeys(DEFAULTS, True)
_SECONDS = 60
_NOT_HERE = ("Accelerators", "RDMADevices", "CPICollector")
"""Gates of collectors that look at hardware, which is this machine's."""
ALL = (*(name for name in GATES if name not in _NOT_HERE), "NUMABind", "ResourcePlugins")
"""All gates, but for those."""
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
    "memory.reclaim": "",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0",
    "memory.swap.current": "0",
    "memory.swap.max": "0",
    "cgroup.procs": "",
    "cgroup.stat": "nr_descendants 0\nnr_dying_descendants 0",
    "io.stat": "254:0 rbytes=4096 wbytes=4096 rios=1 wios=1 dbytes=0 dios=0",
    **dict.fromkeys(
        (f"{resource}.pressure" for resource in ("cpu", "memory", "io")),
        "some avg10=0.10 avg60=0.05 avg300=0.00 total=1000\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=0",
    ),
}
_MACHINES = ("loadavg", "pressure", "self", "uptime", "vmstat", "zoneinfo")
"""Files of this machine's procfs, which the simulated one has not."""


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

    def add_machines_files(self) -> None:
        """Link what only this machine has: files of its own, and those of its processes."""
        proc = Path(self.layout.proc_root)
        for name in _MACHINES:
            (proc / name).symlink_to(Path("/proc", name))
        for group in Path(self.layout.cgroup_root).rglob("cgroup.procs"):
            for pid in group.read_text().split():
                (proc / pid).symlink_to(Path("/proc", pid))

    def containers(self) -> list[list[Path]]:
        """The directories of each pod's containers."""
        return [
            [self._directories(group.name)[0] for group in pod.containers] for pod in self._pods
        ]

    def pod_list(self) -> str:
        """Return the kubelet's list of pods."""
        return json.dumps({"items": [_item(record) for record in self.records]})


def measure(rounds: int) -> list[Measure]:
    with tempfile.TemporaryDirectory(prefix="koord-bench-", dir="/dev/shm") as name:
        asked, floors = _rounds(Path(name), max(rounds, 9) * 3)
    with tempfile.TemporaryDirectory(prefix="koord-bench-", dir="/dev/shm") as name:
        busy, resident = _whole(Path(name), ALL)
    with tempfile.TemporaryDirectory(prefix="koord-bench-", dir="/dev/shm") as name:
        usual, usually_resident = _whole(Path(name), ())
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
        Measure("koordlet with default gates, CPU", "% of a core", usual, "", None, None),
        Measure("koordlet with default gates, RSS", "MiB", usually_resident, "", None, None),
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


def _whole(directory: Path, gates: Sequence[str]) -> tuple[float, float]:
    """Percent of a core and MiB of a koordlet on a full node; it does what ``gates`` name."""
    node = DecidedNode(directory / "node", pods=PODS, containers=CONTAINERS)
    pods, slo = directory / "pods.json", directory / "nodeslo.yaml"
    pods.write_text(node.pod_list())
    slo.write_text(json.dumps(NODE_SLO))
    koordlet = PlainKoordlet(directory, directory / "hookserver.d", *flags(node, pods, slo, gates))
    done = threading.Event()
    moving = threading.Thread(target=_move, args=(node, done))
    with _processes(node), koordlet, _hook(koordlet) as call:
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


@contextmanager
def _processes(node: DecidedNode) -> Iterator[None]:
    """Real processes of the pods, as far as we may."""
    with pod_processes.running(node.containers() if os.geteuid() == 0 else ()):
        time.sleep(1)  # until all are in their lists
        node.add_machines_files()
        yield


@contextmanager
def _hook(koordlet: Koordlet) -> Iterator[Callable[[pb.PodSandboxHookRequest], object]]:
    with grpc.insecure_channel(f"unix:{koordlet.socket}", LIKE_A_KUBELET) as channel:
        yield channel.unary_unary(
            f"/{SERVICE}/PreRunPodSandboxHook",
            pb.PodSandboxHookRequest.SerializeToString,
            pb.PodSandboxHookResponse.FromString,
        )


def flags(
    node: SimulatedNode, pods: Path, slo: Path, gates: Sequence[str] = ALL
) -> tuple[str, ...]:
    """Those of a koordlet on a simulated node; ``gates`` are on besides the default ones."""
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
        *(
            (
                "--enable-pagecache-collector",
                f"--feature-gates={','.join(f'{name}=true' for name in gates)}",
            )
            if gates
            else ()
        ),
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
            "annotations": _POOLS if pod.labels["app"] == "app-19" else {},
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
