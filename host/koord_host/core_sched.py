"""Core scheduling: which tasks may run side by side on the threads of one core.

Tasks with the same cookie may; the kernel hands cookies out by prctl(2), and no file
shows them. See admin-guide/hw-vuln/core-scheduling in the kernel's documentation.

A cookie reaches a task only from the calling thread, which has to take it first. So
every round works in a thread of its own, which ends with whatever cookie it took:
none of the agent's other threads ever has one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum

Record = Callable[[str, str, str, str], None]
"""Is told of each change: what, the old value, the new one, why."""

NO_GROUP = ""
"""The group of tasks that are to have no cookie."""

_PR_SCHED_CORE = 62


class Operation(IntEnum):
    """What prctl(PR_SCHED_CORE) is asked for."""

    GET = 0
    CREATE = 1
    SHARE_TO = 2
    SHARE_FROM = 3


class Scope(IntEnum):
    """Whom it is about; reading and taking work for one thread only."""

    THREAD = 0
    THREAD_GROUP = 1


Prctl = Callable[[int, int, int, int], None]
"""Operation, PID (0: this thread), scope, address of a 64-bit number; raises ``OSError``."""

_REASONS = {
    errno.EINVAL: "the kernel has no core scheduling (CONFIG_SCHED_CORE)",
    errno.ENODEV: "the CPUs have one thread a core (SMT is off or not there)",
}


@dataclass(slots=True)
class Report:
    """What a round did: tasks by what became of them, and a line for each that failed.

    ``cookies`` are those in use by group, as the kernel shows them. Tasks that ended
    meanwhile count nowhere.
    """

    created: int = 0
    shared: int = 0
    cleared: int = 0
    cookies: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


class CoreSched:
    """Gives the tasks of each group a cookie of their own."""

    def __init__(self, record: Record, prctl: Prctl | None = None) -> None:
        self._record = record
        self._prctl: Prctl = system_prctl if prctl is None else prctl
        # By the last round: which of two groups a cookie belongs to, should both have it.
        self._cookies: Mapping[str, int] = {}

    def available(self) -> tuple[bool, str]:
        """Whether this kernel can, found out on this very thread; and why not."""
        try:
            self._get(0)
        except OSError as error:
            return False, _REASONS.get(error.errno or 0, str(error))
        return True, ""

    def level(self, groups: Mapping[str, tuple[int, ...]]) -> Report:
        """Have the tasks of each group share a cookie that no other group has.

        Tasks of the group "" are left without. What is right already is not touched.
        PIDs are those of thread groups; all their threads are meant.
        """
        report = Report()
        # Not the agent's own: the cookie it takes must end with it.
        thread = threading.Thread(target=self._round, args=(groups, report), name="core-sched")
        thread.start()
        thread.join()
        self._cookies = dict(report.cookies)
        return report

    def _round(self, groups: Mapping[str, tuple[int, ...]], report: Report) -> None:
        try:
            if self._get(0):
                report.errors.append(
                    "core scheduling: the agent itself has a cookie, which its threads would hand"
                    " on; start it outside of any core scheduling group (nothing is changed)"
                )
                return
            found = {name: self._found(groups[name], report) for name in sorted(groups)}
            # First, while this thread has no cookie.
            for pid, cookie in found.pop(NO_GROUP, {}).items():
                if cookie:
                    self._clear(pid, cookie, report)
            keep = _kept(found, self._cookies)
            for name, tasks in found.items():
                if tasks:
                    self._level_group(name, tasks, keep.get(name, 0), report)
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, str(error))
            report.errors.append(f"core scheduling: {reason} (nothing further is changed)")

    def _found(self, pids: tuple[int, ...], report: Report) -> dict[int, int]:
        """The cookies of those tasks that live and may be asked."""
        cookies = {}
        for pid in dict.fromkeys(pids):
            with _task(pid, report):
                cookies[pid] = self._get(pid)
        return cookies

    def _clear(self, pid: int, cookie: int, report: Report) -> None:
        with _task(pid, report):
            self._share_to(pid)
            report.cleared += 1
            self._record(f"core scheduling cookie of {pid}", f"{cookie:x}", "0", "in no group")

    def _level_group(
        self, name: str, tasks: Mapping[int, int], cookie: int, report: Report
    ) -> None:
        sources = [pid for pid in tasks if tasks[pid] == cookie]
        if not cookie:
            sources, cookie = self._created(name, tasks, report)
        others = [pid for pid in tasks if pid not in sources and tasks[pid] != cookie]
        # Where every source has ended meanwhile, the next round finds another.
        if cookie and (not others or self._take(cookie, sources, report)):
            report.cookies[name] = cookie
            for pid in others:
                with _task(pid, report):
                    self._share_to(pid)
                    report.shared += 1
                    self._told(pid, tasks[pid], cookie, name)

    def _created(
        self, name: str, tasks: Mapping[int, int], report: Report
    ) -> tuple[list[int], int]:
        """A new cookie, at the first task that lives; none where no task does."""
        for pid in tasks:
            with _task(pid, report):
                self._prctl_of(Operation.CREATE, pid, Scope.THREAD_GROUP)
                cookie = self._get(pid)
                report.created += 1
                self._told(pid, tasks[pid], cookie, name)
                return [pid], cookie
        return [], 0

    def _take(self, cookie: int, sources: list[int], report: Report) -> bool:
        """Give this thread the cookie; whether it has it, and no other (PIDs are reused)."""
        for pid in sources:
            with _task(pid, report):
                self._prctl_of(Operation.SHARE_FROM, pid, Scope.THREAD)
                if self._get(0) == cookie:
                    return True
        return False

    def _told(self, pid: int, old: int, new: int, group: str) -> None:
        what = f"core scheduling cookie of {pid}"
        self._record(what, f"{old:x}", f"{new:x}", f"group {group}")

    def _share_to(self, pid: int) -> None:
        self._prctl_of(Operation.SHARE_TO, pid, Scope.THREAD_GROUP)

    def _get(self, pid: int) -> int:
        cookie = ctypes.c_uint64()
        self._prctl_of(Operation.GET, pid, Scope.THREAD, ctypes.addressof(cookie))
        return cookie.value

    def _prctl_of(self, operation: Operation, pid: int, scope: Scope, address: int = 0) -> None:
        self._prctl(operation, pid, scope, address)


@contextmanager
def _task(pid: int, report: Report) -> Iterator[None]:
    """What fails about one task is told, and the others go on; a task may end at any time."""
    try:
        yield
    except ProcessLookupError:
        pass
    except PermissionError as error:
        report.errors.append(f"core scheduling cookie of {pid}: {error} (left as it is)")


def _kept(found: Mapping[str, Mapping[int, int]], before: Mapping[str, int]) -> dict[str, int]:
    """The cookie that each group keeps: one that no other group keeps; none for most.

    After a restart, or where tasks changed groups, one group may have several and two
    may have the same. It stays where it was; else where most tasks have it.
    """
    counts: dict[int, Counter[str]] = {}
    for name, tasks in found.items():
        for cookie in tasks.values():
            if cookie:
                counts.setdefault(cookie, Counter())[name] += 1
    owned: dict[str, list[tuple[bool, int, int]]] = {}
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
