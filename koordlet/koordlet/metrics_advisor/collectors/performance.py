"""Cycles and instructions of containers, for cycles per instruction: perf_event_open(2).

Sources: the processors' counters of each container's cgroup (the unified hierarchy, or
v1's perf_event), on the CPUs of ``/sys/devices/system/cpu/online``.

The shell looks once a window (``collect-cpi-timewindow``): each look ends the windows
that the last one opened, and opens the next. A round begins every ``cpi_seconds`` and
measures every container once; where the descriptors do not suffice for all at once
(two for each CPU and container), they take turns, a window each. Between two rounds
nothing is counted, as counting costs time at each change of tasks.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterator

from koord_model import cpuset

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    PerfCounters,
    PerfWindow,
    Samples,
    UnavailableError,
)
from koordlet.states_informer.state.cgroup_paths import container_group

INTERVAL = "collect_cpi_timewindow"
ENABLED_BY = ("CPICollector",)

Key = tuple[str, str]
"""Pod UID and container id."""

_REFUSED = (errno.EACCES, errno.EPERM)
_USED_UP = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_NONE_HERE = (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.ENXIO)

_EARLY_SECONDS = 1.0
"""Looks come in step with the clock, but never to the millisecond."""


class Collector:
    """Opens windows, and reads them at the next look."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources
        self._open: dict[Key, PerfWindow] = {}
        self._queue: deque[tuple[Key, str]] = deque()
        self._due = float("-inf")

    def collect(self, context: CollectContext) -> Samples:
        """End the windows that are open, and open those whose turn it is."""
        partial: list[str] = []
        samples = list(self._close(partial))
        counters = self._counters()
        if not self._queue and context.steady >= self._due - _EARLY_SECONDS:
            self._due = context.steady + self._sources.cpi_seconds
            self._queue = deque(self._groups(context))
        try:
            self._open_next(counters, partial)
        except UnavailableError as error:
            list(self._close([]))
            self._queue.clear()
            if not samples:
                raise
            partial.append(str(error))
        return Samples(samples, partial=tuple(dict.fromkeys(partial)))

    def _counters(self) -> PerfCounters:
        if self._sources.perf is None:
            raise UnavailableError("this program was given no access to perf_event_open")
        return self._sources.perf

    def _groups(self, context: CollectContext) -> Iterator[tuple[Key, str]]:
        """The containers and their cgroups' directories."""
        layout = self._sources.layout
        root = layout.group_path("", "perf_event")
        if layout.version != 2 and not self._sources.tree.exists(root):
            raise UnavailableError(f"{root} is not there: mount cgroup v1's hierarchy perf_event")
        for record in context.pods:
            for ident, container in record.containers.items():
                group = container_group(record, container, layout)
                yield (record.pod.uid, ident), layout.group_path(group, "perf_event")

    def _open_next(self, counters: PerfCounters, partial: list[str]) -> None:
        """As many windows as the descriptors suffice for."""
        if not self._queue:
            return
        cpus = self._cpus()
        room = counters.budget // (2 * len(cpus))
        if not room:
            raise UnavailableError(
                f"a container on {len(cpus)} CPUs takes {2 * len(cpus)} file descriptors, "
                f"counters may have {counters.budget}: raise LimitNOFILE"
            )
        if len(self._queue) > room:
            partial.append(
                f"file descriptors suffice for {room} containers at once: they take turns "
                "(raise LimitNOFILE for more)"
            )
        while self._queue and len(self._open) < room:
            key, directory = self._queue.popleft()
            try:
                self._open[key] = counters.start(directory, cpus)
            except OSError as error:
                if error.errno in _USED_UP:
                    self._queue.appendleft((key, directory))
                    partial.append(f"counters take turns: {error.strerror}")
                    return
                if error.filename is None:
                    partial.append(_explained(error))
                elif error.errno != errno.ENOENT:  # else the container has just ended
                    partial.append(f"{directory}: {error.strerror}")

    def _cpus(self) -> tuple[int, ...]:
        path = f"{self._sources.sys_root}/devices/system/cpu/online"
        try:
            online = tuple(sorted(cpuset.parse(self._sources.tree.read(path).strip())))
        except (OSError, ValueError) as error:
            raise UnavailableError(f"{path} cannot be read: {error}") from error
        if not online:
            raise UnavailableError(f"{path} names no CPU")
        return online

    def _close(self, partial: list[str]) -> Iterator[Sample]:
        """Close the open windows; return their counts."""
        windows, self._open = self._open, {}
        for key, window in windows.items():
            try:
                cycles, instructions = window.close()
            except OSError as error:
                partial.append(f"counters cannot be read: {error.strerror}")
                continue
            if instructions > 0:  # what has not run has no ratio
                yield Sample(Series("container_cpi", (*key, "cycle")), cycles)
                yield Sample(Series("container_cpi", (*key, "instruction")), instructions)


def _explained(error: OSError) -> str:
    """Explain a refusal for the line in ``partial``.

    Raises:
        UnavailableError: it means the same for every container.
    """
    name = errno.errorcode.get(error.errno or 0, str(error.errno))
    if error.errno in _REFUSED:
        raise UnavailableError(
            f"perf_event_open is refused ({name}): give CAP_PERFMON (before Linux 5.8 "
            "CAP_SYS_ADMIN) with sysctl kernel.perf_event_paranoid at 2 (Debian has 3), or set "
            "that to 0 or less; in a container seccomp must allow the call"
        ) from error
    if error.errno in _NONE_HERE:
        raise UnavailableError(
            f"the processor's counters of cycles and instructions are not there ({name}): "
            "in a virtual machine the hypervisor must pass on its PMU"
        ) from error
    if error.errno == errno.ENOSYS:
        raise UnavailableError(
            "perf_event_open is not there (ENOSYS): the kernel is built without "
            "CONFIG_PERF_EVENTS, or this machine's call number is unknown"
        ) from error
    return f"perf_event_open fails: {error.strerror} ({name})"
