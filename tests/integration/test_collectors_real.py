"""What collectors say of cgroups of this machine's own (v1), beside what the kernel says."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver, Layout
from koord_model.pod import Container, Pod
from koordlet.metrics_advisor.collectors import pagecache, podresource, podthrottled
from koordlet.metrics_advisor.contract.collector import CollectContext, CollectorSources
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.processes import PATIENCE, until

LAYOUT = Layout(1, Driver.CGROUPFS)
SUBSYSTEMS = ("cpu", "cpuacct", "memory")
TOP = f"pykoord-test-collectors-{os.getpid()}"
MIB = 1 << 20

BURN = f"""\
held = bytearray(64 * {MIB})
for place in range(0, len(held), 4096):
    held[place] = 1
print(flush=True)
while True:
    pass
"""
"""Takes 64 MiB, says so, and burns a CPU."""


def _why_not() -> str:
    if os.geteuid() != 0:
        return "needs root"
    if not all(os.path.exists(f"/sys/fs/cgroup/{one}/cgroup.procs") for one in SUBSYSTEMS):
        return "needs cgroup v1"
    return ""


pytestmark = pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "-")


@pytest.fixture
def pod() -> Iterator[PodRecord]:
    """A pod with cgroups. Its container may use a fifth of a CPU: a busy machine leaves it more."""
    kernel, made = KernelFilesystem(), []
    one = Pod("burner", "ns", "u1", cgroup_parent=f"{TOP}/podu1")
    try:
        for subsystem in SUBSYSTEMS:
            for group in (TOP, f"{TOP}/podu1", f"{TOP}/podu1/c1"):
                directory = LAYOUT.group_path(group, subsystem)
                kernel.make_directory(directory)
                made.append(directory)
        quota = LAYOUT.group_path(f"{TOP}/podu1/c1", "cpu") + "/cpu.cfs_quota_us"
        kernel.write(quota, "20000")
        yield PodRecord(one, {"c1": Container(one, "main", "c1")})
    finally:
        for directory in reversed(made):
            # Tasks that have ended leave their group a moment later.
            for _ in range(6000):
                with contextlib.suppress(OSError):
                    kernel.remove_directory(directory)
                    break
                time.sleep(0.01)


@contextlib.contextmanager
def burner(group: str) -> Iterator[int]:
    """A process in a cgroup that has its memory and burns CPU: its id."""
    files = [f"{LAYOUT.group_path(group, subsystem)}/cgroup.procs" for subsystem in SUBSYSTEMS]
    # Joined before the interpreter starts, so that all of its memory is the group's.
    join = "".join(f"echo $$ > {file}; " for file in files)
    command = ["sh", "-c", f'{join} exec "$0" -c "$1"', sys.executable, BURN]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            yield process.pid
        finally:
            process.kill()


def cpu_seconds(pid: int) -> float:
    """What /proc says a process has used."""
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9


def throttled_periods() -> int:
    """In how many the kernel has held the container back."""
    with open(f"{LAYOUT.group_path(f'{TOP}/podu1/c1', 'cpu')}/cpu.stat") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("nr_throttled "))


def anonymous(pid: int) -> int:
    """What /proc says a process has of memory that is no file's."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))


def test_use_is_what_the_process_used(pod: PodRecord) -> None:
    sources = CollectorSources(KernelFilesystem(), LAYOUT, stale_seconds=2 * PATIENCE)
    collectors = [one.Collector(sources) for one in (podresource, podthrottled, pagecache)]

    def look() -> dict[tuple[str, ...], float]:
        look = CollectContext(time.time(), time.monotonic(), (pod,))
        found = [one.collect(look) for one in collectors]
        assert [line for one in found for line in one.partial] == []
        return {(kind, *labels): value for one in found for (kind, labels), value in one.samples}

    with burner(f"{TOP}/podu1/c1") as pid:
        before, began = cpu_seconds(pid), time.monotonic()
        look()
        after, begun = cpu_seconds(pid), time.monotonic()
        throttled = throttled_periods()
        time.sleep(2.0)
        until(lambda: throttled_periods() > throttled, "it gets as far as its quota")
        before_last, ending = cpu_seconds(pid), time.monotonic()
        seen = look()
        after_last, ended = cpu_seconds(pid), time.monotonic()
        held = anonymous(pid)
    # What is read in a look is between what was so before it and after it.
    least = (before_last - after) / (ended - began)
    most = (after_last - before) / (ending - begun)
    # Whatever else the machine is busy with.
    assert 0.02 < least <= most < 1.0
    of_pod, of_container = ("u1",), ("u1", "c1")
    assert 0.97 * least <= seen["container_cpu_usage", *of_container] <= 1.03 * most
    assert 0.97 * least <= seen["pod_cpu_usage", *of_pod] <= 1.03 * most
    assert seen["container_memory_usage", *of_container] == pytest.approx(held, rel=0.03)
    assert seen["pod_memory_usage", *of_pod] == pytest.approx(held, rel=0.03)
    cached = seen["container_memory_usage_with_page_cache", *of_container]
    assert cached >= seen["container_memory_usage", *of_container]
    # It wants all of a CPU, and may not.
    assert 0 < seen["container_cpu_throttled", *of_container] <= 1
    assert ("pod_cpu_throttled", *of_pod) not in seen
