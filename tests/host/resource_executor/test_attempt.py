import errno

import pytest
from koord_host.planning.desired_values import Target
from koord_host.resource_executor import attempt

from tests.host.conftest import V1, V2
from tests.support.fake_cgroupfs import FakeCgroupfs

LIMIT, MEMSW = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
QUOTA, BURST = "cpu.cfs_quota_us", "cpu.cfs_burst_us"


@pytest.fixture
def files() -> FakeCgroupfs:
    found = FakeCgroupfs(1)
    found.make_group("a/b/c")
    return found


STATE: dict[tuple[str, str], int | str] = {
    ("a/b/c", "cpuset.cpus"): "0-3", ("a/b", "cpuset.cpus"): "0-7",
    ("a", QUOTA): 50_000, ("a/b", QUOTA): 40_000, ("a", "cpu.idle"): 1,
    ("a", LIMIT): 1 << 20, ("a", MEMSW): 1 << 21,
}  # fmt: skip
BUSY, DENIED, INVALID = "Device or resource busy", "Permission denied", "Invalid argument"


@pytest.mark.parametrize(
    ("place", "knob", "value", "words"),
    [
        ("a/b", "cpuset.cpus", "4-7", f"{BUSY}: a/b/c has 0-3"),
        ("a/b/c", "cpuset.cpus", "8", f"{DENIED}: the group above has only '0-7'"),
        ("a/b/c", "cpuset.cpus", "99", "Numerical result out of range"),
        ("a/b/c", QUOTA, 60_000, f"{INVALID}: a/b has {QUOTA} 40000; groups below may have up"),
        ("a", QUOTA, 30_000, f"{INVALID}: a/b has {QUOTA} 40000"),
        ("a", BURST, 60_000, f"{INVALID}: {BURST} 60000 is more than {QUOTA} 50000"),
        ("a", "cpu.shares", 512, f"{INVALID}: cpu.idle is 1"),
        ("a", LIMIT, 1 << 22, f"{INVALID}: {MEMSW} is 2097152"),
        ("a", MEMSW, 1 << 16, f"{INVALID}: {LIMIT} is 1048576"),
    ],
)  # fmt: skip
def test_refusals_are_explained(
    files: FakeCgroupfs, place: str, knob: str, value: int | str, words: str
) -> None:
    for at, now in STATE.items():
        attempt.write(files, V1, Target(*at), now)
    target = Target(place, knob)
    with pytest.raises(OSError, match=r"\S") as caught:
        attempt.write(files, V1, target, value)
    assert attempt.explain(files, V1, target, value, caught.value).startswith(words)


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
