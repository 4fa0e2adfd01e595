"""Waits of tasks for CPUs, memory and disks: the kernel's delay accounting (taskstats).

Sources: taskstats of each process of a container, ``cgroup.procs`` for which those are,
``/proc/PID/stat`` for when they started (numbers are given away again), ``memory.events`` (v1:
``memory.failcnt``), ``/proc/vmstat``. Samples, each over the time since the last round:

- ``{pod,container}_cpu_sched_wait``: milliseconds waited for a CPU for each second of CPU used;
- ``container_memory_delay``: milliseconds waited for memory in each second, by all its tasks;
- ``container_disk_wait``: milliseconds of an average wait for a disk;
- ``container_memory_limited``: times a second that its own limit made it reclaim memory;
- ``node_memory_allocstall``: times a second that tasks had to reclaim memory of the node.

A process counts from its start if that was after the last round, else from where it was first
seen. What it waited between the last round and its end is lost; its past stays counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from koord_host.kernel_files import processes
from koord_host.kernel_files.cgroup_stats import CgroupStats
from koord_host.kernel_files.processes import Process
from koord_host.kernel_files.procfs import direct_reclaims, uptime
from koord_host.netlink.taskstats import ProcessDelays

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import (
    FileReading,
    LabelledCgroup,
    PerPodCache,
    SampleSpacing,
    groups,
    pids_of,
)
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    TaskDelayCounters,
    UnavailableError,
)

INTERVAL = "delay_collector_interval"
ENABLED_BY = ("TaskDelayCollector",)

_MOST_PROCESSES = 512
"""Of one container: a fork bomb costs no more."""
_LEAST_CPU = 0.001
"""Cores: what used less says nothing about waiting for CPUs."""
_LEAST_DISK_WAITS = 5
_MUCH_WAITING = 0.2
"""Of the time: so much in fewer waits says enough, for on a slow disk there are few."""
_NOT_ACCOUNTED = (
    "kernel.task_delayacct is 0: waits for memory and disks are not measured "
    "(sysctl -w kernel.task_delayacct=1 before the pods start, or delayacct on the command line)"
)
_REFUSED = "needs CONFIG_TASKSTATS, CAP_NET_ADMIN, and the host's network and PID namespaces"


class _Round(NamedTuple):
    """Counters of one round; ``ticks`` is when, in the kernel's ticks since boot."""

    steady: float
    ticks: float
    delays: Mapping[str, Mapping[Process, ProcessDelays]]
    """By container's cgroup."""
    limited: Mapping[str, int]
    reclaims: int | None


class Collector:
    """Compares what the kernel counted with what it had counted at the last round."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources
        self._proc = sources.layout.proc_root
        self._stats = CgroupStats(sources.layout)
        self._pace = SampleSpacing()
        self._groups = PerPodCache(lambda record: groups(record, sources.layout)[1:])
        self._last: _Round | None = None
        self._known: dict[int, tuple[int, Process]] = {}
        """Processes as they were identified, with the inodes of their directories in /proc."""

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        if self._sources.delays is None:
            raise UnavailableError("this program was given no access to taskstats")
        if self._pace.too_soon(context.steady):
            return Samples()
        reading = FileReading(self._sources.tree)
        containers = [group for pod in self._groups.of(context.pods) for group in pod]
        last, self._last = self._last, None
        now = self._last = self._read(context, containers, self._sources.delays, reading)
        accounted = self._accounts()
        if not accounted:
            reading.partial.append(_NOT_ACCOUNTED)
        samples = [] if last is None else list(_samples(containers, last, now, accounted))
        return Samples(samples, partial=tuple(dict.fromkeys(reading.partial)))

    def _accounts(self) -> bool:
        """True if the kernel accounts delays; before Linux 5.14 it does by default."""
        path = f"{self._proc}/sys/kernel/task_delayacct"
        try:
            return self._sources.tree.read(path).strip() != "0"
        except OSError:
            return True

    def _read(
        self,
        context: CollectContext,
        containers: Iterable[LabelledCgroup],
        counters: TaskDelayCounters,
        reading: FileReading,
    ) -> _Round:
        # Before processes are listed: what started after this is seen from its start.
        seconds = reading.of_node(f"{self._proc}/uptime", uptime)
        ticks = float("inf") if seconds is None else seconds * self._sources.jiffies_per_second
        listed: dict[str, dict[int, Process]] = {}
        limited: dict[str, int] = {}
        known, self._known = self._known, {}
        for container in containers:
            pids = pids_of(self._sources.tree, self._sources.layout, container.group)
            if len(pids) > _MOST_PROCESSES:
                reading.partial.append(
                    f"{container.group}: only {_MOST_PROCESSES} of its processes are measured"
                )
            listed[container.group] = self._identify(container.group, pids[:_MOST_PROCESSES], known)
            hits = reading.of_group(
                self._stats.memory_limit_file(container.group), self._stats.memory_limit_hits
            )
            if hits is not None:
                limited[container.group] = hits
        try:
            read = counters.read([pid for found in listed.values() for pid in found])
        except OSError as error:
            raise UnavailableError(f"taskstats: {error.strerror or error} ({_REFUSED})") from error
        delays = {
            group: {one: read[pid] for pid, one in found.items() if pid in read}
            for group, found in listed.items()
        }
        reclaims = reading.of_node(f"{self._proc}/vmstat", direct_reclaims)
        return _Round(context.steady, ticks, delays, limited, reclaims)

    def _identify(
        self, group: str, pids: Iterable[int], known: Mapping[int, tuple[int, Process]]
    ) -> dict[int, Process]:
        """Those that live, by number; as long as the inode is the same, the process is.

        To look at it costs a fifth of reading when the process started.
        """
        found, inodes = {}, {}
        for pid in pids:
            with suppress(OSError):
                inodes[pid] = self._sources.tree.identity(f"{self._proc}/{pid}")
                inode, process = known.get(pid, (0, Process("", pid)))
                if (inode, process.group) == (inodes[pid], group):
                    found[pid] = process
        new = inodes.keys() - found.keys()
        found |= processes.identify(self._sources.tree, self._proc, group, new)
        self._known.update((pid, (inodes[pid], process)) for pid, process in found.items())
        return found


def growth(
    last: Mapping[Process, ProcessDelays], now: Mapping[Process, ProcessDelays], ticks: float
) -> ProcessDelays:
    """Sum up what processes waited since the last round, which was at ``ticks``."""
    then, total = ProcessDelays(), ProcessDelays()
    for process, delays in now.items():
        before = last.get(process)
        if before is None and process.start is not None and process.start >= ticks:
            before = ProcessDelays()
        if before is not None and before != delays:
            then, total = then.plus(before), total.plus(delays)
    return total.grown(then)


def _samples(
    containers: Iterable[LabelledCgroup], last: _Round, now: _Round, accounted: bool
) -> Iterator[Sample]:
    seconds = now.steady - last.steady
    of_pods: dict[tuple[str, ...], ProcessDelays] = {}
    for _, labels, group in containers:
        if group not in last.delays:
            continue
        grown = growth(last.delays[group], now.delays[group], last.ticks)
        of_pods[labels[:1]] = of_pods.get(labels[:1], ProcessDelays()).plus(grown)
        yield from _sched_wait("container", labels, grown, seconds)
        if accounted and any(delays.waits for delays in now.delays[group].values()):
            delay = grown.memory_wait / 1e6 / seconds
            yield Sample(Series("container_memory_delay", labels), delay)
        if accounted and _tells(grown, seconds):
            wait = grown.disk_wait / 1e6 / grown.disk_waits
            yield Sample(Series("container_disk_wait", labels), wait)
        hits = _grown(last.limited.get(group), now.limited.get(group))
        if hits is not None:
            yield Sample(Series("container_memory_limited", labels), hits / seconds)
    for labels, grown in of_pods.items():
        yield from _sched_wait("pod", labels, grown, seconds)
    reclaims = _grown(last.reclaims, now.reclaims)
    if reclaims is not None:
        yield Sample(Series("node_memory_allocstall"), reclaims / seconds)


def _sched_wait(
    who: str, labels: tuple[str, ...], grown: ProcessDelays, seconds: float
) -> Iterator[Sample]:
    if grown.cpu >= _LEAST_CPU * seconds * 1e9:
        yield Sample(Series(f"{who}_cpu_sched_wait", labels), grown.sched_wait / grown.cpu * 1000)


def _tells(grown: ProcessDelays, seconds: float) -> bool:
    """True if there were enough waits for disks, or long enough ones, for an average."""
    much = grown.disk_wait >= _MUCH_WAITING * seconds * 1e9
    return grown.disk_waits >= _LEAST_DISK_WAITS or (grown.disk_waits > 0 and much)


def _grown(last: int | None, now: int | None) -> int | None:
    """A counter's growth; ``None`` where it started again or is not known."""
    if last is None or now is None or now < last:
        return None
    return now - last
