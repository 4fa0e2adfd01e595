"""Costs of observing a full node: collectors, memory after a day, the list of pods.

The node is simulated (``tests/support/simulated_node``: cgroup v2, 64 CPUs, 2 NUMA nodes,
110 pods of 3 containers), so that the kernel's own work of making up its files is not in
the figures; on this machine's real cgroups it is about as much again. The peer of a round
of all collectors is the floor: the same files read by a bare loop, in turns.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import perf_counter

from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver, Layout
from koord_model.node_slo import NodeSLO
from koordlet.agent.config import KoordletSettings
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.metric_cache.ring_cache import RingCache
from koordlet.metrics_advisor import collector_runner as observer_module
from koordlet.metrics_advisor.collector_runner import CollectorRunner
from koordlet.metrics_advisor.collector_table import select_enabled
from koordlet.metrics_advisor.contract.collector import CollectorSources
from koordlet.metrics_reporter.documents import node_metric
from koordlet.metrics_reporter.documents.metric_policy import MetricCollectPolicy
from koordlet.prediction.predictor import CheckpointDirectory, Predictor, TrainingSettings
from koordlet.states_informer.state import kubelet_pods

from bench.node import cpu_ms
from bench.report import Measure
from tests.support.node.pods import PodSpec, pod_list
from tests.support.simulated_node import SimulatedNode

PODS, CONTAINERS = 110, 3
_DAY, _HOUR, _MINUTE = 86400, 3600, 60
_EPOCH = 1_750_000_000.0


class Clock:
    """Stands in for the module ``time`` in the observer: a day passes in a minute."""

    def __init__(self) -> None:
        self.wall, self.steady = _EPOCH, 1000.0

    def time(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def perf_counter(self) -> float:
        return perf_counter()


class Recorder:
    """Reads as the kernel's reader does, and remembers what was read."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._kernel = KernelFilesystem()

    def __getattr__(self, name: str) -> object:
        return getattr(self._kernel, name)

    def read(self, path: str) -> str:
        self.paths.append(path)
        return self._kernel.read(path)


class Watched:
    """A simulated node with all default collectors, the metric cache and prediction."""

    def __init__(
        self,
        directory: Path,
        tree: object | None = None,
        node: type[SimulatedNode] = SimulatedNode,
    ) -> None:
        self.node = node(directory / "node", pods=PODS, containers=CONTAINERS)
        self.clock = Clock()
        observer_module.time = self.clock  # type: ignore[assignment, attr-defined]
        sources = CollectorSources(
            tree or KernelFilesystem(),  # type: ignore[arg-type]
            self.node.layout,
            sys_root=self.node.sys_root,
        )
        on, off = select_enabled(asdict(KoordletSettings()), DEFAULTS, sources)
        self.cache = RingCache(str(directory / "metrics"), 100 << 20, print)
        self.observer = CollectorRunner(on, off, self.cache, lambda: self.node.records, NodeSLO)
        self.predicting = Predictor(
            TrainingSettings(),
            self.cache,
            CheckpointDirectory(str(directory / "predictions"), print),
            lambda: self.node.records,
            lambda: None,
        )

    def look(self) -> None:
        """One second of use, looked at; the wall clock may have gone on more."""
        self.clock.steady += 1.0
        self.node.advance(1.0)
        self.observer.collect_once()

    def minute(self) -> None:
        """Do the work of each minute beside collecting."""
        self.predicting.train(self.clock.wall)
        self.predicting.checkpoint(self.clock.wall)
        known = node_metric.NodeMetricInputs(pods=self.node.records)
        node_metric.build(self.cache, self.clock.wall, MetricCollectPolicy(), known)


def a_day(directory: Path) -> float:
    """MiB of this process after 24 simulated hours; pods come and go, one in ten minutes.

    All collectors look every five minutes, and every ten seconds in the last hour; in
    between the metric cache is given the newest samples again.
    """
    import koordlet.agent.main  # noqa: F401 - with all that the program has in memory

    watched = Watched(directory)
    for second in range(0, _DAY, _MINUTE):
        last_hour = second >= _DAY - _HOUR
        if second % 600 == 0:
            watched.node.remove_pod()
            watched.node.add_pod()
        for _ in range(_MINUTE if last_hour else 1):
            watched.clock.wall += 1.0 if last_hour else _MINUTE
            every = 10 if last_hour else 5 * _MINUTE
            if watched.clock.wall % every < 1 or not watched.cache.state().series:
                watched.look()
            else:
                _again(watched)
        watched.minute()
    return _rss_mib()


def _again(watched: Watched) -> None:
    from koordlet.metric_cache.core.samples import Sample, Series

    newest = watched.observer.newest
    kinds = ("pod_cpu_usage", "pod_memory_usage", "container_cpu_usage", "container_memory_usage")
    more = ("pod_cpu_throttled", "container_cpu_throttled", "node_cpu_usage", "node_memory_usage")
    samples = [
        Sample(Series(kind, labels), value)
        for kind in kinds + more
        for labels, value in newest.series(kind).items()
    ]
    watched.cache.append(watched.clock.wall, samples)


def _rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def measure(rounds: int) -> list[Measure]:
    with tempfile.TemporaryDirectory(prefix="koord-bench-", dir="/dev/shm") as name:
        looks, floors = _looks(Path(name), rounds)
    with tempfile.TemporaryDirectory(prefix="koord-bench-", dir="/dev/shm") as name:
        command = [sys.executable, "-m", "bench.observe", name]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
    syncs = [cpu_ms(partial(kubelet_pods.parse, *_listed())) for _ in range(rounds)]
    look = statistics.median(looks)
    return [
        Measure("all default collectors each second, CPU", "% of a core", look / 10, "", None, 5.0),
        Measure(
            "all default collectors, floor",
            "ms",
            look,
            "bare reads",
            statistics.median(floors),
            None,
        ),
        Measure(
            "RSS of koordlet after 24 simulated hours", "MiB", float(found.stdout), "", None, 150.0
        ),
        Measure("kubelet's list of 110 pods, CPU", "ms", statistics.median(syncs), "", None, 15.0),
    ]


def _looks(directory: Path, rounds: int) -> tuple[list[float], list[float]]:
    recorder = Recorder()
    watched = Watched(directory, recorder)
    # Half an hour of points, so that the cache is as full as it is asked for.
    for _ in range(30 * _MINUTE):
        watched.clock.wall += 1
        _again(watched)
        if not watched.cache.state().series:
            watched.look()
    looks, floors = [], []
    for _ in range(max(rounds, 9) + 1):
        watched.clock.wall += 1
        watched.clock.steady += 1
        watched.node.advance(1.0)
        recorder.paths.clear()
        looks.append(cpu_ms(watched.observer.collect_once))
        floors.append(cpu_ms(partial(_read_all, list(recorder.paths))))
    # The first looks at what changes once a minute too, and finds no rates.
    return looks[1:], floors[1:]


def _read_all(paths: list[str]) -> None:
    kernel = KernelFilesystem()
    for path in paths:
        with contextlib.suppress(OSError):
            kernel.read(path)


def _listed() -> tuple[bytes, Layout]:
    """A PodList as long as a kubelet's: what managers of fields and probes add included."""
    from koord_model.qos import KubeQoS

    specs = [PodSpec(f"pod-{number}", KubeQoS.BURSTABLE, "LS", 2) for number in range(PODS)]
    found = json.loads(pod_list(specs))
    for item in found["items"]:
        item["metadata"]["managedFields"] = [{"fieldsV1": {f"f:{n}": {} for n in range(300)}}]
        one = item["spec"].setdefault("containers", [{"name": "main"}])[0]
        one["env"] = [{"name": f"NAME_{n}", "value": "v" * 20} for n in range(40)]
        item["spec"]["containers"] = [{**one, "name": f"c{n}"} for n in range(CONTAINERS)]
    return json.dumps(found).encode(), Layout(2, Driver.SYSTEMD)


if __name__ == "__main__":
    sys.stdout.write(f"{a_day(Path(sys.argv[1])):.1f}\n")
