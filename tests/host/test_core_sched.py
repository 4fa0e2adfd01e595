"""Cookies, on a kernel that behaves as kernel/sched/core_sched.c does, and on the real one."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import threading
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.core_sched import CoreSched, Report, system_prctl

GET, CREATE, SHARE_TO, SHARE_FROM = range(4)
THREAD, THREAD_GROUP, PROCESS_GROUP = range(3)


@dataclass
class Kernel:
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

    def _end(self, pid: int) -> None:
        """A task that is to end after so many calls about it."""
        if pid in self.ending:
            self.ending[pid] -= 1
            if self.ending[pid] < 0:
                self.tasks.pop(pid, None)


class Recorder:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str, str]] = []

    def __call__(self, what: str, old: str, new: str, why: str) -> None:
        self.lines.append((what, old, new, why))


def made(kernel: Kernel) -> tuple[CoreSched, Recorder]:
    record = Recorder()
    return CoreSched(record, kernel.prctl), record


def test_a_group_shares_one_cookie_and_no_other_group_has_it() -> None:
    kernel = Kernel({1: 0, 2: 0, 3: 0, 4: 0})
    sched, record = made(kernel)
    report = sched.level({"shop": (1, 2), "batch": (3,), "": (4,)})
    assert report == Report(created=2, shared=1, cookies={"batch": 0xABC1, "shop": 0xABC2})
    assert kernel.tasks == {1: 0xABC2, 2: 0xABC2, 3: 0xABC1, 4: 0}
    assert record.lines == [
        ("core scheduling cookie of 3", "0", "abc1", "group batch"),
        ("core scheduling cookie of 1", "0", "abc2", "group shop"),
        ("core scheduling cookie of 2", "0", "abc2", "group shop"),
    ]


def test_what_is_right_is_not_touched_again_not_even_after_a_restart() -> None:
    kernel = Kernel({1: 0, 2: 0, 3: 0})
    wanted = {"shop": (1, 2), "batch": (3,)}
    sched, _ = made(kernel)
    first = sched.level(wanted)
    before, writes = dict(kernel.tasks), kernel.writes
    again, record = made(kernel)
    for one in (sched, again):
        assert one.level(wanted) == Report(cookies=first.cookies)
    assert (kernel.tasks, kernel.writes, record.lines) == (before, writes, [])


def test_new_tasks_get_the_groups_cookie() -> None:
    kernel = Kernel({1: 0})
    sched, _ = made(kernel)
    cookie = sched.level({"shop": (1,)}).cookies["shop"]
    kernel.tasks[7] = 0
    assert sched.level({"shop": (7, 1)}) == Report(shared=1, cookies={"shop": cookie})
    assert kernel.tasks == {1: cookie, 7: cookie}


def test_tasks_of_no_group_lose_theirs() -> None:
    kernel = Kernel({1: 5, 2: 5, 3: 0})
    sched, record = made(kernel)
    assert sched.level({"": (2, 3), "shop": (1,)}) == Report(cleared=1, cookies={"shop": 5})
    assert kernel.tasks == {1: 5, 2: 0, 3: 0}
    assert record.lines == [("core scheduling cookie of 2", "5", "0", "in no group")]


def test_a_cookie_two_groups_have_stays_where_it_was() -> None:
    kernel = Kernel({1: 0, 2: 0, 3: 0})
    sched, _ = made(kernel)
    cookie = sched.level({"b": (1, 2, 3)}).cookies["b"]
    # Two of three go to another group: it is the one that gets a new cookie.
    report = sched.level({"a": (1, 2), "b": (3,)})
    assert report.cookies["b"] == cookie
    assert report.cookies["a"] != cookie
    assert kernel.tasks[1] == kernel.tasks[2] == report.cookies["a"]


def test_after_a_restart_it_stays_where_most_tasks_have_it() -> None:
    kernel = Kernel({1: 5, 2: 5, 3: 5, 4: 6})
    sched, _ = made(kernel)
    report = sched.level({"a": (1, 2), "b": (3, 4)})
    assert report == Report(shared=1, cookies={"a": 5, "b": 6})
    assert kernel.tasks == {1: 5, 2: 5, 3: 6, 4: 6}


@pytest.mark.parametrize("calls", range(4))
@pytest.mark.parametrize("who", [1, 2])
def test_a_task_that_ends_meanwhile_harms_nobody(who: int, calls: int) -> None:
    kernel = Kernel({1: 0, 2: 0, 3: 0}, ending={who: calls})
    sched, _ = made(kernel)
    assert sched.level({"shop": (1, 2, 3)}).errors == []
    kernel.ending.clear()
    assert sched.level({"shop": (1, 2, 3)}).errors == []
    assert len(set(kernel.tasks.values())) == 1
    assert 0 not in kernel.tasks.values()


def test_a_group_without_living_tasks_is_nothing() -> None:
    kernel = Kernel()
    assert made(kernel)[0].level({"shop": (1, 2), "empty": (), "": (3,)}) == Report()


def test_a_task_that_may_not_be_touched_is_told_and_the_others_go_on() -> None:
    kernel = Kernel({1: 0, 2: 0, 3: 0}, protected={1})
    report = made(kernel)[0].level({"shop": (1, 2, 3)})
    assert report.errors == [
        "core scheduling cookie of 1: [Errno 1] Operation not permitted (left as it is)"
    ]
    assert (report.created, report.shared) == (1, 1)


def test_no_thread_of_the_agent_keeps_a_cookie() -> None:
    kernel = Kernel({1: 0, 2: 0})
    sched, _ = made(kernel)
    sched.level({"shop": (1, 2)})
    assert kernel.taken == {sched.level({"shop": (1, 2)}).cookies["shop"]}
    assert [thread for thread in threading.enumerate() if kernel.own.get(thread)] == []


def test_an_agent_with_a_cookie_changes_nothing() -> None:
    kernel = Kernel({1: 0, 2: 7})

    def prctl(operation: int, pid: int, scope: int, address: int) -> None:
        kernel.own.setdefault(threading.current_thread(), 9)
        kernel.prctl(operation, pid, scope, address)

    report = CoreSched(Recorder(), prctl).level({"shop": (1,), "": (2,)})
    [error] = report.errors
    assert "the agent itself has a cookie" in error
    assert kernel.writes == 0


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (Kernel(configured=False), "the kernel has no core scheduling (CONFIG_SCHED_CORE)"),
        (Kernel(smt=False), "the CPUs have one thread a core (SMT is off or not there)"),
    ],
)
def test_where_it_is_not_available_it_says_why(kernel: Kernel, reason: str) -> None:
    sched, _ = made(kernel)
    assert sched.available() == (False, reason)
    [error] = sched.level({"shop": (1,)}).errors
    assert reason in error


def test_available() -> None:
    assert made(Kernel())[0].available() == (True, "")


@given(
    st.dictionaries(st.integers(1, 12), st.integers(0, 4), max_size=12),
    st.lists(st.dictionaries(st.integers(1, 12), st.sampled_from(["", "a", "b", "c"])), max_size=4),
)
def test_whatever_was_there_groups_end_up_apart(
    tasks: dict[int, int], rounds: list[dict[int, str]]
) -> None:
    kernel = Kernel(dict(tasks))
    sched, _ = made(kernel)
    for placed in rounds:
        groups: dict[str, tuple[int, ...]] = {}
        for pid, name in placed.items():
            groups[name] = (*groups.get(name, ()), pid)
        report = sched.level(groups)
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
        sched.level(groups)
        assert kernel.writes == writes


class TestTheRealKernel:
    def test_it_says_whether_it_can(self) -> None:
        can, reason = CoreSched(Recorder()).available()
        assert can is not bool(reason)

    def test_processes_get_cookies_and_lose_them(self) -> None:
        can, reason = CoreSched(Recorder()).available()
        if not can:
            pytest.skip(f"no core scheduling here: {reason}")
        started = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
        try:
            a, b, c = (one.pid for one in started)
            sched = CoreSched(Recorder())
            report = sched.level({"x": (a, b), "y": (c,)})
            if any("Operation not permitted" in error for error in report.errors):
                pytest.skip("may not trace other processes (CAP_SYS_PTRACE)")
            assert (report.created, report.shared, report.errors) == (2, 1, [])
            assert cookie_of(a) == cookie_of(b) == report.cookies["x"]
            assert cookie_of(c) == report.cookies["y"] != report.cookies["x"]
            assert cookie_of(0) == cookie_of(os.getpid()) == 0
            assert sched.level({"x": (a, b), "y": (c,)}) == Report(cookies=report.cookies)
            assert sched.level({"": (a, b, c)}).cleared == 3
            assert {cookie_of(pid) for pid in (a, b, c)} == {0}
        finally:
            for one in started:
                one.kill()
                one.wait()


def cookie_of(pid: int) -> int:
    number = ctypes.c_uint64()
    system_prctl(GET, pid, THREAD, ctypes.addressof(number))
    return number.value
