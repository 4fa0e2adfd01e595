"""The executor on this machine's own cgroups (v1), in groups of its own, removed afterwards."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from koord_host import detect
from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import KNOBS
from koord_host.planning.outcomes import Outcome
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import Journal
from koord_host.resource_executor.restore import RestoreOutcome, restore

from tests.host.conftest import HOOKS, STRATEGY, desired, make_executor

ROOT = Path("/sys/fs/cgroup")
SUBSYSTEMS = ("cpu", "cpuset", "memory")


def _why_not() -> str:
    if os.geteuid() != 0:
        return "needs root"
    if not all((ROOT / name / "cgroup.procs").exists() for name in SUBSYSTEMS):
        return "needs cgroup v1"
    return ""


pytestmark = pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "-")

QUOTA, PERIOD, SHARES = "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares"
BURST, IDLE, CPUS = "cpu.cfs_burst_us", "cpu.idle", "cpuset.cpus"
LIMIT, MEMSW = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
LAYOUT = Layout(1, Driver.CGROUPFS)
FINE = {Outcome.WRITTEN, Outcome.UNCHANGED}


class Groups:
    """Cgroups below one of our own, in all hierarchies used here."""

    def __init__(self) -> None:
        self.top = f"pykoord-test-{os.getpid()}"
        self.kernel = KernelFilesystem()
        self._made: list[str] = []

    def make(self, *names: str) -> None:
        for name in names:
            group = f"{self.top}/{name}".rstrip("/")
            for subsystem in SUBSYSTEMS:
                self.kernel.make_directory(LAYOUT.group_path(group, subsystem))
                self._made.append(LAYOUT.group_path(group, subsystem))
            directory = LAYOUT.group_path(group, "cpuset")
            for file in ("cpuset.cpus", "cpuset.mems"):
                above = self.kernel.read(f"{directory.rpartition('/')[0]}/{file}")
                self.kernel.write(f"{directory}/{file}", above)

    def clean(self) -> None:
        for path in reversed(self._made):
            with contextlib.suppress(FileNotFoundError):
                self.kernel.remove_directory(path)

    def values(self, *knobs: str) -> list[str]:
        """What pod and container have of each."""
        places = (f"{self.top}/pod", f"{self.top}/pod/c")
        paths = (LAYOUT.path(KNOBS[knob], place) for knob in knobs for place in places)
        return [self.kernel.read(path).strip() for path in paths]


@pytest.fixture
def groups() -> Iterator[Groups]:
    found = Groups()
    try:
        found.make("", "pod", "pod/c")
        yield found
    finally:
        found.clean()


@pytest.fixture
def executor(groups: Groups, tmp_path: Path) -> Iterator[Executor]:
    baselines = BaselineStore(str(tmp_path / "o.db"), boot=detect.boot(groups.kernel))
    yield make_executor(groups.kernel, LAYOUT, None, baselines, monotonic=time.monotonic)
    baselines.close()


def test_cpusets_move(groups: Groups, executor: Executor) -> None:
    if groups.kernel.read(str(ROOT / "cpuset/cpuset.cpus")).strip() in ("", "0"):
        pytest.skip("needs two CPUs")
    places = [groups.top, f"{groups.top}/pod", f"{groups.top}/pod/c"]
    for cpus in ("0", "1", "0-1", "1"):
        executor.set_desired(HOOKS, "test", tuple(desired(place, CPUS, cpus) for place in places))
        found = executor.apply()
        assert {one.outcome for one in found.results} <= FINE, found
        assert groups.values(CPUS) == [cpus] * 2
    executor.set_desired(HOOKS, "test", (desired(f"{groups.top}/pod", CPUS, "0"),))
    result = executor.apply().results[-1]
    assert (result.outcome, result.errno) == (Outcome.REFUSED, errno.EBUSY)
    assert result.reason == f"Device or resource busy: {groups.top}/pod/c has 1"


@pytest.mark.parametrize("by", ["executor", "restore"])
def test_what_a_strategy_changed_is_put_back(groups: Groups, executor: Executor, by: str) -> None:
    pod, container = f"{groups.top}/pod", f"{groups.top}/pod/c"
    before = groups.values(QUOTA, SHARES, CPUS, IDLE, LIMIT)
    for quota in (30_000, 20_000, 50_000):
        executor.set_desired(STRATEGY, "test", (
            *(desired(place, QUOTA, quota) for place in (pod, container)),
            *(desired(place, PERIOD, 2 * quota) for place in (pod, container)),
            *(desired(place, CPUS, "0") for place in (pod, container)),
            *(desired(place, LIMIT, quota << 12) for place in (pod, container)),
            desired(pod, SHARES, 300), desired(container, IDLE, 1),
        ))  # fmt: skip
        found = executor.apply()
        assert {one.outcome for one in found.results} <= FINE, found
    assert groups.values(QUOTA, CPUS) == ["50000"] * 2 + ["0"] * 2
    baselines = executor._baselines
    if by == "executor":
        executor.forget(STRATEGY, "test")
        assert {one.outcome for one in executor.apply().results} <= FINE
    else:
        report = restore(groups.kernel, LAYOUT, baselines, Journal("", print), time.time)
        fine = {RestoreOutcome.RESTORED, RestoreOutcome.UNCHANGED}
        assert {one.outcome for one in report} <= fine
    assert groups.values(QUOTA, SHARES, CPUS, IDLE, LIMIT) == before
    assert len(baselines) == 0


DISK = Path("/dev/vda")


@pytest.mark.skipif(not DISK.is_block_device(), reason=f"needs {DISK}")
def test_a_disks_limit_is_put_back() -> None:
    kernel = KernelFilesystem()
    number = Path("/sys/class/block/vda/dev").read_text().strip()
    knob, place = "blkio.throttle.read_bps_device", f"pykoord-test-{os.getpid()}"
    directory = LAYOUT.group_path(place, "blkio")
    kernel.make_directory(directory)
    try:
        executor = make_executor(kernel, LAYOUT, monotonic=time.monotonic)
        executor.set_desired(STRATEGY, "test", (desired(place, knob, f"{number} 1048576"),))
        assert executor.apply().results[0].outcome is Outcome.WRITTEN
        assert kernel.read(f"{directory}/{knob}") == f"{number} 1048576\n"
        executor.forget(STRATEGY, "test")
        assert executor.apply().results[0].outcome is Outcome.WRITTEN
        assert kernel.read(f"{directory}/{knob}") == ""
    finally:
        kernel.remove_directory(directory)
