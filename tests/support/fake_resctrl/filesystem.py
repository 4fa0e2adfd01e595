"""The tree: groups as directories, their files, and ``info``."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from typing import NoReturn

from tests.support.fake_cgroupfs.numerals import signed
from tests.support.fake_resctrl import schemata
from tests.support.fake_resctrl.group import Group
from tests.support.fake_resctrl.resources import Cache, Refused, Resource, bandwidth, first_run
from tests.support.held import HeldByPath

EVENTS = ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")
_FILES = ("mode", "schemata", "tasks")


class FakeResctrl(HeldByPath):
    """A test double of the resctrl filesystem, in memory, with the kernel's rules.

    It implements ``koord_host.kernel_files.interface.KernelFiles``. No machine of the project has
    resctrl: the rules are those of the kernel's documentation and source, and none
    was held against hardware. It has no monitoring groups, and no CPUs of groups.

    Args:
        root: where it seems to be mounted.
        closids: how many groups the cache allows, the root group among them.
        mb_closids: how many memory bandwidth allows; the smaller number counts.
        l3_domains: the ids of the L3 caches, which need not be contiguous.
        cbm_mask: the ways of a cache.
        min_cbm_bits: how many a mask must have.
        sparse_masks: whether a mask may have gaps.
        code_data: mounted with ``cdp``: L3CODE and L3DATA, half as many groups.
        l2_domains: the ids of the L2 caches, if these can be shared out.
        mb: "intel" (percent), "amd" (eighths of GB/s), "mbps" (mounted with
            ``mba_MBps``) or None.
        rmids: how many groups can be monitored, the root group among them.
    """

    def __init__(
        self,
        root: str = "/sys/fs/resctrl",
        *,
        closids: int = 16,
        mb_closids: int = 8,
        l3_domains: tuple[int, ...] = (0, 1),
        cbm_mask: str = "fffff",
        min_cbm_bits: int = 1,
        sparse_masks: bool = False,
        code_data: bool = False,
        l2_domains: tuple[int, ...] = (),
        mb: str | None = "intel",
        rmids: int = 64,
    ) -> None:
        self.root = root
        #: Every successful write, in order: path and text.
        self.writes: list[tuple[str, str]] = []
        #: Called with path and text before a write is looked at; it may remove groups.
        self.before_write: Callable[[str, str], None] | None = None
        self.rmids = rmids
        full = int(cbm_mask, 16)

        def cache(name: str, domains: tuple[int, ...], most: int) -> Cache:
            return Cache(name, domains, full, min_cbm_bits, sparse_masks, most)

        names = ("L3CODE", "L3DATA") if code_data else ("L3",)
        most = closids // 2 if code_data else closids
        self.resources: list[Resource] = [cache(name, l3_domains, most) for name in names]
        if l2_domains:
            self.resources.append(cache("L2", l2_domains, closids))
        if mb:
            self.resources.append(bandwidth(mb, l3_domains, mb_closids))
        #: How many groups there can be: the fewest of any resource.
        self.closids = min(one.closids for one in self.resources)
        self._width = max(len(f"{full:x}"), {"amd": 4, None: 0}.get(mb, 3))
        self._domains = l3_domains
        self._texts: dict[str, str] = {}
        self._started = 0
        self._status = ""
        self._inodes = 1
        self._top = Group(0, 1)
        self._top.reset(self.resources)
        self._groups: dict[str, Group] = {"": self._top}

    # What KernelFiles asks for.

    def read(self, path: str) -> str:
        if path in self._texts:
            return self._texts[path]
        where = self._relative(path)
        if where.startswith("info/"):
            return self._info(where.removeprefix("info/"), path)
        group, file = self._find(where, path)
        if file == "schemata":
            # Names are as wide as "L3CODE", whether code and data are distinguished or not.
            return schemata.show(group, self.resources, 6, self._width)
        if file == "tasks":
            return "".join(f"{pid}\n" for pid in sorted(group.tasks))
        return f"{group.mode}\n" if file == "mode" else "0\n"

    def exists(self, path: str) -> bool:
        try:
            self.read(path)
        except IsADirectoryError:
            return True
        except OSError:
            return False
        return True

    def entries(self, path: str) -> list[str]:
        where = self._relative(path)
        if where not in set(self._directories()):
            _fail(errno.ENOTDIR if self.exists(path) else errno.ENOENT, path)
        start = f"{where}/" if where else ""
        below = (one[len(start) :] for one in self._directories() if one.startswith(start))
        return sorted({one for one in below if one and "/" not in one})

    def identity(self, path: str) -> int:
        group = self._groups.get(self._relative(path))
        if group is not None:
            return group.inode
        self.entries(path)
        return 0

    def write(self, path: str, text: str) -> None:
        if self.before_write is not None:
            self.before_write(path, text)
        where = self._relative(path)
        if where.startswith("info/"):
            self._info(where.removeprefix("info/"), path)
            _fail(errno.EACCES, path)
        group, file = self._find(where, path)
        if file not in _FILES:
            _fail(errno.EACCES, path)
        if text:
            self._write(group, file, text, path)
        self.writes.append((path, text))

    def write_and_read(self, path: str, text: str) -> str:
        self.write(path, text)
        return self.read(path)

    def make_directory(self, path: str) -> None:
        if self.exists(path):
            _fail(errno.EEXIST, path)
        parent, _, name = self._relative(path).rpartition("/")
        if parent not in set(self._directories()):
            _fail(errno.ENOENT, path)
        if "\n" in name:
            _fail(errno.EINVAL, path)
        if parent.partition("/")[0] == "info":
            _fail(errno.ENODEV, path)
        if parent:
            _fail(errno.EPERM, path)
        self._status = ""
        self._groups[name] = self._new_group(path)

    def remove_directory(self, path: str) -> None:
        where = self._relative(path)
        group = self._groups.get(where)
        if group is None:
            self.entries(path)
            _fail(errno.EPERM, path)
        if group is self._top:
            _fail(errno.EBUSY, path)
        self._forget(where, group)

    # What tests set up and look at.

    def add_task(self, pid: int, group: str = "") -> None:
        """Start a task; the root group has those nobody moved."""
        self._leave(pid)
        self._groups[group].tasks.add(pid)
        self._started += 1
        self._texts[f"/proc/{pid}/stat"] = f"{pid} (app) S {'0 ' * 18}{self._started} 0\n"

    def remove_task(self, pid: int) -> None:
        """Let a task end."""
        self._leave(pid)
        self._texts.pop(f"/proc/{pid}/stat", None)

    def remove_group(self, group: str) -> None:
        """Let a group vanish, as somebody else's rmdir does."""
        self._forget(group, self._groups[group])

    def set_text(self, path: str, text: str) -> None:
        """Give a file that is there the text to read, as for ``mon_data`` counters."""
        self.read(path)
        self._texts[path] = text

    def check(self) -> None:
        """Fail if the groups are in a state that no kernel would have them in."""
        assert len(self._groups) <= self.closids
        for name, group in self._groups.items():
            for one in self.resources:
                for domain, value in group.values[one.name].items():
                    shown = one.show(value, 0)
                    assert one.parse(shown) == value, f"{name or '/'}: {one.name}:{domain}={shown}"
        tasks = [pid for one in self._groups.values() for pid in one.tasks]
        assert len(tasks) == len(set(tasks)), "a task in two groups"

    # The rest is inside.

    def _next_inode(self) -> int:
        self._inodes += 1
        return self._inodes

    def _relative(self, path: str) -> str:
        if path == self.root:
            return ""
        if not path.startswith(f"{self.root}/"):
            _fail(errno.ENOENT, path)
        return path.removeprefix(f"{self.root}/")

    def _directories(self) -> Iterator[str]:
        yield from ("mon_groups", "info", "info/L3_MON")
        yield from (f"info/{one.name}" for one in self.resources)
        for name in self._groups:
            yield name
            data = f"{name}/mon_data".lstrip("/")
            yield data
            yield from (f"{data}/mon_L3_{domain:02}" for domain in self._domains)

    def _find(self, where: str, path: str) -> tuple[Group, str]:
        """The group and the name of a file; the last name alone for a counter."""
        directory, _, file = where.rpartition("/")
        above, data, folder = directory.rpartition("mon_data/")
        known = (*EVENTS,) if data and folder in self._counters else () if data else _FILES
        group = self._groups.get(above.rstrip("/") if data else directory)
        if group is None or file not in known:
            _fail(errno.EISDIR if where in set(self._directories()) else errno.ENOENT, path)
        return group, file

    @property
    def _counters(self) -> set[str]:
        return {f"mon_L3_{one:02}" for one in self._domains}

    def _info(self, where: str, path: str) -> str:
        if where == "last_cmd_status":
            return self._status or "ok\n"
        folder, _, file = where.partition("/")
        files = {
            "num_rmids": f"{self.rmids}\n",
            "mon_features": "".join(f"{event}\n" for event in EVENTS),
            "max_threshold_occupancy": "65536\n",
        }
        info = {"L3_MON": files} | {one.name: one.info() for one in self.resources}
        if file not in info.get(folder, {}):
            there = f"info/{where}" in set(self._directories())
            _fail(errno.EISDIR if there else errno.ENOENT, path)
        return info[folder][file]

    def _refuse(self, code: int, status: str, path: str) -> NoReturn:
        self._status = status
        _fail(code, path)

    def _new_group(self, path: str) -> Group:
        free = set(range(self.closids)) - {group.closid for group in self._groups.values()}
        if not free:
            self._refuse(errno.ENOSPC, "Out of CLOSIDs\n", path)
        if len(self._groups) >= self.rmids:
            self._refuse(errno.ENOSPC, "Out of RMIDs\n", path)
        group = Group(min(free), self._next_inode())
        group.reset(self.resources)
        for one in self.resources:
            if isinstance(one, Cache):
                masks = {domain: self._usable(one, domain, path) for domain in one.domains}
                group.values[one.name] = masks
        return group

    def _usable(self, cache: Cache, domain: int, path: str) -> int:
        """What a new group begins with: what nobody has for himself alone."""
        mask = cache.full
        for other in self._groups.values():
            if other.mode == "exclusive":
                for name in schemata.peers(cache):
                    mask &= ~other.values[name][domain]
        mask = mask if cache.sparse else first_run(mask)
        if mask.bit_count() < cache.min_bits:
            self._refuse(errno.ENOSPC, f"No space on {cache.name}:{domain}\n", path)
        return mask

    def _forget(self, where: str, group: Group) -> None:
        """Remove a group; its tasks go back to the root group."""
        self._top.tasks |= group.tasks
        del self._groups[where]
        for path in [one for one in self._texts if one.startswith(f"{self.root}/{where}/")]:
            del self._texts[path]

    def _leave(self, pid: int) -> None:
        for group in self._groups.values():
            group.tasks.discard(pid)

    def _write(self, group: Group, file: str, text: str, path: str) -> None:
        if file != "tasks" and not text.endswith("\n"):
            _fail(errno.EINVAL, path)  # before the last status is even cleared
        self._status = ""
        try:
            if file == "schemata":
                others = [one for one in self._groups.values() if one is not group]
                schemata.write(group, text, self.resources, others)
            elif file == "mode":
                self._set_mode(group, text.removesuffix("\n"))
            else:
                self._move(group, text, path)
        except Refused as refused:
            self._refuse(errno.EINVAL, str(refused), path)

    def _set_mode(self, group: Group, mode: str) -> None:
        if mode == group.mode:
            return
        if mode not in ("shareable", "exclusive"):
            raise Refused("Unknown or unsupported mode\n")
        if mode == "exclusive":
            self._check_alone(group)
        group.mode = mode

    def _check_alone(self, group: Group) -> None:
        others = [one for one in self._groups.values() if one is not group]
        for one in self.resources:
            if not isinstance(one, Cache):
                continue
            for domain, mask in group.values[one.name].items():
                if any(schemata.overlaps(one, domain, mask, other) for other in others):
                    raise Refused("Schemata overlaps\n")

    def _move(self, group: Group, text: str, path: str) -> None:
        try:
            pid = signed(text.strip())
        except OSError:
            raise Refused(f"Task list parsing error pid {text.strip()}\n") from None
        if pid < 0:
            raise Refused(f"Invalid pid {pid}\n")
        if not any(pid in other.tasks for other in self._groups.values()):
            self._refuse(errno.ESRCH, f"No task {pid}\n", path)
        self._leave(pid)
        group.tasks.add(pid)


def _fail(code: int, path: str) -> NoReturn:
    raise OSError(code, os.strerror(code), path)
