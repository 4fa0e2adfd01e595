"""The tree itself: paths, directories, and one write at a time."""

from __future__ import annotations

import errno
from collections.abc import Callable

from tests.support.fake_cgroupfs import cpuset, files, invariants, membership
from tests.support.fake_cgroupfs.group import File, Group, machine
from tests.support.fake_cgroupfs.numerals import PAGE_SIZE, refuse
from tests.support.held import HeldByPath

#: Longer writes are refused; the lists of cpusets have bounds of their own.
_LONGEST = 4096
_LONGEST_LIST = {"cpuset.cpus": 100 + 6 * 8192, "cpuset.mems": 100 + 6 * 1024}


class FakeCgroupfs(HeldByPath):
    """A test double of the kernel's cgroup files: a tree in memory with the kernel's rules.

    It implements ``KernelFiles``. A write is parsed, refused (with the kernel's errno) and
    read back as a kernel would; its rules are held against a real one in
    ``tests/integration/test_fake_cgroupfs_is_true.py``.

    Args:
        version: 1 has a hierarchy a subsystem below ``root``, 2 just one.
        root: where the files seem to be.
        vendor: with the files of Anolis and Alibaba Cloud Linux.
        cpus: the CPUs that are online.
        mems: the NUMA nodes.
        devices: the disks, as ``<major>:<minor>``.
        iocost: whether disks take an ``io.weight`` of their own; by default none does.
        kernel: changes what depends on the release.
        self_pid: the process that writes; 0 in ``cgroup.procs`` means it.
    """

    def __init__(
        self,
        version: int = 2,
        root: str = "/sys/fs/cgroup",
        *,
        vendor: bool = False,
        cpus: str = "0-15",
        mems: str = "0",
        devices: tuple[str, ...] = ("254:0",),
        kernel: tuple[int, int] = (6, 1),
        iocost: bool = False,
        self_pid: int = 1,
    ) -> None:
        self.version = version
        self.root = root
        self.vendor = vendor
        self.machine = machine(version, cpus, mems, kernel, devices, self_pid, iocost=iocost)
        #: Every successful write, in order: path and text.
        self.writes: list[tuple[str, str]] = []
        #: Called with path and text before a write is looked at; it may remove groups.
        self.before_write: Callable[[str, str], None] | None = None
        #: Paths whose writes fail with this errno, whatever is written.
        self.refusals: dict[str, int] = {}
        self._groups: dict[str, Group] = {}
        self._texts: dict[str, str] = {}
        self._roots = self._make_roots()

    @property
    def oom_kills(self) -> list[str]:
        """The groups in which a limit below usage killed (v2), by path."""
        return self.machine.oom_kills

    # What KernelFiles asks for.

    def read(self, path: str) -> str:
        if path in self._texts:
            return self._texts[path]
        group, file = self._file(path)
        if file.read is None:
            raise OSError(errno.EINVAL, "Invalid argument", path)
        return file.read(group)

    def exists(self, path: str) -> bool:
        if path in self._groups or path == self.root:
            return True
        directory, _, name = path.rpartition("/")
        group = self._groups.get(directory)
        return group is not None and name in self._table(group)

    def entries(self, path: str) -> list[str]:
        if self.version == 1 and path == self.root:
            return sorted(files.SUBSYSTEMS)
        return sorted(self._group(path).children)

    def identity(self, path: str) -> int:
        if self.version == 1 and path == self.root:
            return 1
        return self._group(path).inode

    def write(self, path: str, text: str) -> None:
        if self.before_write is not None:
            self.before_write(path, text)
        try:
            self._write(path, text)
        except OSError as error:
            error.filename = path
            raise
        self.writes.append((path, text))

    def write_and_read(self, path: str, text: str) -> str:
        self.write(path, text)
        return self.read(path)

    def make_directory(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        if path in self._groups or self._is_file(path):
            raise OSError(errno.EEXIST, "File exists", path)
        parent = self._group(directory)
        if not name or "\n" in name:
            raise OSError(errno.EINVAL, "Invalid argument", path)
        self._add(parent, name)

    def remove_directory(self, path: str) -> None:
        group = self._group(path)
        if group.parent is None or group.children or group.pids:
            raise OSError(errno.EBUSY, "Device or resource busy", path)
        self._forget(group)

    # What tests set up and look at.

    def directory(self, group: str, subsystem: str = "") -> str:
        """The path of a group's directory (v1: in the hierarchy of ``subsystem``)."""
        parts = [self.root, subsystem if self.version == 1 else "", group.strip("/")]
        return "/".join(part for part in parts if part)

    def make_group(self, group: str) -> None:
        """Make a group and what is missing above it, in every hierarchy.

        As a container runtime leaves it: in v1 with its parent's CPUs and nodes, in
        v2 with every controller given to it.
        """
        for root in self._roots:
            at = root
            for name in group.strip("/").split("/"):
                if self.version == 2:
                    at.enabled = frozenset(membership.CONTROLLERS)
                at = at.children.get(name) or self._add(at, name, inherit=True)

    def remove_group(self, group: str) -> None:
        """Let a group vanish with all below it and their processes, as a pod does."""
        for directory in self._directories(group):
            if found := self._groups.get(directory):
                for one in list(found.subtree()):
                    self.machine.pids -= one.pids
                self._forget(found)

    def add_process(self, group: str, pid: int) -> None:
        """Start a process in a group, or move it there, in every hierarchy."""
        for directory in self._directories(group):
            membership.attach(self._group(directory), pid)

    def remove_process(self, pid: int) -> None:
        """Let a process end."""
        self.machine.pids.discard(pid)
        for group in self._groups.values():
            group.pids.discard(pid)

    def set_usage(self, group: str, usage: int, reclaimable: int = 0) -> None:
        """Charge a group with bytes of memory, some of which reclaim can free."""
        values = self._group(self.directory(group, "memory")).values
        values["usage"] = usage // PAGE_SIZE
        values["reclaimable"] = min(usage, reclaimable) // PAGE_SIZE

    def set_text(self, path: str, text: str) -> None:
        """Give a file that is there the text to read, as for statistics."""
        self._file(path)
        self._texts[path] = text

    def check(self) -> None:
        """Fail if the tree is in a state that no kernel would be in."""
        for root in self._roots:
            for group in root.subtree():
                invariants.check(group)

    # The rest is inside.

    def _make_roots(self) -> list[Group]:
        if self.version == 2:
            roots = [Group(self.machine, self.root, None, files.of_v2_root())]
        else:
            roots = [
                Group(
                    self.machine,
                    f"{self.root}/{subsystem}",
                    None,
                    files.of_v1(subsystem, root=True, vendor=self.vendor),
                )
                for subsystem in files.SUBSYSTEMS
            ]
        for root in roots:
            root.pids.add(self.machine.self_pid)
            self._groups[root.path] = root
        return roots

    def _add(self, parent: Group, name: str, *, inherit: bool = False) -> Group:
        path = f"{parent.path}/{name}"
        table = parent.files
        if self.version == 1 and parent.parent is None:
            subsystem = parent.path.rpartition("/")[2]
            table = files.of_v1(subsystem, root=False, vendor=self.vendor)
        group = Group(self.machine, path, parent, table)
        if inherit and "cpuset.cpus" in table and self.version == 1:
            cpuset.inherit(group)
        parent.children[name] = group
        self._groups[path] = group
        return group

    def _forget(self, group: Group) -> None:
        if group.parent is None:
            raise OSError(errno.EBUSY, "Device or resource busy", group.path)
        for one in group.subtree():
            del self._groups[one.path]
            if self._texts:
                gone = [path for path in self._texts if path.rpartition("/")[0] == one.path]
                for path in gone:
                    del self._texts[path]
        del group.parent.children[group.path.rpartition("/")[2]]

    def _directories(self, group: str) -> list[str]:
        return ["/".join((root.path, group.strip("/"))).rstrip("/") for root in self._roots]

    def _table(self, group: Group) -> dict[str, File]:
        if self.version == 1 or group.parent is None:
            return group.files
        return files.of_v2(group.parent.enabled, vendor=self.vendor)

    def _is_file(self, path: str) -> bool:
        directory, _, name = path.rpartition("/")
        group = self._groups.get(directory)
        return group is not None and name in self._table(group)

    def _group(self, path: str) -> Group:
        group = self._groups.get(path)
        if group is None:
            code = errno.ENOTDIR if self._is_file(path) else errno.ENOENT
            raise OSError(code, "No such directory", path)
        return group

    def _file(self, path: str) -> tuple[Group, File]:
        directory, _, name = path.rpartition("/")
        group = self._groups.get(directory)
        if group is not None:
            file = self._table(group).get(name)
            if file is not None:
                return group, file
        if path in self._groups or path == self.root:
            raise OSError(errno.EISDIR, "Is a directory", path)
        code = errno.ENOTDIR if self._is_file(directory) else errno.ENOENT
        raise OSError(code, "No such file or directory", path)

    def _write(self, path: str, text: str) -> None:
        group, file = self._file(path)
        if path in self.refusals:
            refuse(self.refusals[path])
        if len(text) > _LONGEST_LIST.get(path.rpartition("/")[2], _LONGEST):
            refuse(errno.E2BIG)
        if not text:
            return  # the kernel is not even asked
        if file.write is None:
            refuse(errno.EINVAL)
        file.write(group, text.partition("\0")[0])
