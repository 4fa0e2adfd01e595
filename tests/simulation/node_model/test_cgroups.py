from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.forms import Value
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_model import cpuset
from koord_simulation.node_model.cgroups import SimulatedCgroups
from koord_simulation.node_model.machine import SimulatedMachine

ONE = Owner("one", Priority.STRATEGY)
TWO = Owner("two", Priority.STRATEGY)
MIB = 1 << 20


def made(version: int = 2, **values: Value) -> SimulatedCgroups:
    cgroups = SimulatedCgroups(SimulatedMachine(cpus=8, cgroup_version=version))
    cgroups.create("a")
    cgroups.create("a/b", **values)
    cgroups.create("a/b/c")
    return cgroups


def desired_value(group: str, knob: str, value: Value) -> DesiredValue:
    return DesiredValue(Target(group, knob), value)


@pytest.mark.parametrize(
    ("version", "group", "knob", "value", "reads", "base"),
    [
        (2, "a/b", "cpu.cfs_quota_us", 80_000, 80_000, 50_000),
        # As the kernel has it: whole pages.
        (2, "a", "memory.high", 5000, 4096, None),
        (2, "vm.min_free_kbytes", "sysctl", "9", "9", "67584"),
    ],
)
def test_a_desired_value_is_written_and_put_back_when_it_goes(
    version: int, group: str, knob: str, value: Value, reads: Value, base: Value | None
) -> None:
    cgroups = made(version, cpu_cfs_quota_us=50_000)
    before = cgroups.now(group, knob)
    cgroups.set_desired({ONE: (desired_value(group, knob, value),)})
    assert cgroups.now(group, knob) == reads
    if base is not None:
        assert cgroups.base(group, knob) == base
    changes = cgroups.changes
    cgroups.create("x")
    cgroups.set_desired({ONE: (desired_value(group, knob, value),)})
    assert cgroups.changes == changes + 1, "nothing is written that means the same"
    cgroups.set_desired({})
    assert cgroups.now(group, knob) == (before if base is None else base)
    assert cgroups.refused == []


def test_several_desired_values_are_arbitrated_by_the_rule_of_the_knob() -> None:
    cgroups = made()
    high, cpus = "memory.high", "cpuset.cpus"
    one = desired_value("a", high, 64 * MIB), desired_value("a", cpus, "0-3")
    two = desired_value("a", high, 32 * MIB), desired_value("a", cpus, "2-5")
    cgroups.set_desired({ONE: one, TWO: two})
    assert (cgroups.now("a", high), cgroups.now("a", cpus)) == (32 * MIB, "2-3")
    assert cgroups.cpus("a/b/c") == frozenset({2, 3})


def test_the_kubelet_writes_the_base_of_what_is_wished() -> None:
    cgroups = made()
    cgroups.set_desired({ONE: (desired_value("a", "cpu.cfs_quota_us", 20_000),)})
    cgroups.put("a", "cpu.cfs_quota_us", 40_000)
    assert cgroups.now("a", "cpu.cfs_quota_us") == 20_000
    cgroups.set_desired({})
    assert cgroups.now("a", "cpu.cfs_quota_us") == 40_000


@pytest.mark.parametrize(
    ("version", "group", "knob", "value", "why"),
    [
        (2, "nowhere", "memory.high", 1, "no such group"),
        (2, "a", "memory.wmark_ratio", 5, "this kernel has no"),
        (2, "a", "no.such", 5, "there is no knob"),
        (2, "a", "cpu.idle", 7, "out of range"),
        (2, "a", "cpuset.cpus", "0-20", "not all of these CPUs run"),
        (2, "a", "cpu.cfs_burst_us", 90_000, "more than the quota"),
        (1, "a/b", "cpu.cfs_quota_us", 90_000, "has less"),
        (1, "a/b", "cpuset.cpus", "6-7", "the group above has"),
        (1, "a", "cpuset.cpus", "0-1", "a/b has 0-3"),
        (1, "a", "cpu.cfs_quota_us", 20_000, "a group below has more"),
        (1, "a/b/c", "cpuset.cpus", "\n", "not a valid text"),
    ],
)
def test_the_kernel_refuses(version: int, group: str, knob: str, value: Value, why: str) -> None:
    cgroups = made(version)
    cgroups.put("a", "cpu.cfs_quota_us", 50_000)
    cgroups.put("a/b", "cpu.cfs_quota_us", 30_000)
    if version == 1:
        for one in ("a", "a/b", "a/b/c"):
            cgroups.put(one, "cpuset.cpus", "0-3")
    before = cgroups.now(group, knob)
    cgroups.set_desired({ONE: (desired_value(group, knob, value),)})
    refused = list(cgroups.refused)
    assert refused
    assert all(why in one.why for one in refused)
    assert cgroups.now(group, knob) == before
    cgroups.create("x")
    cgroups.set_desired({ONE: (desired_value(group, knob, value),)})
    assert cgroups.refused == refused, "once"


def test_ratios_of_v1_are_held_against_all_above() -> None:
    cgroups = made(1)
    cgroups.put("a", "cpu.cfs_quota_us", 50_000)
    cgroups.set_desired({ONE: (desired_value("a/b/c", "cpu.cfs_quota_us", 60_000),)})
    assert "a has less" in cgroups.refused[0].why
    cgroups.set_desired({ONE: (desired_value("a/b/c", "cpu.cfs_quota_us", 40_000),)})
    assert cgroups.now("a/b/c", "cpu.cfs_quota_us") == 40_000


def test_knobs_that_a_group_lacks_cannot_be_put() -> None:
    cgroups = made()
    cgroups.put("a", "memory.wmark_ratio", 5)
    assert cgroups.now("a", "memory.wmark_ratio") is None
    with pytest.raises(KeyError):
        made(cpu_magic=3)
    cgroups.set_desired({ONE: (desired_value("vm.new", "sysctl", "1"),)})
    assert (cgroups.now("vm.new", "sysctl"), cgroups.refused) == ("1", [])


def test_an_idle_group_has_no_shares() -> None:
    cgroups = made(cpu_shares=2)
    cgroups.set_desired({ONE: (desired_value("a/b", "cpu.idle", 1),)})
    cgroups.set_desired(
        {ONE: (desired_value("a/b", "cpu.idle", 1), desired_value("a/b", "cpu.shares", 500))}
    )
    assert cgroups.now("a/b", "cpu.shares") == 3
    assert "idle group" in cgroups.refused[0].why
    cgroups.set_desired({})
    assert cgroups.now("a/b", "cpu.idle") == 0
    assert cgroups.now("a/b", "cpu.shares") in (1024, 998), "a new group's"


def test_a_group_that_goes_takes_its_wishes_and_those_below_along() -> None:
    cgroups = made()
    asked = {ONE: (desired_value("a/b", "memory.low", MIB),)}
    cgroups.set_desired(asked)
    assert cgroups.below("a", "cpu") == ("a/b", "a/b/c")
    cgroups.remove("a/b")
    assert cgroups.below("", "cpu") == ("a",)
    assert cgroups.now("a/b", "memory.low") is None
    cgroups.set_desired(asked)
    assert "no such group" in cgroups.refused[0].why
    cgroups.create("a/b")
    cgroups.set_desired(asked)
    assert cgroups.now("a/b", "memory.low") == MIB


_sets = st.frozensets(st.integers(0, 7), min_size=1).map(cpuset.render)


@given(
    st.sampled_from([1, 2]),
    st.lists(st.dictionaries(st.sampled_from(["a", "a/b", "a/b/c"]), _sets)),
)
def test_cpus_are_never_outside_those_above(version: int, rounds: list[dict[str, str]]) -> None:
    cgroups = made(version)
    for one in rounds:
        cgroups.set_desired(
            {ONE: tuple(desired_value(group, "cpuset.cpus", cpus) for group, cpus in one.items())}
        )
        assert frozenset() < cgroups.cpus("a/b/c") <= cgroups.cpus("a/b") <= cgroups.cpus("a")
    cgroups.set_desired({})
    assert cgroups.cpus("a/b/c") == frozenset(range(8))


@pytest.mark.parametrize("version", [1, 2])
def test_limits_of_devices_are_merged_as_the_kernel_does_and_put_back(version: int) -> None:
    cgroups, knob = made(version), "blkio.throttle.read_bps_device"

    def after(*values: str) -> Value | None:
        cgroups.set_desired({ONE: tuple(desired_value("a", knob, value) for value in values)})
        return cgroups.now("a", knob)

    cgroups.put("a", knob, "8:32 7")
    assert after("8:0 4096") == "8:0 4096\n8:32 7"
    assert after("8:16 512\n8:32 9") == "8:16 512\n8:32 9"
    cgroups.put("a", knob, "8:48 3")
    assert cgroups.base("a", knob) == "8:32 7\n8:48 3"
    assert after() == "8:32 7\n8:48 3"
    assert cgroups.base("a", knob) == "8:32 7\n8:48 3"
