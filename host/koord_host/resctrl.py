"""Resctrl groups: made within what the hardware has, filled with tasks, and collected.

The kernel's interface is Documentation/filesystems/resctrl.rst. All of it goes through
the ``KernelFiles`` of the one writer; every change is recorded in its journal. A change can be
stopped between two groups, and between two tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from koord_model.resctrl import CLASS_GROUPS, POD_GROUP_PREFIX, ResctrlLimits, class_group

from koord_host.kernel_files import processes
from koord_host.kernel_files.interface import KernelFiles
from koord_host.kernel_files.processes import Process
from koord_host.kernel_files.schemata import (
    ResctrlInfo,
    differing,
    parse,
    read_info,
    render,
    wanted,
)
from koord_host.planning.jobs import CancelToken, uncancelled

Record = Callable[[str, str, str, str, str], None]
"""Called for each change: the group, what of it, the old value, the new one, why.

"What" is a knob's name ("resctrl.L3"), "resctrl.group" or "resctrl.tasks".
"""

_INFO_FILES = (
    "num_closids",
    "cbm_mask",
    "min_cbm_bits",
    "sparse_masks",
    "min_bandwidth",
    "bandwidth_gran",
)
_NO_GROUPS = frozenset({"info", "mon_groups", "mon_data"})
# A child forked before its parent was moved is found when tasks are listed again; one
# forked after is in the group by itself. So few rounds do.
_ROUNDS = 5
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Tenant:
    """Owner of a group's tasks, and its limits.

    ``tids`` lists the threads that exist now; it is called again until it names no new
    ones. ``pod`` is "namespace/name", for people.
    """

    limits: ResctrlLimits
    tids: Callable[[], Iterable[int]]
    pod: str = ""

    def __str__(self) -> str:
        return f"pod {self.pod}" if self.pod else f"resctrl group {self.limits.group}"


@dataclass(frozen=True, slots=True)
class ResctrlReport:
    """Result of a round for the tenants.

    ``placed`` is the group that each one's tasks are in, by the desired group; ""
    where they were left in the group they were in. Those that it did not come to, as it was
    cancelled, are not among them. ``refused`` are lines for people. ``free`` is how many
    more pods could have a group.
    """

    placed: Mapping[str, str]
    refused: tuple[str, ...] = ()
    free: int = 0


class ResctrlGroups:
    """This node's resctrl groups.

    ``record`` is the executor's journal. ``made`` are shared groups that an earlier run
    made, ``keep`` hears which are made, before they are. ``reserved`` are shared groups
    that pods' own must leave room for. Threads are known by ``proc_root``.
    ``full_bandwidth`` is what 100 % of memory bandwidth is, in the units of this node's
    MB lines, where somebody measured it.
    """

    def __init__(
        self,
        files: KernelFiles,
        root: str = "/sys/fs/resctrl",
        *,
        record: Record,
        made: Iterable[str] = (),
        keep: Callable[[frozenset[str]], None] = lambda _: None,
        reserved: Iterable[str] = CLASS_GROUPS,
        full_bandwidth: int | None = None,
        proc_root: str = "/proc",
    ) -> None:
        self._files = files
        self._root = root
        self._proc_root = proc_root
        self._record = record
        self._made = set(made)
        self._keep = keep
        self._reserved = tuple(reserved)
        self._full_bandwidth = full_bandwidth
        self._info: ResctrlInfo | None = None
        self._cancel = uncancelled()
        # What the kernel made of a line that it did not take literally.
        self._rounded: dict[tuple[str, str], tuple[dict[int, int], dict[int, int]]] = {}

    def available(self) -> bool:
        """True if there is anything to set here."""
        return not self.why_not()

    def why_not(self) -> str:
        """Return why there is nothing to set here, in one line; "" if there is."""
        if not self._files.exists(f"{self._root}/info"):
            self._info = None
            return self._not_mounted()
        try:
            self.info()
        except (OSError, ValueError) as error:
            return f"{self._root}: {error}"
        return ""

    def info(self, *, again: bool = False) -> ResctrlInfo:
        """The hardware's features; read once, and once more with ``again``.

        Raises:
            ValueError: nothing can be allocated, or a file is not as the kernel writes it.
            OSError: not mounted, or not to be read.
        """
        # Other threads, too, ask whether resctrl exists.
        info = self._info
        if info is None or again:
            names = self._files.entries(f"{self._root}/info")
            info = self._info = read_info(
                {name: self._info_files(name) for name in names},
                self._files.read(self._path("", "schemata")),
                mbps_event=self._files.exists(self._path("", "mba_MBps_event")),
                full_bandwidth=self._full_bandwidth,
            )
        return info

    def groups(self) -> tuple[str, ...]:
        """All groups but the root, other people's too: each holds a CLOSID."""
        names = self._files.entries(self._root)
        return tuple(name for name in names if name not in _NO_GROUPS)

    def free(self) -> int:
        """Return the number of groups left for pods, without the root's and those of classes."""
        there = self.groups()
        return max(self.info().closids - 1 - len(there) - len(self._kept(there)), 0)

    def reconcile(
        self,
        tenants: Iterable[Tenant],
        shared: Mapping[str, ResctrlLimits] | None = None,
        cancel: CancelToken | None = None,
    ) -> ResctrlReport:
        """Give each tenant, in their order, the group it wants, with its tasks in it.

        ``shared`` is what the shared groups of classes may use, for those made here.
        ``collect`` first: groups of pods that are gone would stand in the way.
        """
        self._cancel = cancel or uncancelled()
        reason = self.why_not()
        if reason:
            return ResctrlReport({}, (f"resctrl: {reason}",))
        tenants = tuple(tenants)
        own = {tenant.limits.group for tenant in tenants}
        others = {name: limits for name, limits in (shared or {}).items() if name not in own}
        lines: list[str] = []
        placed = {}
        for tenant in tenants:
            if self._cancel.cancelled():
                lines.append(f"resctrl: {self._cancel.reason} (the next look goes on)")
                break
            placed[tenant.limits.group] = self._place(tenant, others, lines)
        return ResctrlReport(placed, tuple(dict.fromkeys(lines)), self.free())

    def collect(self, live: Collection[str], cancel: CancelToken | None = None) -> tuple[str, ...]:
        """Remove groups that are not among ``live``: pods', and those of classes made here.

        Returns lines about those that stay. Their tasks, where there are any, go to the root group.
        """
        self._cancel = cancel or uncancelled()
        if not self.available():
            return ()
        there = self.groups()
        # Somebody removed these; what has such a name later is not ours for that.
        for group in {*self._made, *(group for group, _ in self._rounded)}.difference(there):
            self._forget(group)
        gone = [name for name in self.ours() if name not in live]
        return self._remove(gone, "no running pod wants it")

    def remove_all_ours(self, cancel: CancelToken | None = None) -> tuple[str, ...]:
        """Remove pods' groups, and the shared ones made here; lines about those that stay."""
        self._cancel = cancel or uncancelled()
        return self._remove(self.ours(), "put back what was found")

    def ours(self) -> tuple[str, ...]:
        """The groups that are there and were made here: pods', and shared ones."""
        there = self.groups() if self.available() else ()
        return tuple(
            name for name in there if name in self._made or name.startswith(POD_GROUP_PREFIX)
        )

    @property
    def shared(self) -> frozenset[str]:
        """The shared groups made here, by this run or one before."""
        return frozenset(name for name in self._made if not name.startswith(POD_GROUP_PREFIX))

    # Placing

    def _place(self, tenant: Tenant, shared: Mapping[str, ResctrlLimits], lines: list[str]) -> str:
        try:
            group = self._group_for(tenant, shared, lines)
            if group:
                lines += [f"{tenant}: {line}" for line in self._move(group, tenant)]
            return group
        except (OSError, ValueError) as error:
            lines.append(f"{tenant}: resctrl: {error}")
            return ""

    def _group_for(
        self, tenant: Tenant, shared: Mapping[str, ResctrlLimits], lines: list[str]
    ) -> str:
        """The tenant's own group, else the shared one of its class, else "": none."""
        limits = tenant.limits
        refusal = self._make(limits.group, str(limits))
        if not refusal:
            lines += [f"{tenant}: {line}" for line in self._set(limits, str(limits))]
            return limits.group
        fallback = class_group(limits.fallback)
        without = f"{tenant}: {limits} not applied: no resctrl group of its own: {refusal}"
        if not fallback:
            lines.append(f"{without}; its tasks stay where they are")
            return ""
        why = f"shared by pods that have no group of their own, such as {tenant}"
        also = self._make(fallback, why)
        if also:
            lines.append(f"{without}; nor is there a group {fallback}: {also}")
            return ""
        if fallback in shared and fallback in self._made:
            lines += [f"group {fallback}: {line}" for line in self._set(shared[fallback], why)]
        lines.append(f"{without}; its tasks share group {fallback}")
        return fallback

    def _make(self, group: str, why: str) -> str:
        """See that a group is there; "", or why it cannot be."""
        if not group or "/" in group or group in _NO_GROUPS or group.startswith("."):
            return f"{group!r} is not a valid name for one"
        there = self.groups()
        if group in there:
            return ""
        if group not in self._reserved and self.free() == 0:
            return self._used_up(there)
        self._made.add(group)
        self._keep_shared(group)
        try:
            self._files.make_directory(f"{self._root}/{group}")
        except FileExistsError:
            self._forget(group)
            return ""
        except OSError as error:
            self._forget(group)
            return self._reported(error)
        self._record(group, "resctrl.group", "absent", "present", why)
        return ""

    def _used_up(self, there: tuple[str, ...]) -> str:
        kept = self._kept(there)
        parts = [
            f"of {self.info().closids} CLOSIDs the root group has 1, other groups {len(there)}"
        ]
        parts += [f"{len(kept)} are kept for {', '.join(kept)}"] if kept else []
        return ", ".join(parts)

    def _kept(self, there: tuple[str, ...]) -> list[str]:
        return [name for name in self._reserved if name not in there]

    # Schemata

    def _set(self, limits: ResctrlLimits, why: str) -> list[str]:
        """Write what of a group's schemata differs, a line a resource; lines about refusals."""
        group = limits.group
        current = parse(self._files.read(self._path(group, "schemata")))
        # Mounted anew with other options, it has other resources.
        info = self.info(again=current.keys() != self.info().root.keys())
        aims, problems = wanted(info, limits, current)
        lines = [f"resctrl: {problem}" for problem in problems]
        for resource, values in differing(aims, current).items():
            if self._rounded.get((group, resource)) == (aims[resource], current[resource]):
                continue
            line = render(resource, values)
            try:
                self._files.write(self._path(group, "schemata"), f"{line}\n")
            except OSError as error:
                lines.append(f"resctrl: the kernel refuses {line}: {self._reported(error)}")
                continue
            self._written(group, resource, aims[resource], current[resource], why)
        return lines

    def _written(
        self, group: str, resource: str, aim: dict[int, int], old: dict[int, int], why: str
    ) -> None:
        new = parse(self._files.read(self._path(group, "schemata"))).get(resource, {})
        self._rounded.pop((group, resource), None)
        if new != aim:
            self._rounded[group, resource] = (aim, new)
        before, after = render(resource, old), render(resource, new)
        self._record(group, f"resctrl.{resource}", before, after, why)

    # Tasks

    def _move(self, group: str, tenant: Tenant) -> list[str]:
        """Move the threads that are elsewhere, one write each, until no new ones appear."""
        moved: list[int] = []
        refused: dict[int, str] = {}
        gone: set[int] = set()
        settled = False
        for _ in range(_ROUNDS):
            there = {int(tid) for tid in self._files.read(self._path(group, "tasks")).split()}
            new = [fromkey for fromkey in dict.fromkeys(tenant.tids()) if fromkey not in there]
            new = [tid for tid in new if tid not in gone and tid not in refused]
            settled = not new
            if settled:
                break
            threads = processes.identify(self._files, self._proc_root, group, new)
            still = frozenset(tenant.tids())
            for tid in new:
                if self._cancel.cancelled():
                    break
                if tid <= 0:
                    # So it is shown where it is in no PID namespace of ours; to resctrl, 0 is us.
                    refused[tid] = "not in this PID namespace"
                elif tid in threads and tid in still:
                    self._move_one(group, threads[tid], moved, refused, gone)
                else:
                    gone.add(tid)
            if self._cancel.cancelled():
                break
        if moved:
            self._record(group, "resctrl.tasks", "elsewhere", _listed(moved), f"tasks of {tenant}")
        lines = []
        if not settled:
            reason = self._cancel.reason or "threads appear faster than they move"
            lines = [f"resctrl: not all threads are in {group}: {reason}"]
        if refused:
            tid, reason = next(iter(refused.items()))
            lines.append(f"resctrl: {len(refused)} threads not in {group}, thread {tid}: {reason}")
        return lines

    def _move_one(
        self, group: str, thread: Process, moved: list[int], refused: dict[int, str], gone: set[int]
    ) -> None:
        tid = thread.pid
        try:
            with processes.held(self._files, self._proc_root, thread) as directory:
                self._files.write(self._path(group, "tasks"), f"{tid}\n")
                if processes.is_there(directory):
                    moved.append(tid)
                    return
            self._take_back(group, tid)
            gone.add(tid)
        except ProcessLookupError:
            gone.add(tid)
        except FileNotFoundError:
            raise
        except OSError as error:
            refused[tid] = self._reported(error)

    def _take_back(self, group: str, tid: int) -> None:
        """Move a thread back to the root group if it reused the number of one that ended.

        From the root group its own tenant's next round moves it to where it belongs.
        """
        if str(tid) in self._files.read(self._path(group, "tasks")).split():
            self._files.write(self._path("", "tasks"), f"{tid}\n")

    # Removing

    def _remove(self, names: Iterable[str], why: str) -> tuple[str, ...]:
        lines = []
        for name in names:
            if self._cancel.cancelled():
                lines.append(f"resctrl group {name} not removed: {self._cancel.reason}")
                continue
            try:
                self._files.remove_directory(f"{self._root}/{name}")
            except FileNotFoundError:
                pass  # somebody was faster
            except OSError as error:
                lines.append(f"resctrl group {name} not removed: {self._reported(error)}")
                continue
            else:
                self._record(name, "resctrl.group", "present", "absent", why)
            self._forget(name)
        return tuple(lines)

    def _forget(self, group: str) -> None:
        self._made.discard(group)
        self._keep_shared(group)
        for key in [key for key in self._rounded if key[0] == group]:
            del self._rounded[key]

    def _keep_shared(self, group: str) -> None:
        """Report a shared group; the groups of pods are known by their names."""
        if not group.startswith(POD_GROUP_PREFIX):
            self._keep(self.shared)

    # Reading

    def _path(self, group: str, file: str) -> str:
        return f"{self._root}/{group}/{file}" if group else f"{self._root}/{file}"

    def _info_files(self, name: str) -> dict[str, str]:
        paths = {file: f"{self._root}/info/{name}/{file}" for file in _INFO_FILES}
        there = {file: path for file, path in paths.items() if self._files.exists(path)}
        return {file: self._files.read(path) for file, path in there.items()}

    def _reported(self, error: OSError) -> str:
        """Return the kernel's message about its last refusal."""
        reason = error.strerror or str(error)
        try:
            said = " ".join(self._files.read(f"{self._root}/info/last_cmd_status").split())
        except OSError:
            return reason
        return f"{reason} ({said})" if said and said != "ok" else reason

    def _not_mounted(self) -> str:
        try:
            known = "resctrl" in self._files.read("/proc/filesystems").split()
        except OSError:
            return f"{self._root} is not mounted, or the CPU or the kernel has no resctrl"
        if known:
            return f"not mounted (mount -t resctrl resctrl {self._root})"
        return "the CPU or the kernel has none (/proc/filesystems does not name it)"


def _listed(tids: list[int]) -> str:
    shown = " ".join(str(tid) for tid in tids[:_SHOWN])
    return f"{shown} and {len(tids) - _SHOWN} more" if len(tids) > _SHOWN else shown
