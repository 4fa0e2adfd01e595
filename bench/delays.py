"""Costs of measuring delays on a full node: real processes, network namespaces, connections.

``python -m bench.delays``: as root; makes 110 pods of 3 containers of 3 processes of 2 threads
(cgroups below /pykoord-delays), each pod with a network namespace of 10 connections, measures a
round of each collector, and removes them.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver, Layout
from koord_host.netlink_sockets import TaskStats, TCPConnections
from koord_model.pod import Container, Pod
from koordlet.agent.config import KoordletSettings
from koordlet.metrics_advisor.collectors import poddisk, taskdelay, tcp
from koordlet.metrics_advisor.contract.collector import (
    AnyCollector,
    CollectContext,
    CollectorSources,
)
from koordlet.states_informer.state.pod_inventory import PodRecord

from bench import pod_processes

PODS, CONTAINERS = 110, 3
ROOT = "pykoord-delays"

_MODULES: Mapping[str, ModuleType] = {"taskdelay": taskdelay, "tcp": tcp, "poddisk": poddisk}


def measure(rounds: int = 20) -> dict[str, float]:
    """CPU milliseconds of a round, by collector: the median."""
    layout = Layout(1 if Path("/sys/fs/cgroup/cpu").is_dir() else 2, Driver.CGROUPFS)
    with _node(layout) as records:
        sources = CollectorSources(
            KernelFilesystem(), layout, delays=TaskStats(), connections=TCPConnections()
        )
        found = {}
        for name, module in _MODULES.items():
            collector = module.Collector(sources)
            costs = []
            for _ in range(rounds):
                costs.append(_cost(collector, records))
                time.sleep(1.0)
            found[name] = statistics.median(costs[1:])
    return found


def _cost(collector: AnyCollector, records: Sequence[PodRecord]) -> float:
    """A round, in a thread of its own as the runner's: CPU of this process, in milliseconds."""
    context = CollectContext(time.time(), time.monotonic(), tuple(records))
    failed: list[BaseException] = []

    def run() -> None:
        try:
            collector.collect(context)
        except BaseException as error:
            failed.append(error)

    before = time.process_time()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return (time.process_time() - before) * 1000


@contextlib.contextmanager
def _node(layout: Layout) -> Iterator[list[PodRecord]]:
    records, pods = [], []
    root = Path(layout.group_path(ROOT, "cpu"))
    for number in range(PODS):
        uid = f"u{number}"
        names = [f"c{number}-{place}" for place in range(CONTAINERS)]
        pods.append([root / f"pod{uid}" / name for name in names])
        pod = Pod(f"p{number}", "bench", uid, cgroup_parent=f"/{ROOT}/pod{uid}")
        records.append(PodRecord(pod, {name: Container(pod, name, name) for name in names}))
    try:
        for directory in (directory for directories in pods for directory in directories):
            directory.mkdir(parents=True)
        with pod_processes.running(pods):
            yield records
    finally:
        time.sleep(2)
        for directory in sorted(root.rglob("*"), reverse=True):
            if directory.is_dir():
                directory.rmdir()
        root.rmdir()


def main() -> None:
    print("| collector | CPU of a round | every | of a core |")
    print("|---|---|---|---|")
    total = 0.0
    for name, milliseconds in measure().items():
        seconds = getattr(KoordletSettings(), _MODULES[name].INTERVAL)
        share = milliseconds / seconds / 10
        total += share
        print(f"| `{name}` | {milliseconds:.1f} ms | {seconds:g} s | {share:.2f} % |")
    print(f"| together | | | {total:.2f} % |")


if __name__ == "__main__":
    main()
