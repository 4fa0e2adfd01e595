"""The node's files by where they are, and the processes that several of them show."""

from __future__ import annotations

import ctypes
import errno
import threading
from collections.abc import Callable, Iterator
from weakref import WeakKeyDictionary

from koord_host.kernel_files.interface import KernelFiles
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS, PlaceKind
from koord_model.traffic import Traffic

from tests.support.fake_cgroupfs import FakeCgroupfs
from tests.support.fake_resctrl import FakeResctrl
from tests.support.held import HeldByPath

CPUS, NUMA_NODES = "0-15", {0: "0-7", 1: "8-15"}
DISKS = {"/dev/vda": "254:0", "/dev/vdb": "254:16"}
_TEXTS = {
    "/sys/devices/system/cpu/online": f"{CPUS}\n",
    **{f"/sys/devices/system/node/node{n}/cpulist": f"{cpus}\n" for n, cpus in NUMA_NODES.items()},
    "/proc/sys/kernel/sched_core": "0\n",
    "/proc/sys/kernel/sched_group_identity_enabled": "0\n",
    "/proc/sys/vm/min_free_kbytes": "67584\n",
    "/proc/sys/vm/watermark_scale_factor": "10\n",
}
_VENDOR_TEXTS = {
    "/sys/kernel/mm/memcg_reaper/reap_background": "0\n",
    "/sys/kernel/mm/pagecache_limit/enabled": "0\n",
    "/proc/sys/kernel/sched_idle_saver_wmark": "0\n",
}
_GET, _CREATE, _SHARE_TO, _SHARE_FROM = range(4)


class PlainFiles(HeldByPath):
    """Files without rules, by path: /proc, /sys, and what other agents read."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.writes: list[tuple[str, str]] = []

    def read(self, path: str) -> str:
        if path not in self.texts:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return self.texts[path]

    def exists(self, path: str) -> bool:
        return path in self.texts or any(one.startswith(f"{path}/") for one in self.texts)

    def entries(self, path: str) -> list[str]:
        below = [one.removeprefix(f"{path}/") for one in self.texts if one.startswith(f"{path}/")]
        if not below:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return sorted({one.partition("/")[0] for one in below if "/" in one})

    def identity(self, path: str) -> int:
        self.entries(path)
        return 1

    def write(self, path: str, text: str) -> None:
        self.texts[path] = f"{text.strip()}\n" if path.startswith("/proc/") else text
        self.writes.append((path, text))

    def write_and_read(self, path: str, text: str) -> str:
        self.write(path, text)
        return self.read(path)

    def make_directory(self, path: str) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", path)

    remove_directory = make_directory


class FakeKernel(HeldByPath):
    """The kernel files of one node, each refused or accepted by the double it belongs to.

    It implements ``NodeFiles``; ``prctl`` is the kernel's for core scheduling.
    """

    def __init__(
        self,
        version: int = 2,
        *,
        vendor: bool = False,
        resctrl: bool = True,
        iocost: bool = False,
    ) -> None:
        self.cgroups = FakeCgroupfs(
            version,
            vendor=vendor,
            cpus=CPUS,
            mems="0-1",
            devices=tuple(DISKS.values()),
            iocost=iocost,
        )
        self.resctrl = FakeResctrl()
        self.plain = PlainFiles()
        self.plain.texts |= _TEXTS | (_VENDOR_TEXTS if vendor else {})
        self.cookies: dict[int, int] = {}
        #: How the interface with the default route was shaped last.
        self.traffic: Traffic | None = None
        #: Every write that the kernel refused: path, text, errno.
        self.refused: list[tuple[str, str, int]] = []
        #: Called before each write, and after it.
        self.at_write: Callable[[], None] | None = None
        self._taken: WeakKeyDictionary[threading.Thread, int] = WeakKeyDictionary()
        self._next_pid = 100
        self._next_cookie = 0xC000
        self._has_resctrl = resctrl

    # What KernelFiles asks for.

    def read(self, path: str) -> str:
        return self._of(path).read(path)

    def exists(self, path: str) -> bool:
        return self._of(path).exists(path)

    def entries(self, path: str) -> list[str]:
        return self._of(path).entries(path)

    def names(self, path: str) -> list[str]:
        """Directories, and of plain files those too; there are no links here."""
        plain = self.plain.texts if self._of(path) is self.plain else ()
        files = {one.rpartition("/")[2] for one in plain if one.rpartition("/")[0] == path}
        return sorted(files.union(self.entries(path)))

    def resolve(self, path: str) -> str:
        if not self.exists(path):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return path

    def identity(self, path: str) -> int:
        return self._of(path).identity(path)

    def write(self, path: str, text: str) -> None:
        if self.at_write is not None:
            self.at_write()
        try:
            self._of(path).write(path, text)
        except OSError as error:
            self.refused.append((path, text, error.errno or 0))
            raise
        if self.at_write is not None:
            self.at_write()

    def write_and_read(self, path: str, text: str) -> str:
        self.write(path, text)
        return self.read(path)

    def make_directory(self, path: str) -> None:
        self._of(path).make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._of(path).remove_directory(path)

    # What tests set up and look at.

    @property
    def writes(self) -> list[tuple[str, str]]:
        """Every write that the kernel took, whoever wrote."""
        return [*self.cgroups.writes, *self.resctrl.writes, *self.plain.writes]

    def start_process(self, group: str, oom_score_adj: int = 0) -> int:
        """Start a process in a cgroup; its PID."""
        pid = self._next_pid
        self._start(pid, group, oom_score_adj)
        return pid

    def reuse_pid(self, pid: int, group: str, oom_score_adj: int = 0) -> None:
        """Let a process end, and another start that gets its PID, in whatever cgroup."""
        self.end_process(pid)
        self._start(pid, group, oom_score_adj)

    def _start(self, pid: int, group: str, oom_score_adj: int) -> None:
        self.cgroups.add_process(group, pid)
        self.resctrl.add_task(pid)
        self.cookies[pid] = 0
        started, self._next_pid = self._next_pid, self._next_pid + 1
        self.plain.texts[f"/proc/{pid}/oom_score_adj"] = f"{oom_score_adj}\n"
        self.plain.texts[f"/proc/{pid}/stat"] = f"{pid} (app) S {'0 ' * 18}{started} 0\n"

    def end_process(self, pid: int) -> None:
        """Let a process end."""
        self.cgroups.remove_process(pid)
        self.resctrl.remove_task(pid)
        self.cookies.pop(pid, None)
        for file in ("oom_score_adj", "stat"):
            self.plain.texts.pop(f"/proc/{pid}/{file}", None)

    def remove_group(self, group: str, subsystem: str = "cpu") -> None:
        """Let a cgroup vanish with all below it, as a pod does."""
        for name in self.cgroups.entries(self.cgroups.directory(group, subsystem)):
            self.remove_group(f"{group}/{name}")
        self.end_processes(group, subsystem)
        self.cgroups.remove_group(group)

    def end_processes(self, group: str, subsystem: str = "cpu") -> None:
        """Let all processes in a group and below it end."""
        path = self.cgroups.directory(group, subsystem)
        for name in self.cgroups.entries(path):
            self.end_processes(f"{group}/{name}", subsystem)
        for pid in self.cgroups.read(f"{path}/cgroup.procs").split():
            self.end_process(int(pid))

    def values(self, layout: Layout) -> dict[str, str]:
        """All that can be set on this node, by where it is.

        Cookies have no names: what is shown of them is who shares one.
        """
        shared = {
            cookie: [pid for pid, other in self.cookies.items() if other == cookie]
            for cookie in set(self.cookies.values()) - {0}
        }
        return {
            **{path: self.read(path) for path in self._knob_files(layout)},
            **{f"cookie of {pids}": "shared" for pids in sorted(shared.values())},
            **self.plain.texts,
            "traffic": str(self.traffic),
        }

    def group_values(self, group: str, layout: Layout) -> dict[str, str]:
        """All knobs of one cgroup, by file."""
        states = (
            one for one in KNOBS.values() if one.where is PlaceKind.CGROUP and not one.one_shot
        )
        paths = (layout.path(knob, group) for knob in states)
        return {path: self.read(path) for path in paths if path and self.exists(path)}

    def prctl(self, operation: int, pid: int, scope: int, address: int) -> None:
        """prctl(PR_SCHED_CORE), on tasks of this node and the calling thread."""
        me = threading.current_thread()
        if pid and pid not in self.cookies:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        if operation == _GET:
            cookie = self.cookies[pid] if pid else self._taken.get(me, 0)
            ctypes.c_uint64.from_address(address).value = cookie
        elif operation == _SHARE_FROM:
            self._taken[me] = self.cookies[pid]
        elif operation == _CREATE:
            self._next_cookie += 1
            self.cookies[pid] = self._next_cookie
        else:
            assert operation == _SHARE_TO
            self.cookies[pid] = self._taken.get(me, 0)

    # The rest is inside.

    def _of(self, path: str) -> KernelFiles:
        for root, files in ((self.cgroups.root, self.cgroups), (self.resctrl.root, self.resctrl)):
            if path == root or path.startswith(f"{root}/"):
                there = files is self.cgroups or self._has_resctrl
                return files if there else self.plain
        return self.plain

    def _knob_files(self, layout: Layout) -> Iterator[str]:
        for group in self._groups(""):
            yield from self.group_values(group, layout)
        if self._has_resctrl:
            root = self.resctrl.root
            names = set(self.resctrl.entries(root)) - {"info", "mon_data", "mon_groups"}
            for group in (root, *(f"{root}/{name}" for name in names)):
                yield from (f"{group}/{file}" for file in ("schemata", "tasks"))

    def _groups(self, above: str, subsystem: str = "cpu") -> Iterator[str]:
        for name in self.cgroups.entries(self.cgroups.directory(above, subsystem)):
            group = f"{above}/{name}".strip("/")
            yield group
            yield from self._groups(group)
