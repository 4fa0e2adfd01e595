"""The system call itself with a clock as event, which every kernel has; and what is computed."""

from __future__ import annotations

import errno
import os
import resource
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from koord_host import perf_events
from koord_host.perf_events import CounterWindow, PerfEvents, descriptor_budget

CLOCKS = ((1, 0), (1, 1))
"""PERF_TYPE_SOFTWARE: PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK; nanoseconds."""
HIERARCHIES = ("/sys/fs/cgroup/perf_event", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(scope="module")
def cgroup() -> str:
    """A cgroup on which events can be opened here."""
    refused = "no cgroup hierarchy here"
    for path in HIERARCHIES:
        if path.endswith("perf_event") or Path(path, "cgroup.controllers").exists():
            try:
                PerfEvents(64, CLOCKS).start(path, [0]).close()
            except OSError as error:
                refused = f"{path}: {error}"
            else:
                return path
    pytest.skip(f"perf_event_open in cgroup mode cannot be used here: {refused}")


def cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def test_time_on_the_cpus_is_counted_from_open_to_close(cgroup: str) -> None:
    before = open_files()
    window = PerfEvents(64, CLOCKS).start(cgroup, cpus())
    assert open_files() == before + 2 * len(cpus())
    sum(range(200_000))
    clock, _ = window.close()
    assert clock > 0
    assert open_files() == before


def test_descriptors_are_not_inherited_by_programs_that_are_started(cgroup: str) -> None:
    known = set(os.listdir("/proc/self/fd"))
    window = PerfEvents(64, CLOCKS).start(cgroup, cpus()[:1])
    new = [int(one) for one in set(os.listdir("/proc/self/fd")) - known]
    assert not any(os.get_inheritable(one) for one in new if os.path.exists(f"/proc/self/fd/{one}"))
    window.close()


def test_a_cpu_that_is_offline_is_passed_over(cgroup: str) -> None:
    possible = Path("/sys/devices/system/cpu/possible").read_text().strip().rpartition("-")[2]
    absent = int(possible) + 1
    before = open_files()
    with pytest.raises(OSError, match="Errno") as refused:
        PerfEvents(64, CLOCKS).start(cgroup, [absent])
    assert refused.value.errno in (errno.ENODEV, errno.EINVAL)
    if refused.value.errno == errno.ENODEV:  # else the kernel knows no such number at all
        PerfEvents(64, CLOCKS).start(cgroup, [*cpus(), absent]).close()
    assert open_files() == before


def test_an_event_that_the_kernel_has_not_leaves_nothing_open(cgroup: str) -> None:
    before = open_files()
    with pytest.raises(OSError, match="Errno") as refused:
        PerfEvents(64, ((1, 0), (1, 9999))).start(cgroup, cpus())
    assert refused.value.filename is None
    assert open_files() == before


def test_this_machines_processor_counts_or_says_that_it_does_not(cgroup: str) -> None:
    window, refused = None, None
    try:
        window = PerfEvents().start(cgroup, cpus())
    except OSError as error:
        refused = error
    if window is None:
        assert refused is not None
        assert refused.filename is None
        assert refused.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.EACCES, errno.EPERM)
        pytest.skip(f"no hardware counters: {refused}")
    sum(range(100_000))
    cycles, instructions = window.close()
    assert cycles > 0
    assert instructions > 0


def test_a_directory_that_is_no_cgroup_is_refused_and_one_that_is_gone_named(
    tmp_path: Path,
) -> None:
    with pytest.raises(OSError, match="Errno") as refused:
        PerfEvents(64, CLOCKS).start(str(tmp_path), [0])
    assert refused.value.filename is None
    assert refused.value.errno in (errno.EBADF, errno.EACCES, errno.EPERM, errno.ENOSYS)
    with pytest.raises(FileNotFoundError) as gone:
        PerfEvents(64).start(str(tmp_path / "gone"), [0])
    assert gone.value.filename == str(tmp_path / "gone")


def test_a_machine_whose_call_number_is_unknown_has_no_such_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(perf_events.platform, "machine", lambda: "m68k")
    with pytest.raises(OSError, match="Errno") as refused:
        PerfEvents(64).start(str(tmp_path), [0])
    assert refused.value.errno == errno.ENOSYS


@pytest.mark.parametrize(
    ("soft", "budget"),
    [(1024, 512), (16384, 8192), (1 << 20, 8192), (resource.RLIM_INFINITY, 8192)],
)
def test_the_budget_is_half_of_what_is_allowed_but_bounded(
    monkeypatch: pytest.MonkeyPatch, soft: int, budget: int
) -> None:
    monkeypatch.setattr(perf_events.resource, "getrlimit", lambda _: (soft, soft))
    assert descriptor_budget() == PerfEvents().budget == budget


@pytest.fixture
def leaders() -> Iterator[list[int]]:
    """Filled with pipes that are read instead of counters."""
    opened: list[int] = []
    yield opened
    for one in opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.close(one)  # the window closed it


def reading(*numbers: int) -> int:
    read, write = os.pipe()
    os.write(write, struct.pack(f"={len(numbers)}Q", *numbers))
    os.close(write)
    return read


@pytest.mark.parametrize(
    ("readings", "counted"),
    [
        ([(2, 100, 100, 3000, 1500)], (3000.0, 1500.0)),
        ([(2, 100, 25, 3000, 1500)], (12000.0, 6000.0)),  # a quarter of the time
        ([(2, 100, 100, 10, 5), (2, 200, 100, 10, 5)], (30.0, 15.0)),  # each CPU by itself
        ([(2, 0, 0, 0, 0)], (0.0, 0.0)),  # never ran
        ([(2, 0, 0, 8, 4)], (8.0, 4.0)),  # without times
        ([(2, 100, 0, 0, 0), (2, 100, 100, 8, 4)], (8.0, 4.0)),  # one CPU starved
        ([(1, 100, 100, 8), (2, 100, 100, 8, 4)], (8.0, 4.0)),  # half a group
        ([(), (2, 100, 100, 8, 4)], (8.0, 4.0)),  # offline meanwhile
        ([], (0.0, 0.0)),
    ],
)
def test_counts_are_scaled_by_the_time_they_counted(
    leaders: list[int], readings: list[tuple[int, ...]], counted: tuple[float, float]
) -> None:
    leaders += [reading(*one) for one in readings]
    window = CounterWindow(list(leaders), [])
    assert window.close() == counted
    assert window.close() == (0.0, 0.0), "closes nothing of others"


def test_counters_that_others_hold_all_the_time_are_said(leaders: list[int]) -> None:
    leaders.append(reading(2, 100, 0, 0, 0))
    with pytest.raises(OSError, match="held by others") as refused:
        CounterWindow(list(leaders), []).close()
    assert refused.value.errno == errno.EBUSY
