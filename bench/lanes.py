"""Time of a suppression from plan to kernel file while slow effects hang.

The node side of koordlet as it is (``open_node``) on a simulated full node: cgroup v2 as plain
files, 110 pods of 3 containers. An ``nft`` on the PATH that never answers stands in for a
packet filter that hangs. A double stands in for the kernel's reclaim too: each 16 MiB take
half a second, as of a group whose pages have to be written out first. A strategy's plan is
handed over ten times a second; the clock stops when the file has its value, or that of a
later plan. In a turn of its own all pods change once a second.

The peer is the same node where nothing hangs: nft and reclaim answer at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import uvloop
from koord_hooks.runner import load
from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS
from koord_host.planning.desired_values import DesiredValue, Target
from koord_model.keys import (
    ANNOTATION_EXTENDED_RESOURCE_SPEC,
    BATCH_CPU,
    BATCH_MEMORY,
    LABEL_QOS,
)
from koord_model.qos import KubeQoS
from koord_service.log_deduplicator import LogDeduplicator
from koordlet.agent.config import KoordletSettings
from koordlet.agent.qos_manager import submit_plan
from koordlet.agent.runtime_hooks import ManagedNode, find_layout, open_node, open_pods
from koordlet.qos_manager.plan_queue import NodePlan
from koordlet.runtime_hooks.hook_metrics import ReconcileMetrics
from koordlet.states_informer.state.pod_inventory import PodRecord
from prometheus_client import CollectorRegistry

from bench import report
from bench.observe import CONTAINERS, PODS
from bench.report import Measure
from bench.strategies import DecidedNode

PLANS = 300
_PAUSE = 0.1
_RECLAIM_BYTES = 256 << 20
_BYTES_A_SECOND = 32 << 20
_WITHIN = 50.0
_SWITCH_SECONDS = 0.0005
"""As koordlet's own ``main`` sets it."""


class SlowKernel(KernelFilesystem):
    """Plain files for a kernel's, of which one may be slow; notes writes of a group's quota."""

    def __init__(self, root: str, quota: str, *, slow: bool) -> None:
        super().__init__((root,))
        self._quota = quota
        self._slow = slow
        self.written: list[tuple[int, float]] = []

    def write(self, path: str, text: str) -> None:
        if path.endswith("/memory.reclaim"):
            time.sleep(int(text) / _BYTES_A_SECOND if self._slow else 0.0)
            return
        # A plain file does not forget what it held, as a kernel's does.
        os.truncate(path, 0)
        super().write(path, text)
        self._note(path, text)

    def write_and_read(self, path: str, text: str) -> str:
        os.truncate(path, 0)
        found = super().write_and_read(path, text)
        self._note(path, text)
        return found

    def _note(self, path: str, text: str) -> None:
        if path == self._quota:
            self.written.append((int(text.split()[0]), perf_counter()))


class Bench:
    """A node side with its loop, and who hands over plans."""

    def __init__(self, directory: Path, *, slow: bool) -> None:
        simulated = DecidedNode(directory / "node", pods=PODS, containers=CONTAINERS)
        layout: Layout = simulated.layout
        self.be = layout.kube_qos_group(KubeQoS.BEST_EFFORT)
        quota = layout.path(KNOBS["cpu.cfs_quota_us"], self.be)
        self.kernel = SlowKernel(str(directory), quota, slow=slow)
        settings = KoordletSettings(
            cgroup_root_dir=layout.cgroup_root,
            cgroup_version="2",
            cgroup_driver="cgroupfs",
            proc_root_dir=layout.proc_root,
            sys_root_dir=simulated.sys_root,
            sys_fs_root_dir=f"{directory}/sysfs",
            state_dir=f"{directory}/state",
            # So that nft hangs again as soon as it was given up.
            resource_force_update_seconds=1.0,
        )
        found = find_layout(settings, self.kernel)
        self.node: ManagedNode = open_node(
            settings,
            load(["all"]),
            LogDeduplicator(),
            self.kernel,
            ReconcileMetrics(CollectorRegistry()),
            found,
            open_pods(settings, found, self.kernel),
        )
        self.records = simulated.records

    async def run(self, plans: int, *, churn: bool = False) -> list[float]:
        """Milliseconds from each plan to its value, or a later one, in the file."""
        inventory = self.node.reconcile_loop.inventory
        inventory.replace(self.records, 0.0)
        async with asyncio.TaskGroup() as group:
            loop = group.create_task(self.node.reconcile_loop.run())
            await asyncio.sleep(2.0)
            handed = []
            for number in range(plans):
                handed.append((number, perf_counter()))
                self._hand_over(number)
                if churn and number % 10 == 5:
                    inventory.replace(_changed(self.records, number), float(number))
                    self.node.reconcile_loop.wake()
                await asyncio.sleep(_PAUSE)
            while not self.kernel.written or self.kernel.written[-1][0] < _value(plans - 1):
                await asyncio.sleep(0.05)
            loop.cancel()
        await self.node.reconcile_loop.finish(self.node.shut_down)
        return [self._milliseconds(number, at) for number, at in handed]

    def _hand_over(self, number: int) -> None:
        quota = DesiredValue(Target(self.be, "cpu.cfs_quota_us"), _value(number), "load")
        one_shot: tuple[tuple[str, tuple[DesiredValue, ...]], ...] = ()
        if number % 50 == 0:
            # Ended, or not, the next one is wanted: there is always a reclaim under way.
            reclaim = DesiredValue(Target(self.be, "memory.reclaim"), _RECLAIM_BYTES, "cold")
            one_shot = (("memory_offload", (reclaim,)),)
        submit_plan(self.node, NodePlan({"cpu_suppress": (quota,)}, one_shot=one_shot))

    def _milliseconds(self, number: int, at: float) -> float:
        done = next(when for value, when in self.kernel.written if value >= _value(number))
        return (done - at) * 1e3


def _value(number: int) -> int:
    """A quota that tells which plan it is of."""
    return 100_000 + number * 10


def _changed(records: Sequence[PodRecord], number: int) -> tuple[PodRecord, ...]:
    """The same pods, all of which are to have other values."""
    amounts = {BATCH_CPU: 200 + number % 7, BATCH_MEMORY: str((200 + number % 7) << 20)}
    asked = {"requests": amounts, "limits": amounts}
    return tuple(_asking(record, asked) for record in records)


def _asking(record: PodRecord, asked: object) -> PodRecord:
    spec = {"containers": {container.name: asked for container in record.containers.values()}}
    annotations = {ANNOTATION_EXTENDED_RESOURCE_SPEC: json.dumps(spec)}
    pod = replace(record.pod, labels={LABEL_QOS: "BE"}, annotations=annotations)
    containers = {
        ident: replace(container, pod=pod) for ident, container in record.containers.items()
    }
    return replace(record, pod=pod, containers=containers)


@contextmanager
def double_of_nft(directory: Path, *, hangs: bool) -> Iterator[None]:
    """An nft before all others on the PATH, that knows no table or never answers."""
    program = directory / "bin" / "nft"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 1000\n" if hangs else "#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{program.parent}:{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def turn(plans: int, *, hangs: bool = True, churn: bool = False) -> list[float]:
    """Milliseconds of each plan of one run."""
    with tempfile.TemporaryDirectory(prefix="koord-bench-", dir="/dev/shm") as name:
        directory = Path(name)
        with double_of_nft(directory, hangs=hangs):
            bench = Bench(directory, slow=hangs)
            return uvloop.run(bench.run(plans, churn=churn))


def measure() -> list[Measure]:
    switch = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        quiet, ours, busy = turn(PLANS, hangs=False), turn(PLANS), turn(PLANS, churn=True)
    finally:
        sys.setswitchinterval(switch)
    name = "suppression, plan to file, nft and reclaim hang"
    p99 = _p99(ours)
    return [
        Measure(
            f"{name}, p50",
            "ms",
            statistics.median(ours),
            "nothing hangs",
            statistics.median(quiet),
            None,
        ),
        Measure(f"{name}, p99", "ms", p99, "", None, _WITHIN),
        Measure(f"{name}, p99, beside", "ms", p99, "nothing hangs", _p99(quiet), None),
        Measure("the same while all pods change, p99", "ms", _p99(busy), "", None, _WITHIN),
    ]


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[98]


def main() -> None:
    """Measure, print and write down."""
    measures = measure()
    print(report.table(measures))
    settings = {
        "pods": f"{PODS} × {CONTAINERS}, simulated",
        "plans": f"{PLANS}, ten a second",
        "nft, reclaim": "doubles: one never answers, the other takes 0.5 s for 16 MiB",
    }
    report.write(measures, "lanes", settings)


if __name__ == "__main__":
    main()
