"""Cookies, on a kernel that behaves as kernel/sched/core_sched.c does, and on the real one."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from weakref import WeakKeyDictionary

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.core_sched import CoreSched, CoreSchedReport, system_prctl
from koord_host.kernel import KernelFilesystem as RealKernel
from koord_host.kernel_files.processes import Process, held, start_time
from koord_host.planning.jobs import CancelToken
from koord_model.core_sched import NO_GROUP, CoreSchedGroup, GroupKind

GET, CREATE, SHARE_TO, SHARE_FROM = range(4)
THREAD, THREAD_GROUP, PROCESS_GROUP = range(3)


@dataclass
class KernelFilesystem:
    """Tasks with cookies; refuses what the kernel refuses."""

    tasks: dict[int, int] = field(default_factory=dict)
    protected: set[int] = field(default_factory=set)
    smt: bool = True
    configured: bool = True
    writes: int = 0
    taken: set[int] = field(default_factory=set)
    # Cookies of threads of this process, which prctl(…, 0) is about.
    own: WeakKeyDictionary[threading.Thread, int] = field(default_factory=WeakKeyDictionary)
    ending: dict[int, int] = field(default_factory=dict)
    # PIDs that another process gets, with this cookie, just before such an operation on them.
    reused: dict[int, tuple[int, int]] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    _next: int = 0xABC0

    def prctl(self, operation: int, pid: int, scope: int, address: int) -> None:
        me = threading.current_thread()
        if not self.configured:
            raise OSError(errno.EINVAL, "Invalid argument")
        if not self.smt:
            raise OSError(errno.ENODEV, "No such device")
        if scope > PROCESS_GROUP or operation > SHARE_FROM or (operation != GET and address):
            raise OSError(errno.EINVAL, "Invalid argument")
        self._end(pid)
        self._reuse(pid, operation)
        if pid and pid not in self.tasks:
            raise OSError(errno.ESRCH, "No such process")
        if pid in self.protected:
            raise OSError(errno.EPERM, "Operation not permitted")
        if operation in (GET, SHARE_FROM) and scope != THREAD:
            raise OSError(errno.EINVAL, "Invalid argument")
        if operation == GET:
            if address % 8:
                raise OSError(errno.EINVAL, "Invalid argument")
            cookie = self.tasks[pid] if pid else self.own.get(me, 0)
            ctypes.c_uint64.from_address(address).value = cookie
            return
        assert pid, "the agent's own threads are never given a cookie by number 0"
        if operation == SHARE_FROM:
            self.own[me] = self.tasks[pid]
            self.taken.add(self.tasks[pid])
            return
        self.writes += 1
        if operation == CREATE:
            self._next += 1
            self.tasks[pid] = self._next
        else:
            self.tasks[pid] = self.own.get(me, 0)

    @contextmanager
    def held(self, path: str) -> Iterator[HeldTask]:
        pid = int(path.rpartition("/")[2])
        yield HeldTask(self, pid, self.starts.get(pid, 1))

    def _reuse(self, pid: int, operation: int) -> None:
        if self.reused.get(pid, (None,))[0] == operation:
            _, self.tasks[pid] = self.reused.pop(pid)
            self.starts[pid] = 2

    def _end(self, pid: int) -> None:
        """A task that is to end after so many calls about it."""
        if pid in self.ending:
            self.ending[pid] -= 1
            if self.ending[pid] < 0:
                self.tasks.pop(pid, None)


@dataclass
class HeldTask:
    """A task's directory in /proc, of which nothing is left once it has ended."""

    kernel: KernelFilesystem
    pid: int
    start: int

    def read(self, name: str) -> str:
        assert name == "stat"
        if self.pid not in self.kernel.tasks or self.kernel.starts.get(self.pid, 1) != self.start:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        return f"{self.pid} (app) S {'0 ' * 18}{self.start} 0"

    def write_and_read(self, name: str, text: str) -> str:
        raise AssertionError


class Recorder:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str, str]] = []

    def __call__(self, what: str, old: str, new: str, why: str) -> None:
        self.lines.append((what, old, new, why))


class ByLabel:
    """Core scheduling of groups that have only a label; "" is the one without a cookie.

    Their tasks were listed when those had just been started.
    """

    def __init__(self, sched: CoreSched, start: Callable[[int], int] = lambda _: 1) -> None:
        self.sched = sched
        self._start = start

    def reconcile(
        self, groups: dict[str, tuple[int, ...]], cancel: CancelToken | None = None
    ) -> CoreSchedReport:
        wanted = {
            CoreSchedGroup(GroupKind.LABEL, name) if name else NO_GROUP: tuple(
                Process("pod", pid, self._start(pid)) for pid in pids
            )
            for name, pids in groups.items()
        }
        report = self.sched.reconcile(wanted, cancel)
        names = {group.name: cookie for group, cookie in report.cookies.items()}
        return replace(report, cookies=names)


def made(kernel: KernelFilesystem) -> tuple[ByLabel, Recorder]:
    record = Recorder()
    return ByLabel(CoreSched(record, partial(held, kernel, "/proc"), kernel.prctl)), record


def test_a_group_shares_one_cookie_and_no_other_group_has_it() -> None:
    kernel = KernelFilesystem({1: 0, 2: 0, 3: 0, 4: 0})
    sched, record = made(kernel)
    report = sched.reconcile({"shop": (1, 2), "batch": (3,), "": (4,)})
    assert report == CoreSchedReport(created=2, shared=1, cookies={"batch": 0xABC1, "shop": 0xABC2})
    assert kernel.tasks == {1: 0xABC2, 2: 0xABC2, 3: 0xABC1, 4: 0}
    assert record.lines == [
        ("core scheduling cookie of 3", "0", "abc1", "group label batch"),
        ("core scheduling cookie of 1", "0", "abc2", "group label shop"),
        ("core scheduling cookie of 2", "0", "abc2", "group label shop"),
    ]


def test_what_is_right_is_not_touched_again_not_even_after_a_restart() -> None:
    kernel = KernelFilesystem({1: 0, 2: 0, 3: 0})
    wanted = {"shop": (1, 2), "batch": (3,)}
    sched, _ = made(kernel)
    first = sched.reconcile(wanted)
    before, writes = dict(kernel.tasks), kernel.writes
    again, record = made(kernel)
    for one in (sched, again):
        assert one.reconcile(wanted) == CoreSchedReport(cookies=first.cookies)
    assert (kernel.tasks, kernel.writes, record.lines) == (before, writes, [])


def test_tasks_of_no_group_lose_theirs() -> None:
    kernel = KernelFilesystem({1: 5, 2: 5, 3: 0})
    sched, record = made(kernel)
    assert sched.reconcile({"": (2, 3), "shop": (1,)}) == CoreSchedReport(
        cleared=1, cookies={"shop": 5}
    )
    assert kernel.tasks == {1: 5, 2: 0, 3: 0}
    assert record.lines == [("core scheduling cookie of 2", "5", "0", "in no group")]


def test_it_stops_between_two_tasks_and_the_next_time_goes_on() -> None:
    kernel = KernelFilesystem({1: 0, 2: 0, 3: 0, 4: 0, 5: 0})
    sched, record = made(kernel)
    cookie = sched.reconcile({"b": (4, 5)}).cookies["b"]
    # "b" now is two that share its cookie and one of "a": which keeps it is known from before.
    token, shares = CancelToken(lambda: 0.0, 1.0), kernel.writes

    def prctl(operation: int, pid: int, scope: int, address: int) -> None:
        kernel.prctl(operation, pid, scope, address)
        if kernel.writes == shares + 2:
            token.cancel()

    sched.sched._prctl = prctl
    groups = {"a": (1, 2, 3), "b": (4,), "c": (5,)}
    report = sched.reconcile(groups, token)
    [line] = report.errors
    assert line.startswith("core scheduling: it was cancelled")
    assert [one[0] for one in record.lines[2:]] == [
        "core scheduling cookie of 1",
        "core scheduling cookie of 2",
    ]
    assert kernel.tasks[3] == 0
    report = sched.reconcile(groups)
    assert report.errors == []
    assert report.cookies["b"] == cookie, "remembered, though it was not come to"
    assert kernel.tasks[1] == kernel.tasks[2] == kernel.tasks[3]
    assert len(set(report.cookies.values())) == 3


def test_a_cookie_two_groups_have_stays_where_it_was() -> None:
    kernel = KernelFilesystem({1: 0, 2: 0, 3: 0})
    sched, _ = made(kernel)
    cookie = sched.reconcile({"b": (1, 2, 3)}).cookies["b"]
    # Two of three go to another group: it is the one that gets a new cookie.
    report = sched.reconcile({"a": (1, 2), "b": (3,)})
    assert report.cookies["b"] == cookie
    assert report.cookies["a"] != cookie
    assert kernel.tasks[1] == kernel.tasks[2] == report.cookies["a"]


def test_after_a_restart_it_stays_where_most_tasks_have_it() -> None:
    kernel = KernelFilesystem({1: 5, 2: 5, 3: 5, 4: 6})
    sched, _ = made(kernel)
    report = sched.reconcile({"a": (1, 2), "b": (3, 4)})
    assert report == CoreSchedReport(shared=1, cookies={"a": 5, "b": 6})
    assert kernel.tasks == {1: 5, 2: 5, 3: 6, 4: 6}


@pytest.mark.parametrize("calls", range(4))
@pytest.mark.parametrize("who", [1, 2])
def test_a_task_that_ends_meanwhile_harms_nobody(who: int, calls: int) -> None:
    kernel = KernelFilesystem({1: 0, 2: 0, 3: 0}, ending={who: calls})
    sched, _ = made(kernel)
    assert sched.reconcile({"shop": (1, 2, 3)}).errors == []
    kernel.ending.clear()
    assert sched.reconcile({"shop": (1, 2, 3)}).errors == []
    assert len(set(kernel.tasks.values())) == 1
    assert 0 not in kernel.tasks.values()


def test_a_pid_that_was_used_again_is_not_in_the_group() -> None:
    kernel = KernelFilesystem({1: 0, 2: 7}, starts={2: 2})
    sched, _ = made(kernel)
    assert sched.reconcile({"shop": (1, 2)}) == CoreSchedReport(created=1, cookies={"shop": 0xABC1})
    assert kernel.tasks == {1: 0xABC1, 2: 7}


@pytest.mark.parametrize("operation", [GET, CREATE, SHARE_TO])
@pytest.mark.parametrize("who", [1, 2])
@pytest.mark.parametrize("theirs", [0, 7])
def test_a_pid_that_is_used_again_meanwhile_gets_nobody_into_the_group(
    who: int, operation: int, theirs: int
) -> None:
    """Another task that had a cookie may lose it, and get it back in the next round."""
    kernel = KernelFilesystem({1: 0, 2: 0, 3: 0}, reused={who: (operation, theirs)})
    sched, _ = made(kernel)
    report = sched.reconcile({"shop": (1, 2, 3)})
    assert not report.errors
    pending = {pid: cookie for pid, cookie in kernel.tasks.items() if pid not in kernel.starts}
    assert set(pending.values()) == {report.cookies["shop"]}
    if kernel.starts:
        assert kernel.tasks[who] in ({theirs} if not report.mistaken else {0})
        assert report.mistaken in ([], [who])


def test_a_task_that_may_not_be_touched_is_reported_and_the_others_go_on() -> None:
    kernel = KernelFilesystem({1: 0, 2: 0, 3: 0}, protected={1})
    report = made(kernel)[0].reconcile({"shop": (1, 2, 3)})
    assert report.errors == [
        "core scheduling cookie of 1: [Errno 1] Operation not permitted (left as it is)"
    ]
    assert (report.created, report.shared) == (1, 1)


def test_no_thread_of_the_agent_keeps_a_cookie() -> None:
    kernel = KernelFilesystem({1: 0, 2: 0})
    sched, _ = made(kernel)
    assert sched.sched.available() == (True, "")
    cookie = sched.reconcile({"shop": (1, 2), "gone": (3,), "empty": ()}).cookies["shop"]
    kernel.tasks[7] = 0
    shared = CoreSchedReport(shared=1, cookies={"shop": cookie})
    assert sched.reconcile({"shop": (7, 1, 2)}) == shared
    assert kernel.taken == {cookie}
    assert [thread for thread in threading.enumerate() if kernel.own.get(thread)] == []


def test_an_agent_with_a_cookie_changes_nothing() -> None:
    kernel = KernelFilesystem({1: 0, 2: 7})

    def prctl(operation: int, pid: int, scope: int, address: int) -> None:
        kernel.own.setdefault(threading.current_thread(), 9)
        kernel.prctl(operation, pid, scope, address)

    report = ByLabel(CoreSched(Recorder(), partial(held, kernel, "/proc"), prctl)).reconcile(
        {"shop": (1,), "": (2,)}
    )
    [error] = report.errors
    assert "the agent itself has a cookie" in error
    assert kernel.writes == 0


@pytest.mark.parametrize(
    ("lacks", "reason"),
    [
        ("configured", "the kernel has no core scheduling (CONFIG_SCHED_CORE)"),
        ("smt", "the CPUs have one thread a core (SMT is off or not there)"),
    ],
)
def test_where_it_is_not_available_it_says_why(lacks: str, reason: str) -> None:
    sched, _ = made(KernelFilesystem(**{lacks: False}))  # type: ignore[arg-type]
    assert sched.sched.available() == (False, reason)
    [error] = sched.reconcile({"shop": (1,)}).errors
    assert reason in error


@given(
    st.dictionaries(st.integers(1, 12), st.integers(0, 4), max_size=12),
    st.lists(st.dictionaries(st.integers(1, 12), st.sampled_from(["", "a", "b", "c"])), max_size=4),
)
def test_whatever_was_there_groups_end_up_apart(
    tasks: dict[int, int], rounds: list[dict[int, str]]
) -> None:
    kernel = KernelFilesystem(dict(tasks))
    sched, _ = made(kernel)
    for placed in rounds:
        groups: dict[str, tuple[int, ...]] = {}
        for pid, name in placed.items():
            groups[name] = (*groups.get(name, ()), pid)
        report = sched.reconcile(groups)
        assert report.errors == []
        of_group = {
            name: {kernel.tasks[pid] for pid in pids if pid in kernel.tasks}
            for name, pids in groups.items()
        }
        assert of_group.pop("", {0}) <= {0}
        shown = [cookies for cookies in of_group.values() if cookies]
        assert all(len(cookies) == 1 and 0 not in cookies for cookies in shown)
        assert len(set.union(set(), *shown)) == len(shown), "each group has another"
        writes = kernel.writes
        sched.reconcile(groups)
        assert kernel.writes == writes


class TestTheRealKernel:
    def test_it_says_whether_it_can(self) -> None:
        can, reason = CoreSched(Recorder(), partial(held, RealKernel(), "/proc")).available()
        assert can is not bool(reason)

    def test_processes_get_cookies_and_lose_them(self) -> None:
        can, reason = CoreSched(Recorder(), partial(held, RealKernel(), "/proc")).available()
        if not can:
            pytest.skip(f"no core scheduling here: {reason}")
        started = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
        try:
            a, b, c = (one.pid for one in started)
            sched = ByLabel(CoreSched(Recorder(), partial(held, RealKernel(), "/proc")), real_start)
            report = sched.reconcile({"x": (a, b), "y": (c,)})
            if any("Operation not permitted" in error for error in report.errors):
                pytest.skip("may not trace other processes (CAP_SYS_PTRACE)")
            assert (report.created, report.shared, report.errors) == (2, 1, [])
            assert cookie_of(a) == cookie_of(b) == report.cookies["x"]
            assert cookie_of(c) == report.cookies["y"] != report.cookies["x"]
            assert cookie_of(0) == cookie_of(os.getpid()) == 0
            assert sched.reconcile({"x": (a, b), "y": (c,)}) == CoreSchedReport(
                cookies=report.cookies
            )
            assert sched.reconcile({"": (a, b, c)}).cleared == 3
            assert {cookie_of(pid) for pid in (a, b, c)} == {0}
        finally:
            for one in started:
                one.kill()
                one.wait()


def real_start(pid: int) -> int:
    return start_time(RealKernel().read(f"/proc/{pid}/stat"))


def cookie_of(pid: int) -> int:
    number = ctypes.c_uint64()
    system_prctl(GET, pid, THREAD, ctypes.addressof(number))
    return number.value
