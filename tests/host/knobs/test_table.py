import pytest
from koord_host.knobs.forms import Value
from koord_host.knobs.table import KNOBS, MergeRule, PlaceKind


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("cpu.shares", 2),
        ("cpu.cfs_quota_us", -1),
        ("cpu.bvt_warp_ns", -1),
        ("cpuset.cpus", "0-3,8"),
        ("memory.limit_in_bytes", -1),
        ("blkio.throttle.read_bps_device", "8:0 4096"),
        ("sysctl", "0"),
        ("oom_score_adj", -1000),
    ],
)
def test_values_that_can_be_written(knob: str, value: Value) -> None:
    KNOBS[knob].check(value)


@pytest.mark.parametrize(
    ("knob", "value", "words"),
    [
        ("cpu.shares", 1, r"cpu\.shares: 1 is out of range; expected 2 to 262144$"),
        ("cpu.cfs_quota_us", 999, r"expected 1000 to any, or -1 for no limit"),
        ("cpu.bvt_warp_ns", 3, "expected -1 to 2"),
        ("memory.min", -1, "expected 0 to any$"),
        ("cpu.shares", "512", "'512' is not a whole number"),
        ("cpu.idle", True, "True is not a whole number"),
        ("cpuset.cpus", "", "'' is not a valid text"),
        ("cpuset.cpus", 3, "3 is not a valid text"),
        ("cpuset.cpus", "3-1", r"cpuset\.cpus: "),
        ("blkio.throttle.read_bps_device", "sda 4096", "is not a limit of a device"),
    ],
)
def test_values_that_cannot(knob: str, value: Value, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        KNOBS[knob].check(value)


@pytest.mark.parametrize(
    ("knob", "version", "value", "text", "held"),
    [
        ("cpu.shares", 1, 512, "512\n", True),
        ("cpu.shares", 2, 512, "20\n", True),
        ("cpu.shares", 2, 513, "20\n", True),
        ("cpu.cfs_quota_us", 1, 50_000, "50001\n", False),
        ("cpu.cfs_period_us", 2, 50_000, "max 50000\n", True),
        ("memory.limit_in_bytes", 1, 10_000_000, "9998336\n", True),
        ("memory.limit_in_bytes", 1, -1, "9223372036854771712\n", True),
        ("memory.min", 2, 5000, "4096\n", True),
        ("blkio.throttle.read_bps_device", 1, "8:0 0", "8:16 4\n", True),
        ("blkio.throttle.read_bps_device", 1, "8:16 0", "8:16 4\n", False),
        ("cpu.shares", 1, 512, "garbage", False),
    ],
)
def test_whether_a_file_holds_a_value(
    knob: str, version: int, value: Value, text: str, held: bool
) -> None:
    assert KNOBS[knob].form(version).holds(value, text) is held


def test_rows() -> None:
    for name, knob in KNOBS.items():
        assert knob.name == name
        if knob.where is PlaceKind.CGROUP:
            assert knob.subsystem
            assert knob.v1 or knob.v2
        if knob.rule is MergeRule.INTERSECTION:
            assert name in ("cpuset.cpus", "cpuset.mems")
