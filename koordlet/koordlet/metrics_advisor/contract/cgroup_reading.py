"""Shared parts of collectors: files that may be gone, groups of pods, NUMA nodes. No IO.

Reading goes through the tree that the collector was given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from errno import ENODEV
from typing import Generic, NamedTuple, TypeVar

from koord_host.kernel_files import numa, processes
from koord_host.kernel_files.interface import FileReader
from koord_host.knobs.layout import Layout

from koordlet.metrics_advisor.contract.collector import CollectorSources
from koordlet.states_informer.state.cgroup_paths import container_group
from koordlet.states_informer.state.pod_inventory import PodRecord

T = TypeVar("T")


class FileReading:
    """One run's reading; ``partial`` are lines about what could not be read."""

    def __init__(self, files: FileReader) -> None:
        self.partial: list[str] = []
        self._files = files

    def of_group(self, path: str, parse: Callable[[str], T]) -> T | None:
        """The value in a cgroup's file; ``None``, without a line, if the group is gone."""
        try:
            return parse(self._files.read(path))
        except ValueError as error:
            self.partial.append(f"{path}: {error}")
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            # Reading fails so if the cgroup was removed after its file was opened.
            if error.errno != ENODEV:
                self.partial.append(f"{path}: {error.strerror or error}")
        return None

    def of_node(self, path: str, parse: Callable[[str], T]) -> T | None:
        """The value in a file that always exists."""
        try:
            return parse(self._files.read(path))
        except ValueError as error:
            self.partial.append(f"{path}: {error}")
        except OSError as error:
            self.partial.append(f"{path}: {error.strerror or error}")
        return None


class SampleSpacing:
    """Skips runs that follow each other too closely for rates.

    Counters grow by steps of a tick, and are not read at the very moment of the run: over
    a few milliseconds a rate is noise. Such runs happen after a stall or a suspend.
    """

    def __init__(self, least_seconds: float = 0.1) -> None:
        self._least_seconds = least_seconds
        self._last = float("-inf")

    def too_soon(self, steady: float) -> bool:
        """Return True if this run is to be skipped; one that is not skipped counts as the last."""
        if steady - self._last < self._least_seconds:
            return True
        self._last = steady
        return False


class LabelledCgroup(NamedTuple):
    """The cgroup of a "pod" or "container", and the labels of its series."""

    who: str
    labels: tuple[str, ...]
    group: str


def groups(record: PodRecord, layout: Layout) -> tuple[LabelledCgroup, ...]:
    """The pod's cgroup, and those of its containers."""
    uid = record.pod.uid
    return (
        LabelledCgroup("pod", (uid,), layout.group_of_parent(record.pod.cgroup_parent)),
        *(
            LabelledCgroup("container", (uid, ident), container_group(record, container, layout))
            for ident, container in record.containers.items()
        ),
    )


def pids_of(tree: FileReader, layout: Layout, group: str) -> tuple[int, ...]:
    """The processes of a container, which may have moved them all into groups of its own."""
    pids = processes.listed(tree, layout.list_file(group))
    if pids:
        return tuple(pid for pid in pids if pid)
    try:
        below = tree.entries(layout.group_path(group, "cpu"))
    except OSError:
        return ()
    return tuple(pid for name in below for pid in pids_of(tree, layout, f"{group}/{name}"))


class PerPodCache(Generic[T]):
    """A value computed once for each pod, and kept as long as its record stays the same."""

    def __init__(self, make: Callable[[PodRecord], T]) -> None:
        self._make = make
        self._kept: dict[str, tuple[PodRecord, T]] = {}

    def of(self, pods: Iterable[PodRecord]) -> list[T]:
        """One for each of these pods; those of all others are dropped."""
        before, self._kept = self._kept, {}
        for record in pods:
            kept = before.get(record.pod.uid)
            if kept is None or kept[0] is not record:
                kept = (record, self._make(record))
            self._kept[record.pod.uid] = kept
        return [kept[1] for kept in self._kept.values()]


class NumaTopology:
    """The machine's NUMA nodes with their CPUs; nodes may have none, and numbers gaps.

    Read again when the running CPUs change, and after ``seconds``: memory comes and
    goes without its CPUs.
    """

    def __init__(self, sources: CollectorSources, seconds: float = 60.0) -> None:
        self._sources = sources
        self._seconds = seconds
        self._running: frozenset[int] | None = None
        self._read_at = float("-inf")
        self._nodes: Mapping[int, frozenset[int]] = {}

    def at(
        self, steady: float, running: Collection[int] | None = None
    ) -> Mapping[int, frozenset[int]]:
        """CPUs by node; {} without NUMA. ``running`` are the running CPUs, if known.

        Raises:
            ValueError: a list is not as the kernel writes it.
            OSError: a list cannot be read.
        """
        same = running is None or running == self._running
        if not same or steady - self._read_at >= self._seconds:
            self._read_at = float("-inf")
            self._nodes = numa.read_cpus(self._sources.tree, self._sources.sys_root)
            self._running = None if running is None else frozenset(running)
            self._read_at = steady
        return self._nodes

    def memory_file(self, node: int) -> str:
        """The file of a node's memory usage."""
        return f"{self._sources.sys_root}/devices/system/node/node{node}/meminfo"

    def forget(self) -> None:
        """Read again at the next run."""
        self._read_at = float("-inf")
