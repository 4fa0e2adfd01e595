"""A reconcile of 110 pods of 3 containers, on real cgroups.

The peer of a reconcile that changes everything is the floor: the same values written
to the same files by a bare loop, in turns.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from koord_hooks.runner import HookRunner, load
from koord_host import detect
from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver
from koord_host.knobs.table import KNOBS
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import Journal
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, BATCH_MEMORY, LABEL_QOS
from koord_model.node import Kernel as KernelView
from koord_model.node import NodeView
from koord_model.pod import Container, Pod
from koordlet.runtime_hooks.reconciler.desired_state import compute_pod
from koordlet.runtime_hooks.reconciler.reconciler import HOOKS, NodeReconciler
from koordlet.runtime_hooks.reconciler.tasks import TaskReconciler
from koordlet.states_informer.state.pod_inventory import PodInventory, PodRecord

from bench.report import Measure

PODS, CONTAINERS = 110, 3
V1 = ("cpu", "cpuset", "memory")


class Node:
    """Cgroups for a full node, and a reconciler over them."""

    def __init__(self, root: str, scratch: Path) -> None:
        self.files = KernelFilesystem()
        self.layout = detect.layout(self.files, driver=Driver.CGROUPFS)
        self.root = root
        self.runner: HookRunner = load(["all"])
        kernel = KernelView(knobs=detect.knobs(self.files, self.layout))
        self.view = NodeView(kernel=kernel)
        executor = Executor(
            self.files,
            self.layout,
            Journal(str(scratch / "journal.jsonl"), print),
            BaselineStore(str(scratch / "originals.db")),
            clock=time.time,
            monotonic=time.monotonic,
            refresh_seconds=3600.0,
        )
        tasks = TaskReconciler(HOOKS, self.files, self.layout, time.monotonic, 3600.0)
        self.reconciler = NodeReconciler(
            self.runner, self.layout, self.files, executor, tasks, lambda _: None
        )

    def records(self, milli: int) -> tuple[PodRecord, ...]:
        """A full node of batch pods whose containers ask for so many millicores."""
        return tuple(self._record(number, milli) for number in range(PODS))

    def _record(self, number: int, milli: int) -> PodRecord:
        amounts = {BATCH_CPU: milli, BATCH_MEMORY: str(milli << 20)}
        asked = {"requests": amounts, "limits": amounts}
        spec = {"containers": {f"c{index}": asked for index in range(CONTAINERS)}}
        pod = Pod(
            f"job-{number}",
            "batch",
            f"uid-{number}",
            {LABEL_QOS: "BE"},
            {ANNOTATION_EXTENDED_RESOURCE_SPEC: json.dumps(spec)},
            f"{self.root}/besteffort/pod{number}",
        )
        containers = {
            f"id-{index}": Container(pod, f"c{index}", f"id-{index}") for index in range(3)
        }
        return PodRecord(pod, containers)

    def groups(self) -> list[str]:
        pods = [f"{self.root}/besteffort/pod{number}" for number in range(PODS)]
        return [
            self.root,
            f"{self.root}/besteffort",
            *pods,
            *(f"{pod}/id-{index}" for pod in pods for index in range(CONTAINERS)),
        ]

    def floor(self, records: tuple[PodRecord, ...]) -> list[tuple[str, str]]:
        """The paths and texts that a bare loop would write."""
        writes = []
        for record in records:
            for desired in compute_pod(record, (), self.runner, self.view, self.layout).values:
                knob = KNOBS[desired.target.knob]
                path = self.layout.path(knob, desired.target.place)
                writes.append((path, knob.form(self.layout.version).encode(desired.value, "")))
        return writes


@contextmanager
def cgroups(node: Node) -> Iterator[None]:
    made: list[Path] = []
    try:
        for group in node.groups():
            for subsystem in V1:
                path = Path(node.layout.group_path(group, subsystem))
                if path not in made:
                    path.mkdir()
                    made.append(path)
                if subsystem == "cpuset":
                    for file in ("cpuset.cpus", "cpuset.mems"):
                        (path / file).write_text((path.parent / file).read_text())
        yield
    finally:
        for path in reversed(made):
            path.rmdir()


def cpu_ms(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1e3


def relist(
    inventory: PodInventory, listed: tuple[PodRecord, ...], level: Callable[[], object]
) -> None:
    """A list of pods that says the same in new words, and the round after it."""
    inventory.replace(listed, 1.0)
    level()


def write_all(writes: list[tuple[str, str]]) -> None:
    for path, text in writes:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        # In no order, so that the kernel refuses some: that costs as much.
        with contextlib.suppress(OSError):
            os.write(file, text.encode())
        os.close(file)


def measure(rounds: int) -> list[Measure]:
    quiet, busy, bare = [], [], []
    with tempfile.TemporaryDirectory(prefix="koord-bench-") as name:
        node = Node(f"pykoord-bench-{os.getpid()}", Path(name))
        with cgroups(node):
            for number in range(rounds):
                # Up and down in turns, so that each round changes every container.
                records = node.records(200 + 100 * (number % 2))
                level = partial(node.reconciler.reconcile_all, records, node.view)
                busy.append(cpu_ms(level))
                inventory = PodInventory()
                inventory.replace(records, 0.0)
                same = node.records(200 + 100 * (number % 2))
                quiet.append(cpu_ms(partial(relist, inventory, same, level)))
                bare.append(cpu_ms(partial(write_all, node.floor(node.records(250)))))
    return [
        Measure(
            "reconcile 110 × 3, nothing to change, CPU",
            "ms",
            statistics.median(quiet),
            "",
            None,
            10.0,
        ),
        Measure(
            "reconcile 110 × 3, all to change, CPU", "ms", statistics.median(busy), "", None, 100.0
        ),
        Measure(
            "reconcile 110 × 3, all to change, floor",
            "ms",
            statistics.median(busy),
            "bare writes",
            statistics.median(bare),
            None,
        ),
    ]
