from koord_demo.cgroups import CgroupValues
from koord_demo.plain_words import microseconds, rows


def values(**given) -> CgroupValues:
    unset = dict.fromkeys(CgroupValues.__dataclass_fields__)
    return CgroupValues(**unset | given)


def test_a_limited_pod():
    found = values(
        cpu_shares=512, cpu_quota=50_000, cpu_period=100_000, memory_limit=128 << 20, cpuset="0-3"
    )
    assert rows(found) == [
        ("cpu.shares", "512", "counts as 0.5 CPU when CPUs are scarce"),
        ("cpu quota", "50000", "may use at most 0.5 CPU"),
        ("memory limit", str(128 << 20), "may use at most 128 MiB"),
        ("cpuset.cpus", "0-3", "may run on CPUs 0-3"),
    ]


def test_an_unlimited_pod():
    found = values(cpu_shares=2, cpu_quota=-1, cpu_period=100_000, memory_limit=-1)
    assert [(shown, meaning) for _, shown, meaning in rows(found)] == [
        ("2", "gets almost no CPU on a busy node"),
        ("no limit", "may use every idle CPU"),
        ("no limit", "may use all memory"),
        ("-", "may run on CPUs of its group"),
    ]


def test_v2_has_weights():
    assert rows(values(cpu_weight=20))[0] == (
        "cpu.weight",
        "20",
        "has weight 20, usual is 100",
    )


def test_microseconds():
    assert microseconds(0.0012345) == "1,234 µs"
