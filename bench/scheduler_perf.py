"""kube-scheduler's own performance tests, on the core: the same shapes without any API.

Each pod that is measured is read from JSON, decided, and read again with its node; preempted pods
go at once. kube-scheduler's thresholds are with an API server and etcd on the machine of its CI:
what is next to them is no race, but shows which shapes cost us most.

``python -m bench.scheduler_perf [--only NAME] [--quick]`` measures and writes
bench/results/scheduler_perf.*; ``--quick`` takes a fiftieth of all and writes nothing.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import deque
from collections.abc import Iterable

import msgspec
from koord_kube.protocol.resources import NODES, Resource
from koord_kube.views.metadata import decode_named
from koord_scheduler.config.scheduler_config import default_scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds
from koord_scheduler.framework.decisions import Placement, PreemptionPlan
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.io.scheduling_loop import WAKE_SECONDS
from koord_scheduler.state.pod_reader import PodReader
from koord_service import memory

from bench import report
from bench.perf_workloads import WORKLOADS, Churn, Group, Object, Workload
from bench.report import Measure

ROUNDS = 3
QUICK = 0.02
MOST_SKIPS = 2_000


class Cluster:
    """The scheduler's core, and an API that says at once what was decided.

    Times are the CPU seconds of this process, and those that were skipped.
    """

    def __init__(self) -> None:
        profiles = [profile.profile for profile in default_scheduler_config().profiles]
        self._scheduler = Scheduler(profiles)
        self._kinds = {kind.resource: kind for kind in cluster_kinds(self._scheduler)}
        self._reader = PodReader(self._scheduler.nodes)
        self._pods: dict[str, Object] = {}
        self._placed: deque[str] = deque()
        self._made = 0
        self._woken_at = self._skipped = 0.0

    @property
    def now(self) -> float:
        return time.process_time() + self._skipped

    def put(self, resource: Resource, given: Object) -> None:
        kind, raw = self._kinds[resource], msgspec.json.encode(given)
        kind.put(decode_named(raw).metadata.key, kind.read(raw))

    def remove_node(self, name: str) -> None:
        self._kinds[NODES].remove(name)

    def documents(self, group: Group) -> dict[str, Object]:
        """Pods by their keys."""
        found = {}
        for number in range(group.count):
            self._made += 1
            pod = group.template(number)
            pod["metadata"] |= {"name": f"pod-{self._made}", "uid": str(self._made)}
            found[f"{pod['metadata']['namespace']}/pod-{self._made}"] = pod
        return found

    def add(self, pods: dict[str, Object]) -> None:
        self._pods |= pods
        for pod in pods.values():
            self._set(pod)

    def delete_first(self) -> None:
        """The pod that was placed first goes."""
        while self._placed:
            key = self._placed.popleft()
            if key in self._pods:
                self.delete(key)
                return

    def delete(self, key: str) -> None:
        del self._pods[key]
        self._scheduler.remove_pod(key)

    def decide(self) -> str | None:
        """The key of a pod that got a node, "" if another one did not; ``None``: none is next."""
        now = self.now
        self._scheduler.queue.tick(now)
        if now - self._woken_at >= WAKE_SECONDS:
            self._woken_at = now
            self._scheduler.wake(now)
        decision = self._scheduler.decide(now)
        if isinstance(decision, Placement):
            key = decision.pod.key
            pod = self._pods[key]
            pod["spec"]["nodeName"] = decision.node
            self._set(pod)
            self._placed.append(key)
            return key
        if isinstance(decision, PreemptionPlan):
            for victim in decision.preemption.victims:
                self.delete(victim.key)
        return None if decision is None else ""

    def skip(self) -> None:
        """Nothing is next: what waits is looked at again at once."""
        self._skipped += WAKE_SECONDS

    def settle(self) -> None:
        """Until nothing is next."""
        while self.decide() is not None:
            pass

    def _set(self, pod: Object) -> None:
        self._scheduler.set_pod(self._reader.read(msgspec.json.encode(pod)), self.now)


class _Beside:
    """Churn while pods are measured."""

    def __init__(self, cluster: Cluster, churn: Churn) -> None:
        self._cluster = cluster
        self._churn = churn
        self._next = cluster.now + churn.seconds
        self._last: str | None = None

    def pass_time(self) -> None:
        if self._cluster.now < self._next:
            return
        self._next += self._churn.seconds
        if self._churn.deletes:
            self._cluster.delete_first()
        if self._churn.template is None:
            return
        if self._churn.is_recreated:
            self._recreate()
        pods = self._cluster.documents(Group(1, self._churn.template))
        self._cluster.add(pods)
        (self._last,) = pods

    def _recreate(self) -> None:
        node = {"pods": "0", "cpu": "0", "memory": "0"}
        if self._last is not None:
            self._cluster.delete(self._last)
            self._cluster.remove_node("churned")
        given = {"metadata": {"name": "churned"}, "status": {"allocatable": node}}
        self._cluster.put(NODES, given)


def microseconds(workload: Workload) -> float:
    """Of CPU a pod."""
    cluster = Cluster()
    for group in workload.nodes:
        for number in range(group.count):
            cluster.put(NODES, group.template(number))
    for resource, given in workload.others():
        cluster.put(resource, given)
    for group in workload.initial:
        cluster.add(cluster.documents(group))
        cluster.settle()
    left = cluster.documents(workload.measured)
    count = len(left)
    began = time.process_time()
    beside = _Beside(cluster, workload.churn) if workload.churn else None
    cluster.add(left)
    skips = 0
    while left:
        key = cluster.decide()
        if key is None:
            skips += 1
            assert skips < MOST_SKIPS, f"{workload.name}: {len(left)} pods are left"
            cluster.skip()
        elif key:
            left.pop(key, None)
        if beside is not None:
            beside.pass_time()
    return (time.process_time() - began) / count * 1e6


def measure(workloads: Iterable[Workload], rounds: int) -> list[Measure]:
    found = []
    for workload in workloads:
        values = [microseconds(workload) for _ in range(rounds)]
        middle = statistics.median(values)
        peer = 1e6 / workload.threshold if workload.threshold else None
        ratios = [one / peer for one in values] if peer else values
        interval = report.median_interval(ratios)
        found.append(
            Measure(
                workload.name, "µs", middle, "threshold" if peer else "", peer, None, "", interval
            )
        )
        print(f"{workload.name}: {1e6 / middle:,.0f} pods/s", flush=True)
    return found


def plot(measures: Iterable[Measure]) -> None:
    """Pods a second of the core, and the thresholds, from the slowest shape on."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    ordered = sorted(measures, key=lambda one: -one.ours)
    figure, axes = plt.subplots(figsize=(9, 0.27 * len(ordered) + 1), layout="constrained")
    rates = [1e6 / one.ours for one in ordered]
    bars = axes.barh([one.name for one in ordered], rates, color="tab:blue")
    axes.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
    for place, one in enumerate(ordered):
        if one.peer:
            axes.vlines(1e6 / one.peer, place - 0.4, place + 0.4, color="tab:red", linewidth=2)
    axes.plot([], [], color="tab:red", linewidth=2, label="threshold of kube-scheduler's CI")
    axes.legend(frameon=False, loc="lower right", fontsize=8)
    axes.set(xscale="log", xlabel="pods a second of CPU, the core alone")
    axes.set_xlim(10, 2 * max(rates))
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(report.RESULTS / "scheduler_perf.png", dpi=110)
    plt.close(figure)


def main(rounds: int = ROUNDS, only: str = "", *, quick: bool = False) -> None:
    memory.keep_freed()  # as the program does
    workloads = [one for one in WORKLOADS if only in one.name]
    if quick:
        rounds, workloads = 1, [workload.scaled(QUICK) for workload in workloads]
    measures = measure(workloads, rounds)
    print(report.table(measures))
    if not quick and not only:
        note = "CPU of reading, deciding and reading again a pod; peer: see bench/perf_workloads.py"
        report.write(measures, "scheduler_perf", {"rounds": rounds, "measured": note})
        plot(measures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler_perf")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    main(options.rounds, options.only, quick=options.quick)
