"""The reckoning of batch and mid resources: simulated nodes with 50 pods and two NUMA nodes.

A full pass is all that the manager reckons at once: formulas, smoothing, zones, what is to be
written. That a node reports means besides that its status is read and its pods summed up; in the
worst pass every node has reported since the last, and in the first after a start all of that is
done for the first time. The manager spreads those sums between passes; ``reports`` has its passes.

``python -m bench.node_resource`` measures and writes bench/results/node_resource.*.
"""

from __future__ import annotations

import statistics
import time
from typing import NamedTuple

import msgspec
import numpy as np
from koord_manager.noderesource.core.fleet import Fleet
from koord_manager.noderesource.core.node_state import CpuMemory, NumaZone, read_node_state
from koord_manager.noderesource.core.pods import read_pod_summary
from koord_manager.slo_config.core.colocation import ColocationStrategy, Smoothing

from bench import report
from bench.cache import cpu_ms, resident_mib
from bench.report import RESULTS, Measure

NODES, PODS = 5_000, 50
SIZES = (1_000, 5_000, 10_000, 20_000)
_MOST_ROUNDS = 3
START = 1_700_000_400.0
GIB = 1 << 30
STRATEGY = ColocationStrategy(enable=True, smoothing=Smoothing(rise_percent=5))
_KEYS = tuple(f"ns-{number % 7}/web-{number:04d}-7f9c-abcde" for number in range(PODS))


def pod_text(node: str, number: int) -> bytes:
    resources = {"requests": {"cpu": f"{100 * (1 + number % 8)}m", "memory": "512Mi"}}
    namespace, _, name = _KEYS[number].partition("/")
    pod = {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "web", "resources": resources}] * 2},
        "status": {"phase": "Running", "qosClass": "Burstable"},
    }
    return msgspec.json.encode(pod)


def status_text(random: np.random.Generator) -> bytes:
    def used(cpu: int, memory: int) -> dict[str, object]:
        return {"resources": {"cpu": f"{cpu}m", "memory": str(memory)}}

    cpu = random.integers(10, 900, PODS).tolist()
    memory = random.integers(10 << 20, 1 << 30, PODS).tolist()
    system = used(1200, 3 * GIB)
    numa = [{"numaNodeID": number, "systemUsage": used(600, GIB)} for number in range(2)]
    pods = [
        {
            "namespace": key.partition("/")[0],
            "name": key.partition("/")[2],
            "podUsage": used(*one),
            "priority": "koord-prod",
            "qos": "LS",
        }
        for key, one in zip(_KEYS, zip(cpu, memory, strict=True), strict=True)
    ]
    status = {
        "updateTime": "2023-11-14T22:20:00Z",
        "nodeMetric": {
            "nodeUsage": used(30000, 60 * GIB),
            "systemUsage": system,
            "numaUsages": numa,
        },
        "podsMetric": pods,
        "prodReclaimableMetric": {"resource": used(8000, 32 * GIB)},
    }
    return msgspec.json.encode(status)


def filled(number: int) -> tuple[Fleet, list[str], list[bytes]]:
    """The fleet, its nodes' names, and two hundred statuses for them to report."""
    random = np.random.default_rng(1)
    statuses = [status_text(random) for _ in range(200)]
    capacity = {"cpu": "64", "memory": "256Gi"}
    node = {"status": {"capacity": capacity, "allocatable": {"cpu": "62", "memory": "250Gi"}}}
    state = read_node_state(node)
    zones = [NumaZone(f"node-{one}", one, CpuMemory(32_000, 128 * GIB)) for one in range(2)]
    fleet, names = Fleet(), [f"node-{one:05d}" for one in range(number)]
    for name in names:
        fleet.node(name, state, STRATEGY, START)
        fleet.topology(name, zones)
        for each in range(PODS):
            fleet.pod(_KEYS[each], None, read_pod_summary(pod_text(name, each)))
    return fleet, names, statuses


def report_all(fleet: Fleet, names: list[str], statuses: list[bytes], turn: int, at: float) -> None:
    for place, name in enumerate(names):
        fleet.metric(name, statuses[(place + turn) % len(statuses)], at)


class Size(NamedTuple):
    """Milliseconds of a full pass, of one after all have reported and of the first; MiB kept."""

    full: float
    worst: float
    first: float
    kept: float


def one_size(number: int, rounds: int) -> Size:
    before = resident_mib()
    fleet, names, statuses = filled(number)
    passes, worst = [], []
    for turn in range(rounds + 1):
        at = START + 10.0 * turn
        report_all(fleet, names, statuses, turn, at)
        worst.append(_wall_ms(lambda: fleet.calculate(at)))  # noqa: B023
        passes.append(_wall_ms(lambda: fleet.calculate(at + 1)))  # noqa: B023
    kept = resident_mib() - before
    return Size(statistics.median(passes), statistics.median(worst[1:]), worst[0], kept)


def _wall_ms(work: object) -> float:
    assert callable(work)
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


def measure(rounds: int) -> list[Measure]:
    found = {number: one_size(number, min(rounds, _MOST_ROUNDS)) for number in SIZES}
    plot(found)
    full, worst, first, kept = found[NODES]
    fleet, names, statuses = filled(200)
    report_all(fleet, names, statuses, 0, START)
    each = cpu_ms(lambda: fleet.calculate(START)) / len(names) * 1e3
    what = f"noderesource, {NODES} nodes × {PODS} pods"
    return [
        Measure(f"{what}, full pass", "ms", full, "", None, 1000.0),
        Measure(f"{what}, all reported anew, pass", "ms", worst, "", None, None),
        Measure(f"{what}, first pass with all sums", "ms", first, "", None, None),
        Measure(f"{what}, memory of states", "MiB", kept, "", None, None),
        Measure("noderesource, one report read and summed up, CPU", "µs", each, "", None, None),
        *(
            Measure(f"noderesource, {number} nodes, full pass", "ms", one.full, "", None, None)
            for number, one in found.items()
            if number != NODES
        ),
    ]


def plot(found: dict[int, Size]) -> None:
    """Plot the growth of the cost with the nodes."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    sizes = list(found)
    left.plot(sizes, [found[size].full for size in sizes], "o-", label="full pass")
    left.plot(sizes, [found[size].worst for size in sizes], "o-", label="all nodes reported anew")
    left.set(xlabel=f"nodes × {PODS} pods", ylabel="ms", title="One pass")
    left.legend(frameon=False)
    right.plot(sizes, [found[size].kept for size in sizes], "o-")
    right.set(xlabel=f"nodes × {PODS} pods", ylabel="MiB", title="Memory of states")
    for axes in (left, right):
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / "node_resource.png", dpi=110)
    plt.close(figure)


def main(rounds: int = _MOST_ROUNDS) -> None:
    """Measure, print, and put it where results are."""
    found = measure(rounds)
    print(report.table(found))
    report.write(found, "node_resource", {"pods a node": PODS, "zones": 2})


if __name__ == "__main__":
    main()
