"""The test double of cgroupfs: the kernel's answers, and what tests need beyond them."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.kernel_files.interface import KernelFiles

from tests.support import kernel_rules, kernel_writes
from tests.support.fake_cgroupfs import FakeCgroupfs
from tests.support.kernel_rules import Bench
from tests.support.kernel_rules_table import Case, Step

ROOT = "/sys/fs/cgroup"
PID = 77
MIB = 1 << 20


def error_of(call, *arguments) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its errno is what counts
        call(*arguments)
    return errno.errorcode[caught.value.errno]


def fake(version: int, **options) -> FakeCgroupfs:
    made = FakeCgroupfs(version, **options)
    made.make_group("kubepods/burstable/pod1")
    made.make_group("kubepods/burstable/pod2")
    return made


@pytest.mark.parametrize(
    ("version", "case"),
    [(version, case) for version in (1, 2) for case in kernel_rules.cases(version)],
    ids=lambda value: value.name if isinstance(value, Case) else f"v{value}",
)
def test_answers_as_the_table_of_real_kernels_says(version: int, case: Case) -> None:
    double = FakeCgroupfs(version, cpus="0-1")
    double.machine.pids.add(PID)
    bench = Bench(double, version, ROOT, "base")
    bench.make(case.groups)
    assert kernel_rules.differences(bench, case, PID) == []
    double.check()


def _steps(version: int) -> st.SearchStrategy[list[Step]]:
    files = kernel_writes.WRITES[version]
    one = st.sampled_from(sorted(files)).flatmap(
        lambda file: st.builds(
            kernel_writes.step,
            st.sampled_from(kernel_writes.GROUPS),
            st.just(file),
            st.sampled_from(files[file]),
        )
    )
    return st.lists(one, max_size=30)


@pytest.mark.parametrize("version", [1, 2])
@given(data=st.data())
def test_no_order_of_writes_leads_to_an_impossible_state(version: int, data: st.DataObject) -> None:
    double = FakeCgroupfs(version, cpus="0-1")
    double.machine.pids.add(PID)
    bench = Bench(double, version, ROOT, "base")
    bench.make(kernel_writes.GROUPS[1:])
    for step in data.draw(_steps(version)):
        bench.take(step, PID)
        double.check()


def test_it_is_kernel_files() -> None:
    files: KernelFiles = fake(1)
    assert "cpu" in files.entries(ROOT)
    assert files.entries(f"{ROOT}/cpu/kubepods/burstable") == ["pod1", "pod2"]
    assert files.exists(f"{ROOT}/cpu/kubepods/cpu.shares")
    assert not files.exists(f"{ROOT}/cpu/kubepods/cpu.weight")
    assert error_of(files.entries, f"{ROOT}/cpu/kubepods/cpu.shares") == "ENOTDIR"
    assert error_of(files.entries, f"{ROOT}/cpu/gone") == "ENOENT"
    assert error_of(files.read, f"{ROOT}/cpu/kubepods") == "EISDIR"


@pytest.mark.parametrize("version", [1, 2])
def test_a_new_group_is_as_a_runtime_leaves_it(version: int) -> None:
    double = fake(version)
    cpuset = double.directory("kubepods/burstable/pod1", "cpuset")
    assert double.read(f"{cpuset}/cpuset.cpus") == ("0-15\n" if version == 1 else "\n")
    effective = "cpuset.effective_cpus" if version == 1 else "cpuset.cpus.effective"
    assert double.read(f"{cpuset}/{effective}") == "0-15\n"
    double.add_process("kubepods/burstable/pod1", PID)
    assert double.read(f"{cpuset}/cgroup.procs") == f"{PID}\n"


@pytest.mark.parametrize(
    ("version", "file", "text"),
    [(1, "cpu.bvt_warp_ns", "-1"), (2, "cpu.bvt_warp_ns", "2"), (1, "memory.wmark_ratio", "95"),
     (2, "memory.wmark_min_adj", "-25"), (1, "memory.min", "4096"), (1, "memory.priority", "12"),
     (1, "blkio.cost.weight", "default 60"), (1, "memory.oom.group", "1")],
)  # fmt: skip
def test_vendor_files(version: int, file: str, text: str) -> None:
    plain, vendor = fake(version), fake(version, vendor=True)
    path = f"{plain.directory('kubepods', file.partition('.')[0])}/{file}"
    assert not plain.exists(path)
    vendor.write(path, text)
    assert vendor.read(path) == f"{text}\n"
    assert error_of(vendor.write, path, "99999x") == "EINVAL"


def test_a_pod_vanishes_between_read_and_write() -> None:
    double = fake(2)
    path = f"{ROOT}/kubepods/burstable/pod1"
    first = double.identity(path)
    double.read(f"{path}/cpu.weight")
    double.before_write = lambda _path, _text: double.remove_group("kubepods/burstable/pod1")
    assert error_of(double.write, f"{path}/cpu.weight", "7") == "ENOENT"
    double.before_write = None
    double.make_group("kubepods/burstable/pod1")
    assert double.identity(path) != first
    assert double.writes == []


def test_writes_are_logged_and_can_be_refused() -> None:
    double = fake(2)
    path = f"{ROOT}/kubepods/cpu.weight"
    double.refusals[path] = errno.EPERM
    assert error_of(double.write, path, "7") == "EPERM"
    del double.refusals[path]
    double.write(path, "7")
    assert error_of(double.write, path, "x") == "EINVAL"
    assert double.writes == [(path, "7")]


def test_v1_limit_below_usage_reclaims_and_then_is_busy() -> None:
    double = fake(1)
    double.set_usage("kubepods/burstable/pod1", 40 * MIB, reclaimable=30 * MIB)
    path = f"{double.directory('kubepods', 'memory')}/memory.limit_in_bytes"
    double.write(path, "20M")
    usage = path.replace("limit", "usage")
    assert double.read(usage) == f"{20 * MIB}\n"
    assert error_of(double.write, path, "9M") == "EBUSY"
    assert (double.read(path), double.read(usage)) == (f"{20 * MIB}\n", f"{10 * MIB}\n")


def test_v2_limit_below_usage_reclaims_and_then_kills() -> None:
    double = fake(2)
    double.set_usage("kubepods/burstable/pod1", 40 * MIB, reclaimable=30 * MIB)
    path = f"{ROOT}/kubepods/burstable/pod1"
    double.write(f"{path}/memory.high", "5M")
    assert double.read(f"{path}/memory.current") == f"{10 * MIB}\n"
    assert double.oom_kills == []
    double.write(f"{path}/memory.max", "10M")
    assert double.oom_kills == []
    double.write(f"{path}/memory.max", "9M")
    assert double.oom_kills == [path]


def test_v2_reclaim_says_when_it_was_not_enough() -> None:
    double = fake(2)
    double.set_usage("kubepods", 4 * MIB, reclaimable=2 * MIB)
    double.write(f"{ROOT}/kubepods/memory.reclaim", "1M")
    assert double.read(f"{ROOT}/kubepods/memory.current") == f"{3 * MIB}\n"
    assert error_of(double.write, f"{ROOT}/kubepods/memory.reclaim", "2M") == "EAGAIN"
    assert error_of(double.read, f"{ROOT}/kubepods/memory.reclaim") == "EINVAL"


def test_statistics_can_be_given() -> None:
    double = fake(2)
    path = f"{ROOT}/kubepods/cpu.stat"
    double.set_text(path, "usage_usec 5\n")
    assert double.read(path) == "usage_usec 5\n"
    assert error_of(double.set_text, f"{ROOT}/kubepods/nothing", "") == "ENOENT"
    double.remove_group("kubepods")
    assert error_of(double.read, path) == "ENOENT"


def test_roots_refuse() -> None:
    double = FakeCgroupfs(1)
    assert error_of(double.write, f"{ROOT}/cpu/cpu.shares", "5") == "EINVAL"
    assert error_of(double.write, f"{ROOT}/cpu/cpu.cfs_quota_us", "50000") == "EINVAL"
    assert error_of(double.write, f"{ROOT}/cpuset/cpuset.cpus", "0") == "EACCES"
    assert error_of(double.write, f"{ROOT}/memory/memory.limit_in_bytes", "1G") == "EINVAL"
    assert error_of(double.remove_directory, f"{ROOT}/cpu") == "EBUSY"
    assert not FakeCgroupfs(2).exists(f"{ROOT}/cpu.weight")


def test_idle_weight_reads_otherwise_since_linux_6_12() -> None:
    for kernel, weight in (((6, 1), "0\n"), ((6, 12), "1\n")):
        double = fake(2, kernel=kernel)
        double.write(f"{ROOT}/kubepods/cpu.idle", "1")
        assert double.read(f"{ROOT}/kubepods/cpu.weight") == weight


def test_disks_take_a_weight_of_their_own_with_a_cost_model() -> None:
    path = f"{ROOT}/kubepods/io.weight"
    assert error_of(fake(2).write, path, "254:0 200") == "ENOTSUP"
    double = fake(2, iocost=True)
    double.write(path, "254:0 200")
    assert double.read(path) == "default 100\n254:0 200\n"
    assert error_of(double.write, path, "254:0 0") == "EINVAL"
    double.write(path, "254:0 default")
    assert double.read(path) == "default 100\n"


def test_long_writes_are_refused() -> None:
    double = fake(2)
    path = f"{ROOT}/kubepods"
    double.write(f"{path}/memory.max", "9".ljust(4096))
    assert error_of(double.write, f"{path}/memory.max", "9".ljust(4097)) == "E2BIG"
    double.write(f"{path}/cpuset.cpus", "0".ljust(4097))


@pytest.mark.parametrize(
    ("state", "version"),
    [({"quota": 5000, "burst": 6000}, 2), ({"cpus": 1 << 20}, 1), ({"quota": 10**6}, 1)],
)
def test_impossible_states_are_noticed(state: dict[str, int], version: int) -> None:
    double = fake(version)
    above = double.directory("kubepods/burstable", "cpu")
    double.write(f"{above}/{'cpu.max' if version == 2 else 'cpu.cfs_quota_us'}", "50000")
    subsystem = "cpuset" if "cpus" in state else "cpu"
    path = double.directory("kubepods/burstable/pod1", subsystem)
    double._groups[path].values.update(state)
    with pytest.raises(AssertionError, match="pod1"):
        double.check()
