"""The contract of collectors: their sources and their samples. No IO.

A collector is a module of ``koordlet.metrics_advisor.collectors``, found by its name, with

- ``INTERVAL``: the setting (a field of ``config.Settings``) that is its interval,
- ``ENABLED_BY``: feature gates (capitalised) and settings that must all be on,
- ``AFTER``, if it needs them: collectors whose samples of the same round it uses,
- ``BLOCKING``, if it calls what may hang (a driver): it then has a thread of its own,
- ``Collector(sources)`` with ``collect(context) -> Samples``.

Between two runs a collector remembers what it needs, such as counters. It reads files
only through its sources, and the clock only from its context. Its samples have the units of
``metric_kinds``; its docstring names its source files.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from koord_host.devices.gpu import GPUCounters
from koord_host.kernel_files.filesystem_space import FilesystemSpace
from koord_host.kernel_files.interface import FileTree
from koord_host.knobs.layout import Layout
from koord_host.netlink.taskstats import ProcessDelays
from koord_host.netlink.tcp_diag import Connection
from koord_model.node_slo import NodeSLO

from koordlet.metric_cache.core.samples import Sample
from koordlet.states_informer.state.pod_inventory import PodRecord

F = TypeVar("F")

ANY_INTERVAL_SECONDS = 900.0
"""Age of counters that outlast any choice of a collector's interval, which is a setting."""


class UnavailableError(Exception):
    """This collector cannot work on this node; the message is one line that says why.

    It is logged once, shown in ``/metrics`` and ``koordctl node``, and retried later.
    """


class PerfWindow(Protocol):
    """A cgroup's hardware counters, counting since they were opened."""

    def close(self) -> tuple[float, float]:
        """Cycles and instructions since, scaled up where counters took turns; and stop.

        Raises:
            OSError: the kernel does not give them; the window is closed all the same.
        """
        ...


class PerfCounters(Protocol):
    """Source of windows on the processors' counters.

    ``budget`` is how many file descriptors all windows together may hold; a window
    takes two for each CPU.
    """

    @property
    def budget(self) -> int:
        """Limit of descriptors."""
        ...

    def start(self, directory: str, cpus: Sequence[int]) -> PerfWindow:
        """Start to count what a cgroup's tasks do on these CPUs.

        Raises:
            OSError: the group is gone (ENOENT of the directory), the kernel refuses
                (EACCES, EPERM), or there are no such counters (ENOENT, EOPNOTSUPP …).
        """
        ...


class TaskDelayCounters(Protocol):
    """Source of the kernel's delay accounting."""

    def read(self, processes: Sequence[int]) -> Mapping[int, ProcessDelays]:
        """The delays of processes that run, by number.

        Raises:
            OSError: the kernel has none (ENOENT) or refuses (EPERM).
        """
        ...


class ConnectionTable(Protocol):
    """Source of TCP connections by network namespace, for a thread that nobody else uses."""

    def namespace(self, process: int | None = None) -> int:
        """The network namespace of a process, or of this program, by its inode.

        Raises:
            OSError: the process has ended, or the kernel refuses.
        """
        ...

    def read(self, process: int, most: int) -> tuple[list[Connection], bool]:
        """Connections of a process's namespace, ``most`` at most; and whether these are all.

        Raises:
            OSError: the process has ended, the kernel refuses (EPERM), or does not answer.
        """
        ...

    def cpu_time(self) -> float:
        """Seconds of CPU that the calling thread has used."""
        ...

    def read_again(self, process: int, known: Sequence[Connection]) -> list[Connection]:
        """Those of some connections of a process's namespace that are there still.

        Raises:
            OSError: as for ``read``.
        """
        ...


@dataclass(frozen=True, slots=True)
class CollectorSources:
    """Sources that collectors read.

    ``tree`` reads kernel files. Roots are where sysfs is mounted and where device
    plugins leave their files. ``jiffies_per_second`` is sysconf(_SC_CLK_TCK),
    ``page_bytes`` the kernel's page size (4 or 64 KiB). A counter that was not read for more
    than ``stale_seconds`` starts again. ``cpi_seconds`` is how often cycles and instructions
    are measured. ``perf``, ``gpus``, ``filesystem``, ``delays`` and ``connections`` are sources
    that are not files; ``None`` where this program has none.
    """

    tree: FileTree
    layout: Layout
    sys_root: str = "/sys"
    kubelet_dir: str = "/var/lib/kubelet"
    xpu_device_infos_dir: str = "/var/run/koordlet/xpu-device-infos"
    jiffies_per_second: int = 100
    page_bytes: int = 4096
    stale_seconds: float = 20.0
    cpi_seconds: float = 60.0
    perf: PerfCounters | None = None
    gpus: GPUCounters | None = None
    image_fs_dir: str = "/var/lib/containerd"
    filesystem: Callable[[str], FilesystemSpace] | None = None
    delays: TaskDelayCounters | None = None
    connections: ConnectionTable | None = None


class LatestValues(Protocol):
    """The newest values, unless they are older than ``collect-sys-metric-outdated-interval``."""

    def value(self, kind: str, *labels: str) -> float | None:
        """One series' newest value; ``None`` if it is too old or missing."""
        ...

    def total(self, kind: str) -> float | None:
        """The sum over all series of a kind; ``None`` where none is new enough."""
        ...

    def info(self, kind: type[F]) -> F | None:
        """The newest info of a kind (``koord_model.node_info``), of whatever age."""
        ...


class NoLatestValues:
    """``LatestValues`` of a node that has just started."""

    def value(self, kind: str, *labels: str) -> float | None:
        """None."""
        return None

    def total(self, kind: str) -> float | None:
        """None."""
        return None

    def info(self, kind: type[F]) -> F | None:
        """None."""
        return None


@dataclass(frozen=True, slots=True)
class CollectContext:
    """One run of the collectors.

    ``at`` is the wall clock, seconds since the epoch. ``steady`` is CLOCK_MONOTONIC in
    seconds: it never jumps and stands still while the machine is suspended, as the
    kernel's CPU counters do. ``pods_known`` is whether ``pods`` are all that run, as far as
    anybody can say: not before the first list, if there is one.
    """

    at: float
    steady: float
    pods: tuple[PodRecord, ...] = ()
    slo: NodeSLO = field(default_factory=NodeSLO)
    latest: LatestValues = field(default_factory=NoLatestValues)
    pods_known: bool = True


@dataclass(frozen=True, slots=True)
class Samples:
    """The result of one run: samples, and infos (``koord_model.node_info``) by their type.

    ``partial`` are lines about what of it could not be read, for people.
    """

    samples: list[Sample] = field(default_factory=list)
    infos: tuple[object, ...] = ()
    partial: tuple[str, ...] = ()


class AnyCollector(Protocol):
    """Instance that a collector's module creates."""

    def collect(self, context: CollectContext) -> Samples:
        """Collect once.

        Raises:
            UnavailableError: it cannot work here.
        """
        ...


@dataclass(frozen=True, slots=True)
class CollectorState:
    """The state of a collector, for ``/metrics`` and people.

    ``reason`` says why it is off ("gate PSICollector is off") or cannot work; "" while it
    does. ``seconds`` is what its last round took, ``looked_at`` when that was.
    """

    name: str
    interval: float
    enabled: bool
    available: bool
    reason: str = ""
    rounds: int = 0
    failures: int = 0
    seconds: float = 0.0
    samples: int = 0
    looked_at: float = 0.0


class CounterRates:
    """Growing counters turned into rates.

    The first reading of a counter gives no rate, nor does one after more than
    ``stale_seconds`` without a reading, nor one below its predecessor: the counter started
    again (a restarted container, a reused name).
    """

    def __init__(self, stale_seconds: float = 20.0) -> None:
        self._stale_seconds = stale_seconds
        self._before: dict[Hashable, tuple[float, float]] = {}

    def rate(self, key: Hashable, value: float, steady: float) -> float | None:
        """Growth in units a second since the last reading; ``None`` if it is not known."""
        grown = self._grown(key, value, steady)
        return None if grown is None else grown[0] / grown[1]

    def growth(self, key: Hashable, value: float, steady: float) -> float | None:
        """Growth in the counter's own unit since the last reading, under the same rules."""
        grown = self._grown(key, value, steady)
        return None if grown is None else grown[0]

    def forget(self, steady: float) -> None:
        """Drop counters that were not read for too long: cgroups that are gone."""
        limit = steady - self._stale_seconds
        self._before = {key: kept for key, kept in self._before.items() if kept[1] >= limit}

    def _grown(self, key: Hashable, value: float, steady: float) -> tuple[float, float] | None:
        """Growth, and the seconds it took."""
        before = self._before.get(key)
        self._before[key] = (value, steady)
        if before is None:
            return None
        grown, seconds = value - before[0], steady - before[1]
        return (grown, seconds) if grown >= 0 and 0 < seconds <= self._stale_seconds else None
