"""Memory bandwidth by feedback: its arithmetic, and the loop around saturated memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.node_info import Processor
from koord_model.resctrl import ResctrlLimits
from koordlet.qos_manager.strategies.resctrl.feedback import (
    PRIORITY,
    ChannelState,
    HardwareSteps,
    flow_matrix,
    group_targets,
    memory_domains,
    next_percent,
    outgoing_targets,
)
from koordlet.qos_manager.strategies.resctrl.strategy import BandwidthLimits

from tests.support.bandwidth_loop import GB, BandwidthLoop
from tests.support.fake_resctrl.channel import BandwidthDemand as Demand
from tests.support.formulas import wrong

USES = st.dictionaries(st.sampled_from(PRIORITY), st.floats(0, 200), min_size=1)


@given(USES)
def test_what_lacks_is_taken_from_the_lowest_groups(uses: dict[str, float]) -> None:
    found = group_targets(100.0, uses)
    if found.state is ChannelState.HOLD:
        assert found.by_group == uses
        return
    left, reserve = 100.0, 5.0 if found.state is ChannelState.THROTTLE else 0.0
    limits = {}
    for group in [group for group in PRIORITY if group in uses]:
        limits[group] = left
        left = max(left - uses[group], 0.0)
    for group in reversed(limits):
        taken = min(reserve, limits[group])
        assert found.by_group[group] == pytest.approx(limits[group] - taken)
        reserve -= taken


@pytest.mark.parametrize(
    ("uses", "pressure", "targets"),
    [
        # With nothing free, as Katalyst's GetGroupQuotas.
        ({"LS": 60.0, "BE": 40.0}, "throttled", {"LS": 100.0, "BE": 35.0}),
        ({"LSR": 50.0, "LS": 48.0, "BE": 2.0}, "throttled", {"LSR": 100.0, "LS": 47.0, "BE": 0.0}),
        ({"LS": 60.0, "BE": 10.0}, "eased", {"LS": 100.0, "BE": 40.0}),
        # With 4 % free Katalyst, throttling, gives the lowest group more than it uses.
        ({"LS": 60.0, "BE": 36.0}, "throttled", {"LS": 100.0, "BE": 35.0}),
        # And here it gives all that is free: the next measurement throttles again.
        ({"LS": 60.0, "BE": 30.0}, "held", {"LS": 60.0, "BE": 30.0}),
    ],
)
def test_targets_of_groups(
    uses: dict[str, float], pressure: str, targets: dict[str, float]
) -> None:
    found = group_targets(100.0, uses)
    assert (found.state, found.by_group) == (pressure, pytest.approx(targets))


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(0, 100), st.floats(0, 100)), min_size=1))
def test_what_is_sent_arrives(domains: list[tuple[float, float, float]]) -> None:
    local, remote, incoming = (list(column) for column in zip(*domains, strict=True))
    sent = outgoing_targets(local, remote, incoming)
    assert min(sent) >= 0
    matrix = flow_matrix(local, remote)
    assert matrix.sum(axis=1) == pytest.approx(1.0)
    if np.linalg.cond(matrix) <= 100 and all(value > 0 for value in sent):
        assert np.asarray(sent) @ matrix == pytest.approx(incoming, abs=1e-6)


def test_one_domain_and_even_traffic_divide_by_nothing() -> None:
    assert outgoing_targets([3.0], [1.0], [7.0]) == [7.0]  # Katalyst: division by n − 1 = 0
    assert outgoing_targets([5.0, 5.0], [5.0, 5.0], [7.0, 8.0]) == [7.0, 8.0]  # singular
    assert outgoing_targets([0.0, 4.0], [0.0, 1.0], [7.0, 8.0]) == pytest.approx([5.0, 10.0])


@given(
    st.floats(0, 100),
    st.floats(0, 300),
    st.floats(0, 300),
    st.integers(1, 100),
    st.sampled_from([HardwareSteps(10, 10), HardwareSteps(1, 1), HardwareSteps(20, 20)]),
)
def test_limits_move_in_steps_of_the_hardware(
    previous: float, target: float, current: float, most: int, hardware: HardwareSteps
) -> None:
    found = next_percent(previous, target, current, most, hardware)
    assert hardware.least <= found <= max(most, hardware.least)
    reach = max(10, hardware.step)
    if hardware.least <= previous <= most:
        assert abs(found - previous) <= reach + hardware.step
    if current > 0 and found > hardware.least:
        assert found <= max(previous * target / current, previous - reach) + 0.01


def test_caches_and_nodes_that_share_one_are_a_domain() -> None:
    cpus = [(0, 0), (0, 1), (1, 2), (2, 3), (3, 3), (4, -1)]  # node, cache
    found = memory_domains(Processor(at, at, 0, *cpu) for at, cpu in enumerate(cpus))
    assert found == {0: 0, 1: 0, 2: 1, 3: 2}


ALONE = 60 * GB
HOG = {("LS", 0): Demand(ALONE, 0.9), ("LS", 1): Demand(ALONE, 0.9),
       ("BE", 0): Demand(95 * GB, 0.8), ("BE", 1): Demand(95 * GB, 0.8),
       ("root", 0): Demand(2 * GB)}  # fmt: skip


@pytest.mark.parametrize("mb", ["intel", "amd", "mbps"])
def test_services_keep_their_bandwidth_while_jobs_hog(mb: str) -> None:
    loop = BandwidthLoop({0: 0, 120: 1}, mb=mb)
    hog = {(name, 120 if cache else 0): demand for (name, cache), demand in HOG.items()}
    first = loop.step(hog)
    assert first["LS", 0] < 0.7 * ALONE  # what a hog does where nothing holds it back
    rest = [loop.step() for _ in range(21)][-1]
    assert min(rest["LS", 0], rest["LS", 120]) >= 0.95 * ALONE
    assert rest["BE", 0] >= 30 * GB
    settled = len(loop.written)
    for _ in range(5):
        loop.step()
    assert len(loop.written) == settled, "limits come to rest"
    eased = [loop.step({("BE", 0): Demand(95 * GB)}) for _ in range(9)][-1]
    assert eased["BE", 0] >= 80 * GB
    assert loop.problems == ()
    assert [line for one in loop.plan.decisions for line in wrong(one)] == []


def test_the_limits_that_are_written_are_where_it_goes_on() -> None:
    loop = BandwidthLoop({0: 0})
    demands = {key: demand for key, demand in HOG.items() if key[1] == 0}
    for _ in range(10):
        loop.step(demands)
    held = loop.percents("BE")
    loop.plan = replace(loop.plan, memory=None)
    loop.step()
    assert loop.percents("BE") == held != {0: 100}


def test_static_limits_bound_and_hold_where_nothing_is_measured() -> None:
    classes = {"LS": ResctrlLimits("LS"), "BE": ResctrlLimits("BE", mb=40)}
    loop = BandwidthLoop({0: 0}, classes=classes)
    for _ in range(6):
        loop.step({("BE", 0): Demand(90 * GB)})
    assert loop.percents("BE") == {0: 40}
    loop.files.set_text("/sys/fs/resctrl/BE/mon_data/mon_L3_00/mbm_total_bytes", "Unavailable\n")
    loop.channel.demands = {}
    loop.step()
    assert loop.percents("BE") == {}  # the class's mb holds
    for settings, reason in (
        ({"domain_capacity_gb": None}, "domain_capacity_gb is not set"),
        ({}, "no memory bandwidth was measured"),
    ):
        loop.settings = replace(loop.settings, **settings)
        loop.files.remove_group("LS")
        loop.files.make_directory("/sys/fs/resctrl/LS")
        loop.step()
        assert reason in loop.plan.decisions[-1].outcome
        loop.settings = replace(loop.settings, domain_capacity_gb=100.0)
    loop.settings = replace(loop.settings, bandwidth=BandwidthLimits.STATIC)
    loop.step()
    assert [one.aspect for one in loop.plan.decisions] == ["LS", "BE"]
