import errno

import pytest
from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.desired_values import Target
from koord_host.resource_executor import attempt

from tests.support.fake_cgroupfs import FakeCgroupfs

V1 = Layout(1, Driver.CGROUPFS)
V2 = Layout(2, Driver.CGROUPFS)
LIMIT, MEMSW = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
QUOTA, BURST = "cpu.cfs_quota_us", "cpu.cfs_burst_us"


@pytest.fixture
def files() -> FakeCgroupfs:
    found = FakeCgroupfs(1)
    found.make_group("a/b/c")
    return found


def refusal(files: FakeCgroupfs, place: str, knob: str, value: int | str) -> str:
    target = Target(place, knob)
    with pytest.raises(OSError, match=r"\S") as caught:
        attempt.write(files, V1, target, value)
    return attempt.explain(files, V1, target, value, caught.value)


def test_refusals_are_explained(files: FakeCgroupfs) -> None:
    def put(place: str, knob: str, value: int | str) -> None:
        attempt.write(files, V1, Target(place, knob), value)

    put("a/b/c", "cpuset.cpus", "0-3")
    put("a/b", "cpuset.cpus", "0-7")
    busy, denied, invalid = "Device or resource busy", "Permission denied", "Invalid argument"
    assert refusal(files, "a/b", "cpuset.cpus", "4-7") == f"{busy}: a/b/c has 0-3"
    assert refusal(files, "a/b/c", "cpuset.cpus", "8") == (
        f"{denied}: the group above has only '0-7'"
    )
    assert refusal(files, "a/b/c", "cpuset.cpus", "99") == "Numerical result out of range"
    put("a", QUOTA, 50_000)
    assert refusal(files, "a/b/c", QUOTA, 60_000) == (
        f"{invalid}: a has {QUOTA} 50000; groups below may have up to their share"
    )
    put("a/b", QUOTA, 40_000)
    assert refusal(files, "a", QUOTA, 30_000) == f"{invalid}: a/b has {QUOTA} 40000"
    assert (
        refusal(files, "a", BURST, 60_000) == f"{invalid}: {BURST} 60000 is more than {QUOTA} 50000"
    )
    put("a", "cpu.idle", 1)
    assert refusal(files, "a", "cpu.shares", 512) == f"{invalid}: cpu.idle is 1"
    put("a", LIMIT, 1 << 20)
    put("a", MEMSW, 1 << 21)
    assert refusal(files, "a", LIMIT, 1 << 22) == f"{invalid}: {MEMSW} is 2097152"
    assert refusal(files, "a", MEMSW, 1 << 16) == f"{invalid}: {LIMIT} is 1048576"


def test_an_explanation_that_cannot_be_found(files: FakeCgroupfs) -> None:
    error = OSError(errno.EBUSY, "Device or resource busy")
    words = attempt.explain(files, V1, Target("gone", "cpuset.cpus"), "0", error)
    assert words == "Device or resource busy"
    assert attempt.explain(files, V1, Target("a", "cpuset.cpus"), "0-15", error) == words
    nameless = OSError(errno.EINVAL, None)
    assert attempt.explain(files, V1, Target("a", QUOTA), 5000, nameless) == "Invalid argument"


def test_room_is_made_below_a_new_limit() -> None:
    files = FakeCgroupfs(2)
    files.make_group("a/b")
    target = Target("a/b", LIMIT)
    files.set_usage("a/b", 1 << 22, reclaimable=1 << 21)
    attempt.write(files, V2, target, 1 << 21)
    names = [path.rpartition("/")[2] for path, _ in files.writes]
    assert names == ["memory.reclaim", "memory.max"]
    files.set_usage("a/b", 1 << 21)
    with pytest.raises(OSError, match="2097152 bytes are in use") as caught:
        attempt.write(files, V2, target, 1 << 20)
    assert caught.value.errno == errno.EBUSY
    attempt.write(files, V2, target, -1)
    assert files.oom_kills == []


def test_without_a_count_of_what_is_in_use() -> None:
    files = FakeCgroupfs(2)
    files.make_group("a/b")
    files.set_text(f"{files.directory('a/b')}/memory.current", "garbage")
    attempt.write(files, V2, Target("a/b", LIMIT), 1 << 20)
    assert files.read(f"{files.directory('a/b')}/memory.max") == "1048576\n"
