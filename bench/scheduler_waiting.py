"""Cost of many waiting pods for a Deployment that fits, in the scheduler's loop, without API.

``python -m bench.scheduler_waiting`` measures and writes bench/results/scheduler_waiting.*, as
``bench.scheduler_core`` does after its own measures.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from typing import Any, NamedTuple

import anyio
from koord_scheduler.config.scheduler_config import default_scheduler_config, read_scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds
from koord_scheduler.framework.decisions import Decision, Placement
from koord_scheduler.framework.queue.scheduling_queue import QueuedPod
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.io.scheduling_loop import SchedulingLoop
from koord_scheduler.objects.node import read_node
from koord_scheduler.state.pod_reader import PodReader
from koord_service import memory

from bench import report
from bench.cache import resident_mib
from bench.report import Measure

NODES = 5_000
SECONDS = 5.0
OF_GANGS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Coscheduling}]}}}]
"""
GANG = "pod-group.scheduling.sigs.k8s.io"
_WHY = "Looks at parked classes, and decisions about them in vain, have a fifth of the time."


class Costs(NamedTuple):
    """Of a loop: CPU time for a pod placed, and the longest time without a pause, in ms."""

    seconds: float
    longest: float


class CrowdedCluster:
    """Nodes of 64 cores, full or not, and pods that wait."""

    def __init__(self, config: str = "", nodes: int = NODES) -> None:
        memory.keep_freed()  # as the program does
        memory.collect_young_only()
        read = read_scheduler_config(config) if config else default_scheduler_config()
        self.scheduler = Scheduler([profile.profile for profile in read.profiles])
        self.reader = PodReader(self.scheduler.nodes)
        self.kinds = {
            cluster_kind.name: cluster_kind for cluster_kind in cluster_kinds(self.scheduler)
        }
        for number in range(nodes):
            self.node(f"node-{number}")

    def node(self, name: str, cpu: str = "64") -> None:
        amounts = {"cpu": cpu, "memory": "256Gi", "pods": "500"}
        document = {"metadata": {"name": name}, "status": {"allocatable": amounts}}
        self.scheduler.nodes.set(read_node(json.dumps(document).encode()))

    def pod(self, name: str, cpu: str, **more: Any) -> None:
        requests = {"cpu": cpu, "memory": more.pop("memory", "1Mi")}
        metadata = {"name": name, "namespace": "team", "uid": name}
        metadata["labels"] = more.pop("labels", {})
        metadata["creationTimestamp"] = more.pop("created", "2026-01-01T00:00:00Z")
        status = {"phase": "Pending", "nominatedNodeName": more.pop("nominated", "")}
        containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
        document = {"metadata": metadata, "spec": {"containers": containers, **more}}
        raw = json.dumps({**document, "status": status}).encode()
        self.scheduler.set_pod(self.reader.read(raw), time.monotonic())

    def park(self, number: int, cpu: str) -> None:
        """So many pods, each of a class of its own, fit nowhere."""
        for one in range(number):
            self.pod(f"parked-{one}", cpu, memory=f"{one + 1}Mi")
        self.park_all()

    def park_all(self) -> None:
        """All that wait do not fit; to find that out one by one takes minutes."""
        scheduler = self.scheduler
        for queue in list(scheduler.queue.classes()):
            scheduler.queue.park(queue.key, time.monotonic())
        assert scheduler.queue.next() is None

    def deploy(self, pods: int, created: str = "2026-01-02T00:00:00Z") -> None:
        for one in range(pods):
            self.pod(f"web-{one}", "10m", created=created)

    def run(self, seconds: float, each: Callable[[], None] = lambda: None) -> Costs:
        """Decide, while something changes all the time; ``each`` is called before each slice."""
        return anyio.run(self._run, seconds, each)

    async def _run(self, seconds: float, each: Callable[[], None]) -> Costs:
        loop, found = SchedulingLoop(self.scheduler, lambda: "", _Listener()), list[Decision]()
        began, ends, longest = time.process_time(), time.monotonic() + seconds, 0.0
        while time.monotonic() < ends:
            each()
            loop.notice_change()
            started = time.process_time()
            await loop._decide(None, found.append, lambda: 0)  # type: ignore[arg-type]  # noqa: SLF001
            longest = max(longest, time.process_time() - started)
            if seconds and self.scheduler.queue.next() is None and not self.scheduler.is_waking:
                break
        placed = sum(isinstance(one, Placement) for one in found)
        return Costs((time.process_time() - began) / max(placed, 1), 1e3 * longest)


class _Listener:
    def decided(self, decision: Decision, seconds: float) -> None: ...

    def bound(self, placement: Placement) -> None: ...

    def not_bound(self, pod: QueuedPod, reason: str) -> None: ...


def _beside(parked: int) -> Costs:
    cluster = CrowdedCluster()
    cluster.park(parked, "1000")
    cluster.deploy(40_000)
    return cluster.run(SECONDS)


def _beside_gangs(gangs: int, size: int = 8) -> Costs:
    """Each lacks room for its last pod."""
    cluster = CrowdedCluster(OF_GANGS)
    for gang in range(gangs):
        document = {"metadata": {"name": f"g{gang}", "namespace": "team"}}
        raw = json.dumps({**document, "spec": {"minMember": size}}).encode()
        kind = cluster.kinds["PodGroup"]
        kind.put(f"team/g{gang}", kind.read(raw))
        for one in range(size):
            cpu = "1000" if one == size - 1 else "1"
            cluster.pod(f"g{gang}-{one}", cpu, labels={GANG: f"g{gang}"})
    cluster.park_all()
    cluster.deploy(40_000)
    return cluster.run(SECONDS)


def _beside_nominated(pods: int) -> Costs:
    cluster = CrowdedCluster()
    for one in range(pods):
        gates = [{"name": "later"}]
        nominated = f"node-{one % NODES}"
        cluster.pod(f"n{one}", "6", nominated=nominated, priority=9, schedulingGates=gates)
    cluster.deploy(20_000)
    return cluster.run(SECONDS)


def _daemon_set() -> Costs:
    cluster = CrowdedCluster()
    for number in range(NODES):
        field = {"key": "metadata.name", "operator": "In", "values": [f"node-{number}"]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        cluster.pod(f"daemon-{number}", "100m", affinity={"nodeAffinity": required})
    return cluster.run(60.0)


def _node_added(pods: int) -> tuple[float, float]:
    """The longest time without a pause in ms, and the memory in MiB."""
    cluster = CrowdedCluster()
    cluster.park(pods, "100")
    cluster.run(5.0)
    cluster.node("new", "256")
    return cluster.run(5.0).longest, resident_mib()


def _follow(pods: int) -> float:
    """Return the growth in MiB of a replica that does not lead, after a tenth of so many pods."""
    cluster, before = CrowdedCluster(nodes=100), 0.0
    for one in range(pods):
        cluster.pod(f"p{one}", "1", labels={"index": str(one)})
        if one >= 1_000:
            cluster.scheduler.remove_pod(f"team/p{one - 1_000}")
        if one == pods // 10:
            before = resident_mib()
    return resident_mib() - before


def _apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """In a process of its own, whose memory is that of nothing else."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def measure() -> Iterator[Measure]:
    alone = _apart(_beside, 0)
    parked = _apart(_beside, 20_000)
    name = "a Deployment beside 20,000 parked classes"
    yield _ratio(name, parked, alone, 1 / 0.7)
    yield _ratio(
        "beside 2,000 gangs of 8", _apart(_beside_gangs, 2_000), _apart(_beside_gangs, 0), 2
    )
    nominated, none = _apart(_beside_nominated, 5_000), _apart(_beside_nominated, 0)
    yield _ratio("beside 5,000 nominated pods", nominated, none, 2)
    seconds = _apart(_daemon_set).seconds
    yield Measure("a DaemonSet", "µs a pod", 1e6 * seconds, "", None, 1e6 / 1_500)
    longest, resident = _apart(_node_added, 100_000)
    yield Measure("100,000 parked classes, node added: longest pause", "ms", longest, "", None, 20)
    yield Measure("100,000 parked classes: memory", "MiB", resident, "", None, 500)
    growth = _apart(_follow, 1_000_000)
    yield Measure("a follower, growth over 900,000 pods", "MiB", growth, "", None, 10)


def _ratio(name: str, ours: Costs, alone: Costs, target: float) -> Measure:
    return Measure(name, "µs a pod", 1e6 * ours.seconds, "none", 1e6 * alone.seconds, target, _WHY)


def main() -> None:
    measures = list(measure())
    print(report.table(measures))
    report.write(measures, "scheduler_waiting", {"nodes": NODES, "profile": "default"})


if __name__ == "__main__":
    main()
