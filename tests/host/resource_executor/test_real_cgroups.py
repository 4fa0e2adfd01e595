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
from koord_host.planning.desired_values import DesiredValue, Target
from koord_host.planning.outcomes import Outcome, Round
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import Journal, read
from koord_host.resource_executor.restore import RestoreOutcome, restore

from tests.host.conftest import HOOKS, STRATEGY, desired

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

    def remove(self, name: str) -> None:
        for subsystem in SUBSYSTEMS:
            self.kernel.remove_directory(LAYOUT.group_path(f"{self.top}/{name}", subsystem))

    def clean(self) -> None:
        for path in reversed(self._made):
            with contextlib.suppress(FileNotFoundError):
                self.kernel.remove_directory(path)

    def value(self, group: str, knob: str) -> str:
        return self.kernel.read(LAYOUT.path(KNOBS[knob], f"{self.top}/{group}".rstrip("/"))).strip()


class Node:
    """An executor on them."""

    def __init__(self, groups: Groups, directory: Path) -> None:
        self.journal_path = str(directory / "journal.jsonl")
        self.journal = Journal(self.journal_path, print)
        self.baselines = BaselineStore(
            str(directory / "originals.db"), print, boot=detect.boot(groups.kernel)
        )
        self.ahead = 0.0
        self.executor = Executor(
            groups.kernel,
            LAYOUT,
            self.journal,
            self.baselines,
            clock=time.time,
            monotonic=lambda: time.monotonic() + self.ahead,
        )

    def set_desired(self, *desired_values: DesiredValue) -> Round:
        self.executor.set_desired(HOOKS, "test", desired_values)
        return self.executor.apply()


@pytest.fixture
def groups() -> Iterator[Groups]:
    found = Groups()
    try:
        found.make("", "pod", "pod/c")
        yield found
    finally:
        found.clean()


@pytest.fixture
def node(groups: Groups, tmp_path: Path) -> Iterator[Node]:
    found = Node(groups, tmp_path)
    yield found
    found.journal.close()
    found.baselines.close()


def all_written(found: Round) -> bool:
    return {one.outcome for one in found.results} <= {Outcome.WRITTEN, Outcome.UNCHANGED}


def test_quotas_widen_and_narrow(groups: Groups, node: Node) -> None:
    places = [groups.top, f"{groups.top}/pod", f"{groups.top}/pod/c"]
    for quota, period in ((50_000, 100_000), (20_000, 100_000), (180_000, 200_000), (-1, 100_000)):
        desired_values = [desired(place, QUOTA, quota) for place in places]
        desired_values += [desired(place, PERIOD, period) for place in places]
        burst = 0 if quota == -1 else quota // 2
        desired_values += [desired(place, BURST, burst) for place in places]
        found = node.set_desired(*desired_values)
        assert all_written(found), found
        assert [groups.value(name, QUOTA) for name in ("", "pod", "pod/c")] == [str(quota)] * 3


def test_cpusets_move(groups: Groups, node: Node) -> None:
    online = groups.kernel.read(str(ROOT / "cpuset/cpuset.cpus")).strip()
    if online in ("", "0"):
        pytest.skip("needs two CPUs")
    places = [groups.top, f"{groups.top}/pod", f"{groups.top}/pod/c"]
    for cpus in ("0", "1", "0-1", "1"):
        found = node.set_desired(*(desired(place, CPUS, cpus) for place in places))
        assert all_written(found), found
        assert groups.value("pod/c", CPUS) == cpus
    result = node.set_desired(desired(f"{groups.top}/pod", CPUS, "0")).results[-1]
    assert (result.outcome, result.errno) == (Outcome.REFUSED, errno.EBUSY)
    assert result.reason == f"Device or resource busy: {groups.top}/pod/c has 1"


def test_memory_limits(groups: Groups, node: Node) -> None:
    place = f"{groups.top}/pod"
    swaps = (Path(ROOT) / "memory/memory.memsw.limit_in_bytes").exists()
    for limit in (1 << 26, 1 << 28, 10_000_000, 1 << 27):
        desired_values = [desired(place, LIMIT, limit)]
        if swaps:
            desired_values.append(desired(place, MEMSW, limit))
        found = node.set_desired(*desired_values)
        assert all_written(found), found
    # Nobody wishes the limit with swap any more: it still gives room.
    assert all_written(node.set_desired(desired(place, LIMIT, 1 << 29)))
    assert groups.value("pod", LIMIT) == str(1 << 29)


def test_idle_and_shares(groups: Groups, node: Node) -> None:
    if not Path(LAYOUT.path(KNOBS[IDLE], groups.top)).exists():
        pytest.skip("this kernel has no cpu.idle")
    place = f"{groups.top}/pod"
    node.set_desired(desired(place, SHARES, 512), desired(place, IDLE, 1))
    assert groups.value("pod", IDLE) == "1"
    assert all_written(node.set_desired(desired(place, SHARES, 512), desired(place, IDLE, 0)))
    assert groups.value("pod", SHARES) == "512"


def test_restored(groups: Groups, node: Node) -> None:
    places = [f"{groups.top}/pod", f"{groups.top}/pod/c"]
    before = [
        groups.value(name, knob) for name in ("pod", "pod/c") for knob in (QUOTA, SHARES, CPUS)
    ]
    node.set_desired(
        *(desired(place, QUOTA, 30_000) for place in places),
        *(desired(place, SHARES, 300) for place in places),
        *(desired(place, CPUS, "0") for place in places),
        desired(places[1], IDLE, 1),
    )
    report = restore(groups.kernel, LAYOUT, node.baselines, node.journal, time.time)
    assert {one.outcome for one in report} == {RestoreOutcome.RESTORED}
    after = [
        groups.value(name, knob) for name in ("pod", "pod/c") for knob in (QUOTA, SHARES, CPUS)
    ]
    assert after == before
    assert {one.owner for one in read(node.journal_path)} == {"hooks", "restore"}


def test_a_group_that_goes_half_way(groups: Groups, node: Node) -> None:
    real = groups.kernel.write_and_read

    def write_and_read(path: str, text: str) -> str:
        groups.kernel.write_and_read = real  # type: ignore[method-assign]
        groups.remove("pod/c")
        return real(path, text)

    groups.kernel.write_and_read = write_and_read  # type: ignore[method-assign]
    pod, container = f"{groups.top}/pod", f"{groups.top}/pod/c"
    found = node.set_desired(desired(container, QUOTA, 30_000), desired(pod, SHARES, 300))
    assert {one.target: one.outcome for one in found.results} == {
        Target(container, QUOTA): Outcome.GONE,
        Target(pod, SHARES): Outcome.WRITTEN,
    }


def test_what_a_strategy_wished_is_put_back(groups: Groups, tmp_path: Path) -> None:
    node = Node(groups, tmp_path)
    pod, container = f"{groups.top}/pod", f"{groups.top}/pod/c"
    cpus, shares = groups.value("pod", CPUS), groups.value("pod", SHARES)
    desired_values = (
        desired(pod, CPUS, "0"),
        desired(container, CPUS, "0"),
        desired(pod, IDLE, 1),
        desired(pod, QUOTA, 30_000),
        desired(container, QUOTA, 20_000),
    )
    node.executor.set_desired(STRATEGY, "test", desired_values)
    assert {one.outcome for one in node.executor.apply().results} <= FINE
    assert [groups.value("pod", knob) for knob in (CPUS, IDLE)] == ["0", "1"]
    node.executor.forget(STRATEGY, "test")
    assert {one.outcome for one in node.executor.apply().results} <= FINE
    assert [groups.value(name, CPUS) for name in ("pod", "pod/c")] == [cpus] * 2
    assert [groups.value("pod", knob) for knob in (SHARES, QUOTA)] == [shares, "-1"]
    assert len(node.baselines) == 0


DISK = Path("/dev/vda")


@pytest.mark.skipif(not DISK.is_block_device(), reason=f"needs {DISK}")
def test_a_disks_limit_is_put_back(tmp_path: Path) -> None:
    kernel = KernelFilesystem()
    number = Path("/sys/class/block/vda/dev").read_text().strip()
    knob, place = "blkio.throttle.read_bps_device", f"pykoord-test-{os.getpid()}"
    directory = LAYOUT.group_path(place, "blkio")
    kernel.make_directory(directory)
    try:
        executor = Executor(
            kernel,
            LAYOUT,
            Journal("", print),
            BaselineStore("", print),
            clock=time.time,
            monotonic=time.monotonic,
        )
        executor.set_desired(STRATEGY, "test", (desired(place, knob, f"{number} 1048576"),))
        assert executor.apply().results[0].outcome is Outcome.WRITTEN
        assert kernel.read(f"{directory}/{knob}") == f"{number} 1048576\n"
        executor.forget(STRATEGY, "test")
        assert executor.apply().results[0].outcome is Outcome.WRITTEN
        assert kernel.read(f"{directory}/{knob}") == ""
    finally:
        kernel.remove_directory(directory)
