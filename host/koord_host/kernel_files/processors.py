"""The machine's CPUs as sysfs has them: cores, sockets, last-level caches.

The kernel's interface is Documentation/admin-guide/cputopology.rst, and for caches
Documentation/ABI/testing/sysfs-devices-system-cpu. Cores and sockets are numbered from
0 in the order of their first CPU, as lscpu does: the kernel's own core ids are only
unique in a die or a cluster, and may be large.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from itertools import count

from koord_model import cpuset
from koord_model.node_info import Processor

from koord_host.kernel_files.interface import FileTree

_CPU = re.compile(r"cpu([0-9]{1,5})")
_INDEX = re.compile(r"index[0-9]{1,3}")
# What distinguishes a core from those of other packages, dies and clusters.
_CORE = ("physical_package_id", "die_id", "cluster_id", "core_id")


class Processors:
    """The CPUs there are.

    Of a CPU that is offline the kernel only shows that it is there; what was
    known of it before is kept. Nothing is read anew while the same CPUs run.
    """

    def __init__(self, tree: FileTree, sys_root: str = "/sys") -> None:
        self._tree = tree
        self._root = f"{sys_root}/devices/system/cpu"
        self._known: dict[int, Processor] = {}
        self._cores: dict[Hashable, int] = {}
        self._sockets: dict[int, int] = {}
        self._seen: Hashable = None

    def read(self, nodes: Mapping[int, frozenset[int]]) -> tuple[Processor, ...]:
        """All CPUs, in order; ``nodes`` are the CPUs of NUMA nodes, if there are any.

        Raises:
            ValueError: a file is not as the kernel writes it.
            OSError: the directory does not exist, or it cannot be read.
        """
        matches = map(_CPU.fullmatch, self._tree.names(self._root))
        there = sorted(int(match[1]) for match in matches if match)
        online = self._online(there)
        node_of = {cpu: node for node, cpus in nodes.items() for cpu in cpus}
        seen = (tuple(there), online, tuple(node_of.items()))
        if seen != self._seen:
            self._known = dict(self._each(there, online, node_of))
            self._seen = seen
        return tuple(self._known.values())

    def _online(self, there: list[int]) -> frozenset[int]:
        try:
            return cpuset.parse(self._tree.read(f"{self._root}/online"))
        except FileNotFoundError:
            return frozenset(there)

    def _each(
        self, there: list[int], online: frozenset[int], node_of: Mapping[int, int]
    ) -> Iterator[tuple[int, Processor]]:
        caches: dict[int, int] = {}
        numbers = count()
        for cpu in there:
            if cpu in online:
                core, socket = self._place(cpu)
                cache = self._last_level(cpu, caches, numbers)
                # Without NUMA, all is node 0.
                yield cpu, Processor(cpu, core, socket, node_of.get(cpu, 0), cache)
            else:
                before = self._known.get(cpu, Processor(cpu, -1, -1, -1))
                yield cpu, replace(before, online=False)

    def _place(self, cpu: int) -> tuple[int, int]:
        """Core and socket."""
        ids = tuple(self._number(f"cpu{cpu}/topology/{name}") for name in _CORE)
        key: Hashable = ids if ids[-1] >= 0 else cpu
        core = self._cores.setdefault(key, len(self._cores))
        return core, self._sockets.setdefault(ids[0], len(self._sockets))

    def _last_level(self, cpu: int, caches: dict[int, int], numbers: Iterator[int]) -> int:
        """The id of its last cache, -1 without; older kernels give none, so they are counted.

        ``caches`` are those found already, by CPU.
        """
        if cpu not in caches:
            directory = self._last_directory(cpu)
            if not directory:
                return -1
            number = self._number(f"{directory}/id")
            number = number if number >= 0 else next(numbers)
            caches |= dict.fromkeys(self._sharing(cpu, directory), number)
        return caches[cpu]

    def _last_directory(self, cpu: int) -> str:
        """The directory of the data cache farthest from the CPU, below the root."""
        try:
            names = self._tree.names(f"{self._root}/cpu{cpu}/cache")
        except (FileNotFoundError, NotADirectoryError):
            return ""
        last, level = "", 0
        for directory in (f"cpu{cpu}/cache/{name}" for name in names if _INDEX.fullmatch(name)):
            found = self._number(f"{directory}/level")
            if found > level and self._text(f"{directory}/type") != "Instruction":
                last, level = directory, found
        return last

    def _sharing(self, cpu: int, directory: str) -> frozenset[int]:
        return cpuset.parse(self._text(f"{directory}/shared_cpu_list")) | {cpu}

    def _number(self, path: str) -> int:
        """A number of a file; -1 where the kernel does not say."""
        text = self._text(path)
        return int(text) if text else -1

    def _text(self, path: str) -> str:
        try:
            return self._tree.read(f"{self._root}/{path}").strip()
        except FileNotFoundError:
            return ""
