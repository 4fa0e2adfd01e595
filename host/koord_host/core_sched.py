"""Core scheduling: which tasks may run side by side on the threads of one core.

Tasks with the same cookie may; the kernel hands cookies out by prctl(2), and no file
shows them. See admin-guide/hw-vuln/core-scheduling in the kernel's documentation.

A cookie reaches a task only from the calling thread, which has to take it first. So
every round works in a thread of its own, which ends with whatever cookie it took:
none of the agent's other threads ever has one.

prctl knows tasks by number only. So each is held by its directory in /proc and checked
before and after; should another process have got the number just then, it is rid of the
cookie at once, and the next round gives it its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeVar

from koord_model.core_sched import NO_GROUP, CoreSchedGroup

from koord_host.kernel_files import processes
from koord_host.kernel_files.interface import OpenDirectory
from koord_host.kernel_files.processes import Process
from koord_host.planning.jobs import CancelToken, uncancelled

Record = Callable[[str, str, str, str], None]
"""Called for each change: what, the old value, the new one, why."""

Hold = Callable[[Process], AbstractContextManager[OpenDirectory]]
"""Holds a process, as ``processes.held`` does."""

Done = TypeVar("Done")

_PR_SCHED_CORE = 62


class CoreSchedOperation(IntEnum):
    """The commands of prctl(PR_SCHED_CORE)."""

    GET = 0
    CREATE = 1
    SHARE_TO = 2
    SHARE_FROM = 3


class CookieScope(IntEnum):
    """Scope of a cookie; reading and taking work for one thread only."""

    THREAD = 0
    THREAD_GROUP = 1


Prctl = Callable[[int, int, int, int], None]
"""Operation, PID (0: this thread), scope, address of a 64-bit number; raises ``OSError``."""

_REASONS = {
    errno.EINVAL: "the kernel has no core scheduling (CONFIG_SCHED_CORE)",
    errno.ENODEV: "the CPUs have one thread a core (SMT is off or not there)",
}


@dataclass(slots=True)
class CoreSchedReport:
    """Result of a round: tasks by outcome, and a line for each that failed.

    ``cookies`` are those in use by group, as the kernel shows them. Tasks that ended
    meanwhile count nowhere. ``mistaken`` lost their cookie, as it was meant for another
    process of their number: they may be in a group of their own.
    """

    created: int = 0
    shared: int = 0
    cleared: int = 0
    cookies: dict[CoreSchedGroup, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    mistaken: list[int] = field(default_factory=list)
    cancel: CancelToken = field(default_factory=uncancelled, repr=False, compare=False)


class CoreSched:
    """Gives the tasks of each group a cookie of their own."""

    def __init__(self, record: Record, hold: Hold, prctl: Prctl | None = None) -> None:
        self._record = record
        self._hold = hold
        self._doubtful: set[int] = set()
        self._prctl: Prctl = system_prctl if prctl is None else prctl
        # By the last round: which of two groups a cookie belongs to, should both have it.
        self._cookies: Mapping[CoreSchedGroup, int] = {}

    def available(self) -> tuple[bool, str]:
        """Return if this kernel supports it, as tried on this thread; and the reason if not."""
        try:
            self._get(0)
        except OSError as error:
            return False, _REASONS.get(error.errno or 0, str(error))
        return True, ""

    def reconcile(
        self,
        groups: Mapping[CoreSchedGroup, tuple[Process, ...]],
        cancel: CancelToken | None = None,
    ) -> CoreSchedReport:
        """Have the tasks of each group share a cookie that no other group has.

        Tasks of ``NO_GROUP`` are left without. What is right already is not touched.
        PIDs are those of thread groups; all their threads are meant. When cancelled it
        stops between two tasks.
        """
        report = CoreSchedReport(cancel=cancel or uncancelled())
        _in_own_thread(self._round, groups, report)
        if self._doubtful:
            _in_own_thread(self._set_right, report)
        # Of groups that it did not come to, what was known is still so.
        before = self._cookies if report.cancel.reason else {}
        self._cookies = {**before, **report.cookies}
        return report

    def _round(
        self, groups: Mapping[CoreSchedGroup, tuple[Process, ...]], report: CoreSchedReport
    ) -> None:
        try:
            if self._get(0):
                report.errors.append(
                    "core scheduling: the agent itself has a cookie, which its threads would hand"
                    " on; start it outside of any core scheduling group (nothing is changed)"
                )
                return
            found = {name: self._found(groups[name], report) for name in sorted(groups)}
            # First, while this thread has no cookie.
            for task, cookie in found.pop(NO_GROUP, {}).items():
                if cookie and self._share_to(task, report):
                    report.cleared += 1
                    self._reported(task.pid, cookie, 0, "in no group")
            keep = _kept(found, self._cookies)
            for name, tasks in found.items():
                if tasks:
                    self._level_group(name, tasks, keep.get(name, 0), report)
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, str(error))
            report.errors.append(f"core scheduling: {reason} (nothing further is changed)")
        except _StoppedError:
            reason = report.cancel.reason
            report.errors.append(f"core scheduling: {reason} (the next look goes on)")

    def _found(self, tasks: Iterable[Process], report: CoreSchedReport) -> dict[Process, int]:
        """The cookies of the tasks that run and whose cookie may be read."""
        found = ((task, self._about(task, self._get, report)) for task in dict.fromkeys(tasks))
        return {task: cookie for task, cookie in found if cookie is not None}

    def _level_group(
        self,
        group: CoreSchedGroup,
        tasks: Mapping[Process, int],
        cookie: int,
        report: CoreSchedReport,
    ) -> None:
        sources = [task for task in tasks if tasks[task] == cookie]
        if not cookie:
            sources, cookie = self._created(group, tasks, report)
        others = [task for task in tasks if task not in sources and tasks[task] != cookie]
        # Where every source has ended meanwhile, the next round finds another.
        if cookie and (not others or self._take(cookie, sources, report)):
            report.cookies[group] = cookie
            for task in others:
                if self._share_to(task, report):
                    report.shared += 1
                    self._reported(task.pid, tasks[task], cookie, f"group {group}")

    def _created(
        self, group: CoreSchedGroup, tasks: Mapping[Process, int], report: CoreSchedReport
    ) -> tuple[list[Process], int]:
        """A new cookie, at the first task that lives; none where no task does."""
        for task in tasks:
            cookie = self._about(task, self._create, report, writes=True)
            if cookie is not None:
                report.created += 1
                self._reported(task.pid, tasks[task], cookie, f"group {group}")
                return [task], cookie
        return [], 0

    def _create(self, pid: int) -> int:
        self._prctl_of(CoreSchedOperation.CREATE, pid, CookieScope.THREAD_GROUP)
        return self._get(pid)

    def _take(self, cookie: int, sources: list[Process], report: CoreSchedReport) -> bool:
        """Give this thread the cookie; whether it has it, and no other."""
        return any(self._about(task, self._share_from, report) == cookie for task in sources)

    def _share_from(self, pid: int) -> int:
        self._prctl_of(CoreSchedOperation.SHARE_FROM, pid, CookieScope.THREAD)
        return self._get(0)

    def _share_to(self, task: Process, report: CoreSchedReport) -> bool:
        """Give a task the cookie that this thread has; whether it is done."""
        return self._about(task, self._give, report, writes=True) is not None

    def _give(self, pid: int) -> int:
        self._prctl_of(CoreSchedOperation.SHARE_TO, pid, CookieScope.THREAD_GROUP)
        return pid

    def _about(
        self,
        task: Process,
        act: Callable[[int], Done],
        report: CoreSchedReport,
        *,
        writes: bool = False,
    ) -> Done | None:
        """Do something about a task; ``None`` where it has ended, or may not be touched.

        A failure of one task is reported, and the others go on; a task may end at any time.

        Raises:
            _StoppedError: work was cancelled.
        """
        if report.cancel.cancelled():
            raise _StoppedError
        try:
            with self._hold(task) as directory:
                done = act(task.pid)
                if processes.is_there(directory):
                    return done
            if writes:
                self._doubtful.add(task.pid)
        except ProcessLookupError:
            pass
        except PermissionError as error:
            what = f"core scheduling cookie of {task.pid}"
            report.errors.append(f"{what}: {error} (left as it is)")
        return None

    def _set_right(self, report: CoreSchedReport) -> None:
        """Take the cookie from processes that reused the number of a task that ended meanwhile.

        It may have got the task's; and if it had one of its own, the next round says so.
        """
        doubtful, self._doubtful = self._doubtful, set()
        for pid in sorted(doubtful):
            with contextlib.suppress(OSError):
                if cookie := self._get(pid):
                    self._give(pid)
                    report.mistaken.append(pid)
                    self._reported(pid, cookie, 0, "meant for a process that has ended")

    def _reported(self, pid: int, old: int, new: int, why: str) -> None:
        self._record(f"core scheduling cookie of {pid}", f"{old:x}", f"{new:x}", why)

    def _get(self, pid: int) -> int:
        cookie = ctypes.c_uint64()
        self._prctl_of(CoreSchedOperation.GET, pid, CookieScope.THREAD, ctypes.addressof(cookie))
        return cookie.value

    def _prctl_of(
        self, operation: CoreSchedOperation, pid: int, scope: CookieScope, address: int = 0
    ) -> None:
        self._prctl(operation, pid, scope, address)


class _StoppedError(Exception):
    """Work was cancelled."""


def _in_own_thread(work: Callable[..., None], *arguments: object) -> None:
    """Do it in a thread without a cookie, which ends with the one that it takes."""
    thread = threading.Thread(target=work, args=arguments, name="core-sched")
    thread.start()
    thread.join()


def _kept(
    found: Mapping[CoreSchedGroup, Mapping[Process, int]], before: Mapping[CoreSchedGroup, int]
) -> dict[CoreSchedGroup, int]:
    """The cookie that each group keeps: one that no other group keeps; none for most.

    After a restart, or where tasks changed groups, one group may have several and two
    may have the same. It stays where it was; else where most tasks have it.
    """
    counts: dict[int, Counter[CoreSchedGroup]] = {}
    for name, tasks in found.items():
        for cookie in tasks.values():
            if cookie:
                counts.setdefault(cookie, Counter())[name] += 1
    owned: dict[CoreSchedGroup, list[tuple[bool, int, int]]] = {}
    for cookie, by_name in counts.items():
        owner = max(by_name, key=lambda name: (before.get(name) == cookie, by_name[name], name))
        owned.setdefault(owner, []).append((before.get(owner) == cookie, by_name[owner], cookie))
    return {name: max(cookies)[2] for name, cookies in owned.items()}


def system_prctl(operation: int, pid: int, scope: int, address: int) -> None:
    """The kernel's own.

    Raises:
        OSError: EINVAL, ENODEV (see ``CoreSched.available``), ESRCH or EPERM.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    words = (ctypes.c_ulong(word) for word in (operation, pid, scope, address))
    if libc.prctl(_PR_SCHED_CORE, *words) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
