"""The metric cache of a full node: 110 pods of 3 containers, some 1350 samples a second.

The peer is SQLite: WAL, nothing synced, one table by series and time. Of the half hour it
has the pods' CPU only, which is kinder to it than a node is.
"""

from __future__ import annotations

import gc
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from koordlet.metric_cache.core.interface import Aggregation, MetricCache, TimeWindow
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metric_cache.ring_cache import RingCache

from bench.report import Measure

PODS, CONTAINERS = 110, 3
HALF_HOUR, HOURS = 1800, 12
START = 1_700_000_400
KIND = "pod_cpu_usage"
_KINDS = ("cpu_usage", "memory_usage", "cpu_throttled")
_PAGE = 4096


def node_series() -> list[Series]:
    """Return a full node's metrics of each second; names as long as real ones."""
    found = [Series("node_numa_cpu_usage", (str(number),)) for number in range(30)]
    for number in range(PODS):
        pod = f"5f0c2a1e-8c53-4b42-9f0e-{number:012d}"
        found += [Series(f"pod_{kind}", (pod,)) for kind in _KINDS]
        for index in range(CONTAINERS):
            container = f"containerd://{number * CONTAINERS + index:064x}"
            found += [Series(f"container_{kind}", (pod, container)) for kind in _KINDS]
    return found


class Sqlite:
    """The peer: as little code as does the same."""

    def __init__(self, path: Path) -> None:
        self.base = sqlite3.connect(path, isolation_level=None)
        self.base.execute("PRAGMA journal_mode=WAL")
        self.base.execute("PRAGMA synchronous=OFF")
        self.base.execute(
            "CREATE TABLE points (series INTEGER, at INTEGER, value REAL,"
            " PRIMARY KEY (series, at)) WITHOUT ROWID"
        )

    def append(self, at: int, numbers: list[int], values: list[float]) -> None:
        self.base.execute("BEGIN")
        rows = zip(numbers, [at] * len(numbers), values, strict=True)
        self.base.executemany("INSERT OR REPLACE INTO points VALUES (?, ?, ?)", rows)
        # An hour is kept.
        self.base.executemany(
            "DELETE FROM points WHERE series = ? AND at < ?", [(n, at - 3600) for n in numbers]
        )
        self.base.execute("COMMIT")

    def p95(self, numbers: list[int], start: int, end: int) -> list[float]:
        found = []
        for number in numbers:
            rows = self.base.execute(
                "SELECT value FROM points WHERE series = ? AND at BETWEEN ? AND ?",
                (number, start, end),
            ).fetchall()
            values = np.sort(np.array(rows, np.float64)[:, 0])
            found.append(float(values[max(int(np.float32(len(values)) * np.float32(0.95)) - 1, 0)]))
        return found


def cpu_ms(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1e3


def resident_mib() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE / (1 << 20)


def some_samples(series: list[Series]) -> list[list[Sample]]:
    random = np.random.default_rng(1)
    return [list(map(Sample, series, random.random(len(series)).tolist())) for _ in range(20)]


def fill(cache: MetricCache, some: list[list[Sample]]) -> int:
    """Twelve hours, of which the last is by the second; a page a minute is used either way."""
    whole = HOURS * 3600
    seconds = [*range(0, whole - 3660, 60), *range(whole - 3660, whole)]
    for second in seconds:
        cache.append(START + second, some[second % 20])
    return START + whole


def measure(rounds: int) -> list[Measure]:
    with tempfile.TemporaryDirectory(prefix="koord-bench-") as name:
        scratch = Path(name)
        series = node_series()
        some = some_samples(series)
        before = resident_mib()
        cache = RingCache(str(scratch / "log"), 100 << 20, print)
        now = fill(cache, some)
        grown = resident_mib() - before
        disk = cache.state().disk_bytes / (1 << 20)
        shutil.copytree(scratch / "log", scratch / "copy")
        copies: list[RingCache] = []
        copies.append(RingCache(str(scratch / "copy"), 100 << 20, print))
        start = cpu_ms(copies[0].load)
        copies.pop().close()
        append, p95 = _in_turns(cache, Sqlite(scratch / "peer.db"), series, now, rounds)
        cache.close()
    return [
        *append,
        *p95,
        Measure("metric cache, 12 h of 1350 series, memory", "MiB", grown, "", None, 40.0),
        Measure("metric cache, 12 h of 1350 series, disk", "MiB", disk, "", None, 150.0),
        Measure("metric cache, 12 h of 1350 series, start, CPU", "ms", start, "", None, 5000.0),
    ]


def _in_turns(
    cache: RingCache, peer: Sqlite, series: list[Series], now: int, rounds: int
) -> tuple[list[Measure], list[Measure]]:
    pods = [number for number, one in enumerate(series) if one.kind == KIND]
    everything = list(range(len(series)))
    values = np.random.default_rng(2).random(len(series)).tolist()
    samples = list(map(Sample, series, values))
    for second in range(now - HALF_HOUR, now):
        peer.append(second, pods, values[: len(pods)])
    ours_append, theirs_append, ours_p95, theirs_p95 = [], [], [], []
    for turn in range(rounds):
        at = now + turn
        window = TimeWindow(at - HALF_HOUR, at)
        ours_append.append(cpu_ms(lambda: cache.append(at, samples)))  # noqa: B023
        theirs_append.append(cpu_ms(lambda: peer.append(at, everything, values)))  # noqa: B023
        ours_p95.append(cpu_ms(lambda: cache.aggregate(KIND, window, [Aggregation.P95])))  # noqa: B023
        theirs_p95.append(cpu_ms(lambda: peer.p95(pods, at - HALF_HOUR, at)))  # noqa: B023
    return (
        _pair(f"metric cache, append {len(series)} samples, CPU", ours_append, theirs_append, 2.0),
        _pair("metric cache, p95 of 30 min, 110 pods", ours_p95, theirs_p95, 20.0),
    )


def _pair(name: str, ours: list[float], theirs: list[float], target: float) -> list[Measure]:
    """Our figure against its bound, and against the peer's."""
    median, peer = statistics.median(ours), statistics.median(theirs)
    return [
        Measure(name, "ms", median, "", None, target),
        Measure(f"{name}, peer", "ms", median, "SQLite", peer, 1.0),
    ]
