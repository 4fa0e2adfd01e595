"""Files of a dry run: what would have been written is read back, and nothing is written."""

from __future__ import annotations

import pytest
from koord_host.dry_run_files import DryRunFiles, written

from tests.support.node.kernel import FakeKernel

RESCTRL = "/sys/fs/resctrl"
SHARES = "/proc/sys/vm/watermark_scale_factor"


@pytest.fixture
def kernel() -> FakeKernel:
    return FakeKernel(2)


def test_what_would_be_written_is_read_back(kernel: FakeKernel) -> None:
    said: list[tuple[str, str]] = []
    files = DryRunFiles(kernel, lambda path, text: said.append((path, text)))
    before = kernel.read(SHARES)
    assert files.read(SHARES) == before
    assert files.write_and_read(SHARES, "150") == "150\n"
    files.write(SHARES, "150")
    assert (files.read(SHARES), kernel.read(SHARES)) == ("150\n", before)
    assert said == [(SHARES, "150")]
    with pytest.raises(FileNotFoundError):
        files.write("/sys/fs/cgroup/gone/cpu.max", "max")


def test_groups_that_would_be_made_and_removed(kernel: FakeKernel) -> None:
    said: list[tuple[str, str]] = []
    files = DryRunFiles(kernel, lambda *change: said.append(change))
    group, root = f"{RESCTRL}/ours", kernel.read(f"{RESCTRL}/schemata")
    files.make_directory(group)
    with pytest.raises(FileExistsError):
        files.make_directory(group)
    assert "ours" in files.entries(RESCTRL)
    assert files.read(f"{group}/schemata") == root
    assert files.read(f"{group}/tasks") == ""
    for task in ("7", "8"):
        files.write(f"{group}/tasks", f"{task}\n")
    assert files.read(f"{group}/tasks").split() == ["7", "8"]
    files.remove_directory(group)
    assert not files.exists(group)
    with pytest.raises(FileNotFoundError):
        files.read(f"{group}/schemata")
    assert [text for _, text in said] == ["a new group", "7", "8", "removed"]
    assert "ours" not in kernel.entries(RESCTRL)
    kernel.make_directory(group)
    files = DryRunFiles(kernel, lambda *_: None)
    files.remove_directory(group)
    assert ("ours" in files.entries(RESCTRL), "ours" in kernel.entries(RESCTRL)) == (False, True)


def test_a_group_that_is_gone_takes_its_values_along(kernel: FakeKernel) -> None:
    files = DryRunFiles(kernel, lambda *_: None)
    kernel.make_directory(f"{RESCTRL}/theirs")
    files.write(f"{RESCTRL}/theirs/schemata", "MB:0=50")
    kernel.remove_directory(f"{RESCTRL}/theirs")
    with pytest.raises(FileNotFoundError):
        files.read(f"{RESCTRL}/theirs/schemata")


def test_the_memory_of_values_has_a_bound(kernel: FakeKernel) -> None:
    files = DryRunFiles(kernel, lambda *_: None, most=1)
    before = kernel.read(SHARES)
    files.write(SHARES, "150")
    files.write("/proc/sys/kernel/sched_core", "1")
    assert (files.read(SHARES), files.read("/proc/sys/kernel/sched_core")) == (before, "1\n")


@pytest.mark.parametrize(
    ("file", "before", "text", "after"),
    [
        ("cpu.max", "max 100000\n", "50000 100000", "50000 100000\n"),
        ("cpuset.cpus", "0-3\n", "\n", "\n"),
        ("cgroup.threads", "1\n", "2", "1\n2\n"),
        ("io.max", "", "8:0 rbps=1024", "8:0 rbps=1024\n"),
        (
            *("io.max", "8:0 rbps=max wbps=max\n8:16 rbps=1 wbps=2\n", "8:0 rbps=1024"),
            "8:0 rbps=1024 wbps=max\n8:16 rbps=1 wbps=2\n",
        ),
        ("blkio.throttle.read_bps_device", "8:0 5\n", "8:0 9", "8:0 9\n"),
        (
            "schemata",
            "    MB:0=100;1=100\n    L3:0=ff\n",
            "MB:1=50",
            "MB:0=100;1=50\n    L3:0=ff\n",
        ),
    ],
)
def test_lines_with_keys_are_changed_in_place(
    file: str, before: str, text: str, after: str
) -> None:
    assert written(f"/g/{file}", before, text) == after
