from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from koord_manager.noderesource.core.desired_node import DesiredNode
from koord_manager.noderesource.core.documents import metric_status
from koord_manager.noderesource.core.fleet import MOST_REMEMBERED, DesiredZone, Fleet
from koord_manager.noderesource.core.node_state import (
    CpuMemory,
    MeasuredUsage,
    NodeState,
    NumaZone,
    read_node_state,
    zones,
)
from koord_manager.noderesource.core.outcomes import LONGEST, ResourceOutcome
from koord_manager.noderesource.core.pods import PodSummary, read_pod_summary
from koord_manager.slo_config.core.colocation import (
    CalculatePolicy,
    ColocationStrategy,
    MidReclaimMode,
    Smoothing,
)
from koord_model.keys import (
    ANNOTATION_BATCH_WHY,
    ANNOTATION_CPU_NORMALIZATION_RATIO,
    ANNOTATION_NODE_RESERVATION,
    ANNOTATION_RAW_ALLOCATABLE,
    ANNOTATION_THIRD_PARTY,
    BATCH_CPU,
    BATCH_MEMORY,
    MID_CPU,
    MID_MEMORY,
)
from koord_model.priority import PriorityClass

NOW = 1_795_168_800.0
ON = ColocationStrategy(enable=True)
NODE = NodeState(capacity=CpuMemory(10_000, 10_000), reserved=CpuMemory(500, 500))
ZONES = (NumaZone("node-0", 0, CpuMemory(5000, 5000)), NumaZone("node-1", 1, CpuMemory(5000, 5000)))
NOTHING = {BATCH_CPU: None, BATCH_MEMORY: None, MID_CPU: None, MID_MEMORY: None}


IDLE = {"resources": {"cpu": "0", "memory": "0"}}


def status(cpu: int = 1000, memory: int = 1000, **more: Any) -> bytes:
    usage = {"resources": {"cpu": f"{cpu}m", "memory": str(memory)}}
    given = {
        "updateTime": "2026-11-20T10:00:00Z",
        "nodeMetric": {"nodeUsage": usage, "systemUsage": IDLE},
        "podsMetric": [{"namespace": "ns", "name": "web", "podUsage": usage}],
        "prodReclaimableMetric": {"resource": {"resources": {"cpu": "2", "memory": "2000"}}},
    }
    return json.dumps(given | more).encode()


def pod(node: str = "n", cpu: int = 3000, memory: int = 3000, **more: Any) -> PodSummary:
    plain = PodSummary(node, True, PriorityClass.PROD, False, cpu, memory)
    return PodSummary(**{name: getattr(plain, name) for name in plain.__struct_fields__} | more)


def fleet(strategy: ColocationStrategy = ON, node_state: NodeState = NODE, **more: Any) -> Fleet:
    found = Fleet(more.get("settled", 0.0))
    found.node("n", node_state, strategy, NOW)
    found.pod("ns/web", None, pod())
    found.metric("n", status())
    return found


def resources(one: Fleet, now: float = NOW) -> dict[str, int | None]:
    one.calculate(now)
    return dict(one.desired("n").resources)


def outcomes(one: Fleet) -> list[str]:
    return [decision.outcome for decision in one.decisions("n")]


def test_a_node_offers_what_is_left() -> None:
    one = fleet()
    due, _ = one.calculate(NOW)
    assert due == ["n"]
    desired = one.desired("n")
    assert desired.resources == {
        BATCH_CPU: 10_000 - 4000 - 500 - 1000,
        BATCH_MEMORY: 10_000 - 3500 - 500 - 1000,
        MID_CPU: 2000,
        MID_MEMORY: 2000,
    }
    assert (desired.labels, desired.decisions) == ({}, one.decisions("n"))
    aspects = [each.aspect for each in desired.decisions]
    assert aspects == ["batch-cpu", "batch-memory", "mid-cpu", "mid-memory"]


def test_a_node_on_which_katalyst_offers_the_same_offers_nothing() -> None:
    offered = {"resource.katalyst.kubewharf.io/reclaimed_millicpu": "4k"}
    twice = read_node_state({"status": {"allocatable": offered}})
    one = fleet(node_state=replace(NODE, reclaimed=twice.reclaimed))
    one.calculate(NOW)
    assert set(one.desired("n").resources.values()) == {None}
    assert "stop it first" in outcomes(one)[0]


def test_a_decision_carries_its_terms_in_order() -> None:
    one = fleet(node_state=replace(NODE, ratio=1.5, third_batch=CpuMemory(50, 0)))
    one.calculate(NOW)
    cpu, memory, mid, _ = one.decisions("n")
    assert cpu.formula == "min(limit, capacity - margin - kept - high) × ratio - third party"
    assert [(given.name, given.value) for given in cpu.given] == [
        ("limit", 10.0),
        ("capacity", 10.0),
        ("reclaim", 60),
        ("margin", 4.0),
        ("system", 0.0),
        ("reserved", 0.5),
        ("kept", 0.5),
        ("high-priority use", 1.0),
        ("high-priority request", 3.0),
        ("high", 1.0),
        ("ratio", 1.5),
        ("third party", 0.05),
        ("offered", 6.7),
        ("configured by", "defaults"),
    ]
    assert memory.formula == "min(limit, capacity - margin - kept - high)"
    assert memory.given[0] == ("limit", 10_000, "bytes")
    assert mid.formula == "min(limit, min(reclaimable, unused) + share)"


REQUEST, MORE = CalculatePolicy.REQUEST, CalculatePolicy.MAX_USAGE_REQUEST
STATIC = {"mid_mode": MidReclaimMode.STATIC, "mid_static_cpu_percent": 30}


@pytest.mark.parametrize(
    ("strategy", "node_state", "place", "amount", "outcome", "formula"),
    [
        # CPU is never calculated by requests.
        ({"cpu_policy": REQUEST}, {}, 0, 4500, "high-priority pods use", "- high)"),
        ({"memory_policy": REQUEST}, {}, 1, 3000, "ask for", "- high)"),
        ({"cpu_policy": MORE}, {}, 0, 2500, "whichever is more", "- high)"),
        (STATIC, {}, 2, 3000, "mid-cpu is the configured share", "min(limit, static)"),
        ({}, {"third_mid": CpuMemory(300, 0)}, 2, 1700, "hardly use", "- third party"),
    ],
)
def test_a_decision_follows_the_strategy(
    strategy: Any, node_state: Any, place: int, amount: int, outcome: str, formula: str
) -> None:
    one = fleet(replace(ON, **strategy), replace(NODE, **node_state))
    assert [*resources(one).values()][place] == amount
    decision = one.decisions("n")[place]
    assert decision.outcome.endswith(outcome)
    assert decision.formula.endswith(formula)


def test_the_text_on_the_node_is_short_and_says_why() -> None:
    one = fleet()
    one.calculate(NOW)
    text = one.desired("n").annotations[ANNOTATION_BATCH_WHY]
    assert text == (
        "cpu 4.5 cores of 10 cores - 4 cores margin - 0.5 cores system - 1 cores high-priority; "
        "memory 4.883 KiB of 9.766 KiB - 3.418 KiB margin - 500 B system - 1000 B high-priority"
    )
    one.calculate(NOW + 3600)
    text = one.desired("n").annotations[ANNOTATION_BATCH_WHY]
    assert text == "no batch-cpu: NodeMetric is older than 15 min"
    assert len(text) <= LONGEST


def test_switched_off_takes_all_away() -> None:
    one = fleet(ColocationStrategy())
    assert one.calculate(NOW) == ([], [])
    assert one.desired("n").resources == NOTHING
    assert set(one.desired("n").annotations.values()) == {None}
    one.node("n", replace(NODE, batch=MeasuredUsage(1, 1)), ColocationStrategy(), NOW)
    assert one.calculate(NOW) == (["n"], [])
    assert outcomes(one)[0] == "no batch-cpu: co-location is not enabled on this node"


@pytest.mark.parametrize(
    ("given", "now", "outcome"),
    [
        (status(), NOW + 900, "batch-cpu is what is left of what high-priority pods use"),
        (status(), NOW + 901, "no batch-cpu: NodeMetric is older than 15 min"),
        (status(updateTime=None), NOW, "no batch-cpu: there is no NodeMetric of this node"),
        (None, NOW, "no batch-cpu: there is no NodeMetric of this node"),
        (b"{", NOW, "no batch-cpu: there is no NodeMetric of this node"),
    ],
)
def test_a_node_that_is_not_heard_of_offers_nothing(
    given: bytes | None, now: float, outcome: str
) -> None:
    one = fleet(node_state=replace(NODE, batch=MeasuredUsage(1, 1)))
    one.metric("n", given)
    due, _ = one.calculate(now)
    assert outcomes(one)[0] == outcome
    gone = outcome.startswith("no ")
    assert (one.desired("n").resources == NOTHING) is gone
    assert due == ["n"]


def test_a_metric_that_cannot_be_read_is_reported() -> None:
    one = fleet()
    assert (one.status("n"), one.status("other")) == (status(), None)
    one.metric("other", metric_status(b"{}"))
    assert one.status("other") is None  # its node has not reported yet
    one.metric("n", b"{")
    one.calculate(NOW)
    assert "NodeMetric of n is not a valid NodeMetric status" in one.refused["n"]
    one.metric("n", status())
    one.calculate(NOW)
    assert one.refused == {}


HALF = [
    {},
    {"nodeMetric": {}},
    {"nodeMetric": {"nodeUsage": IDLE}},
    {"nodeMetric": {"nodeUsage": IDLE, "systemUsage": {}}},
    {"nodeMetric": {"systemUsage": {"resources": {"cpu": "1"}}}},
    {"nodeMetric": {"systemUsage": {"resources": {"cpu": "x", "memory": "1"}}}},
]


@pytest.mark.parametrize("half", HALF)
def test_no_sample_is_no_offer(half: dict[str, Any]) -> None:
    one = fleet()
    one.metric("n", None)
    one.metric("n", json.dumps({"updateTime": "2026-11-20T10:00:00Z"} | half).encode())
    assert resources(one) == NOTHING
    assert outcomes(one)[0] == "no batch-cpu: NodeMetric has no systemUsage yet"
    assert one.refused["n"] == "NodeMetric of n has no systemUsage (counts as missing)"
    one.metric("n", status())
    assert resources(one)[BATCH_CPU] == 4500
    assert one.refused == {}


@pytest.mark.parametrize("half", HALF)
@pytest.mark.parametrize("received", [None, NOW + 600])
def test_a_half_filled_report_leaves_the_last_whole_one_in_force(
    half: dict[str, Any], received: float | None
) -> None:
    one = fleet()
    before = resources(one)
    late = {"updateTime": "2026-11-20T10:10:00Z"} | half
    one.metric("n", json.dumps(late).encode(), received)
    assert resources(one, NOW + 900) == before
    assert one.refused["n"] == "NodeMetric of n has no systemUsage (the last whole one counts)"
    assert resources(one, NOW + 901) == NOTHING
    assert outcomes(one)[0] == "no batch-cpu: NodeMetric is older than 15 min"


def test_what_came_straight_from_the_node_is_as_old_as_its_coming() -> None:
    one = fleet()
    one.metric("n", status(updateTime="2020-01-01T00:00:00Z"), NOW)
    assert resources(one, NOW + 900)[BATCH_CPU] == 4500
    assert resources(one, NOW + 901)[BATCH_CPU] is None


SELDOM = replace(ON, metric_report_seconds=1200)


@pytest.mark.parametrize(
    ("policy", "cpu"), [("usage", 7500), ("request", 7500), ("maxUsageRequest", 5500)]
)
def test_mid_resources_that_a_pod_asks_for_are_not_promised_again(policy: str, cpu: int) -> None:
    """CPU is never calculated by requests."""
    both = CalculatePolicy(policy)
    full = {"cpu_reclaim_percent": 100, "memory_reclaim_percent": 100}
    strategy = replace(ON, cpu_policy=both, memory_policy=both, **full)
    found = []
    for priority, asked in (
        ("koord-prod", {"cpu": "4", "memory": "4000"}),
        ("koord-mid", {"kubernetes.io/mid-cpu": "4000", "kubernetes.io/mid-memory": "4000"}),
    ):
        spec = {"nodeName": "n", "containers": [{"resources": {"requests": asked}}]}
        labels = {"koordinator.sh/priority-class": priority, "koordinator.sh/qosClass": "LS"}
        document = {"metadata": {"labels": labels}, "spec": spec, "status": {"phase": "Running"}}
        used = {"name": "web", "namespace": "ns", "priority": priority}
        used["podUsage"] = {"resources": {"cpu": "2", "memory": "2000"}}
        one = fleet(strategy)
        one.pod("ns/web", pod(), read_pod_summary(json.dumps(document).encode()))
        one.metric("n", status(podsMetric=[used]))
        found.append((resources(one)[BATCH_CPU], resources(one)[BATCH_MEMORY]))
    assert found == [(cpu, 7500 if policy == "usage" else 5500)] * 2


def test_nodes_are_given_time_to_report_to_a_new_leader() -> None:
    one = fleet(node_state=replace(NODE, batch=MeasuredUsage(7, 7)), settled=NOW + 15)
    one.node("slow", replace(NODE, batch=MeasuredUsage(7, 7)), SELDOM, NOW)
    one.metric("n", None)
    assert one.calculate(NOW + 74) == ([], [])
    assert one.desired("n") == DesiredNode()
    assert outcomes(one)[0].startswith("batch-cpu stays as it is")
    assert one.calculate(NOW + 75) == (["n"], [])
    assert one.desired("n").resources == NOTHING
    assert one.calculate(NOW + 1214) == (["n"], [])
    assert one.calculate(NOW + 1215) == (["n", "slow"], [])


def test_a_metric_that_comes_in_time_is_never_too_old() -> None:
    one = fleet(replace(SELDOM, degrade_minutes=15))
    assert resources(one, NOW + 1215)[BATCH_CPU] == 4500
    assert resources(one, NOW + 1216)[BATCH_CPU] is None
    assert outcomes(one)[0] == "no batch-cpu: NodeMetric is older than 20.25 min"


SAME: Any = object()
HOLD, RISE = Smoothing(hold_seconds=120), Smoothing(rise_percent=5)


@pytest.mark.parametrize(
    ("smoothing", "node_state", "steps"),
    [
        (HOLD, {}, [(0, SAME, 4500), (1020, SAME, 4500), (1021, SAME, None)]),
        # From when the metric went.
        (HOLD, {}, [(0, SAME, 4500), (500, None, 4500), (620, SAME, 4500), (621, SAME, None)]),
        (
            RISE,
            {"batch": MeasuredUsage(1000, 1000)},
            [
                *(
                    (30 * step, SAME, amount)
                    for step, amount in enumerate((1000, 1000, 1500, 1500))
                ),
                # A fall is not bounded.
                *((120, SAME, 2000), (121, status(cpu=5000), 500)),
            ],
        ),
        # A level counts what other schedulers have of it.
        (
            RISE,
            {"batch": MeasuredUsage(1000, 1000), "third_batch": CpuMemory(200, 200)},
            [(0, SAME, 1000)],
        ),
    ],
    ids=["hold", "metric gone", "rise", "third party"],
)
def test_what_is_offered_moves_by_bounded_steps(
    smoothing: Smoothing, node_state: Any, steps: list[tuple[float, Any, int | None]]
) -> None:
    one = fleet(replace(ON, smoothing=smoothing), replace(NODE, **node_state))
    for seconds, metric, expected in steps:
        if metric is not SAME:
            one.metric("n", metric)
        assert resources(one, NOW + seconds)[BATCH_CPU] == expected, seconds


def test_what_is_held_is_still_no_more_than_there_is() -> None:
    strategy = replace(ON, smoothing=HOLD)
    one = fleet(strategy)
    one.calculate(NOW)
    one.node("n", replace(NODE, capacity=CpuMemory(1000, 1000)), strategy, NOW)
    assert resources(one, NOW + 1000)[BATCH_CPU] == 100
    assert outcomes(one)[0].startswith("batch-cpu is held for 120 s at most")


@pytest.mark.parametrize(
    ("offered", "after", "due"),
    [
        (4500, 1000.0, False),
        (4300, 10.0, False),
        (4300, 301.0, True),
        (4000, 10.0, True),
        (5000, 10.0, False),
        (5001, 10.0, True),
        (6000, 10.0, True),
        (None, 10.0, True),
        (0, 10.0, True),
    ],
)
def test_what_moved_far_or_is_old_is_written(offered: int | None, after: float, due: bool) -> None:
    node_state = replace(NODE, batch=MeasuredUsage(offered, 5000), mid=MeasuredUsage(2000, 2000))
    one = fleet(node_state=node_state)
    one.calculate(NOW)
    one.written("n", NOW)
    assert one.calculate(NOW + min(after, 899)) == (["n"] if due else [], [])


def test_another_reason_is_written_when_its_time_has_come() -> None:
    strategy = replace(ON, smoothing=Smoothing(hold_seconds=900))
    one = fleet(strategy)
    found = resources(one)
    batch, mid = ((BATCH_CPU, BATCH_MEMORY), (MID_CPU, MID_MEMORY))
    there = [MeasuredUsage(*(found[name] for name in names)) for names in (batch, mid)]
    one.node("n", replace(NODE, batch=there[0], mid=there[1]), strategy, NOW)
    one.written("n", NOW)
    assert one.calculate(NOW + 800) == ([], [])
    assert one.calculate(NOW + 901) == (["n"], [])
    one.written("n", NOW + 901)
    assert one.calculate(NOW + 902) == ([], [])


@pytest.mark.parametrize(
    ("tiers", "names"),
    [((True, False), {BATCH_CPU, BATCH_MEMORY}), ((False, True), {MID_CPU, MID_MEMORY})],
)
def test_what_is_not_reckoned_stays_as_it_is(tiers: tuple[bool, bool], names: set[str]) -> None:
    one = Fleet(tiers=tiers)
    one.node("n", replace(NODE, batch=MeasuredUsage(7, 7), mid=MeasuredUsage(7, 7)), ON, NOW)
    one.topology("n", ZONES)
    one.metric("n", status())
    assert one.calculate(NOW) == (["n"], ["n"] if tiers[0] else [])
    desired = one.desired("n")
    assert set(desired.resources) == names
    assert bool(desired.annotations) is tiers[0]
    assert {f"kubernetes.io/{each.aspect}" for each in one.decisions("n")} == names
    assert {change.tier for change in one.history("n")} == {0 if tiers[0] else 1}
    assert one.calculate(NOW + 301)[0] == ["n"]


def test_zones_by_the_same_formula() -> None:
    one = fleet()
    one.topology("n", ZONES)
    assert one.calculate(NOW) == (["n"], ["n"])
    assert one.desired_zones("n") == (
        DesiredZone("node-0", 2250, 2500),
        DesiredZone("node-1", 2250, 2500),
    )


def test_zones_of_a_node_that_offers_nothing_are_set_to_zero_once() -> None:
    one = fleet(ColocationStrategy())
    one.topology("n", ZONES)
    assert one.calculate(NOW) == ([], [])
    assert one.desired_zones("n") == ()
    one.topology("n", [ZONES[0]._replace(batch=MeasuredUsage(10, 0)), ZONES[1]])
    assert one.calculate(NOW) == ([], ["n"])
    assert one.desired_zones("n") == (DesiredZone("node-0", 0, 0),)
    one.topology("n", [one_zone._replace(batch=MeasuredUsage(10, 10)) for one_zone in ZONES])
    one.calculate(NOW)
    assert one.desired_zones("n") == (DesiredZone("node-0", 0, 0), DesiredZone("node-1", 0, 0))


def test_a_pod_that_moves_or_goes_is_summed_up_anew() -> None:
    one = fleet(replace(ON, cpu_policy=CalculatePolicy.MAX_USAGE_REQUEST))
    one.node("m", NODE, replace(ON, cpu_policy=CalculatePolicy.MAX_USAGE_REQUEST), NOW)
    one.metric("m", status(podsMetric=[]))
    one.calculate(NOW)
    assert one.desired("m").resources[BATCH_CPU] == 5500
    one.pod("ns/web", pod(), pod("m"))
    one.calculate(NOW)
    assert one.desired("n").resources[BATCH_CPU] == 4500  # measured there still
    assert one.desired("m").resources[BATCH_CPU] == 2500
    one.pod("ns/web", pod("m"), None)
    one.calculate(NOW)
    assert one.desired("m").resources[BATCH_CPU] == 5500


def test_nodes_come_and_go() -> None:
    one = Fleet()
    assert one.calculate(NOW) == ([], [])
    for number in range(200):
        one.node(str(number), NODE, ON, NOW)
        one.metric(str(number), status())
    one.calculate(NOW)
    for number in range(0, 200, 2):
        one.drop(str(number))
    assert len(one) == 100
    assert "1" in one
    assert "0" not in one
    due, _ = one.calculate(NOW)
    assert sorted(map(int, due)) == list(range(1, 200, 2))
    assert one.desired("0") == DesiredNode()
    assert one.decisions("0") == one.desired_zones("0") == one.history("0") == ()
    assert one.strategy("0") is None
    one.node("again", NODE, ON, NOW)
    one.calculate(NOW)
    assert one.desired("again").resources == NOTHING
    one.drop("never there")
    one.written("never there", NOW)
    one.zones_written("never there", NOW)


def test_history_has_each_outcome_once_and_is_bounded() -> None:
    one = fleet()
    for turn in range(2 * MOST_REMEMBERED):
        one.metric("n", status(cpu=1000 if turn % 2 else 9000), NOW)
        one.calculate(NOW + turn)
        one.calculate(NOW + turn + 0.5)
    history = one.history("n")
    assert len(history) == MOST_REMEMBERED
    cpu = [change for change in history if (change.tier, change.resource) == (0, 0)]
    assert [change.outcome for change in cpu[-2:]] == [
        ResourceOutcome.NOTHING,
        ResourceOutcome.LEFT,
    ]
    assert [change.offered for change in cpu[-2:]] == [0, 4500]
    assert cpu[-1].at == NOW + 2 * MOST_REMEMBERED - 1


@given(
    pods=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 4000)), max_size=4),
    ratio=st.sampled_from([1.0, 1.33, 2.5]),
    zones=st.integers(0, 3),
    fall=st.integers(0, 20),
    capacity=st.integers(0, 20_000),
)
def test_whatever_happens_no_more_is_offered_than_there_is(
    pods: list[tuple[int, int]], ratio: float, zones: int, fall: int, capacity: int
) -> None:
    strategy = replace(ON, smoothing=Smoothing(fall_percent=fall, rise_percent=fall))
    one = fleet(strategy)
    for turn, (cpu, memory) in enumerate(pods):
        one.pod(f"ns/{turn}", None, pod(cpu=cpu, memory=memory, numa_nodes=(turn % 2,)))
        one.topology(
            "n",
            [
                NumaZone(f"node-{each}", each, CpuMemory(capacity, capacity))
                for each in range(zones)
            ],
        )
        one.node(
            "n", replace(NODE, capacity=CpuMemory(capacity, capacity), ratio=ratio), strategy, NOW
        )
        found = resources(one, NOW + 40.0 * turn)
        assert 0 <= (found[BATCH_CPU] or 0) <= capacity * ratio
        assert 0 <= (found[BATCH_MEMORY] or 0) <= capacity
        for name, amounts in (
            (BATCH_CPU, [zone.cpu for zone in one.desired_zones("n")]),
            (BATCH_MEMORY, [zone.memory for zone in one.desired_zones("n")]),
        ):
            assert sum(amounts) <= (found[name] or 0)


@pytest.mark.parametrize("part", [1, 3, 64, 1000])
def test_reckoned_in_parts_is_reckoned_all_the_same(part: int) -> None:
    def reckoned() -> tuple[Any, ...]:
        one = Fleet()
        for number in range(100):
            name = f"n{number}"
            one.node(name, NODE, ON, NOW)
            one.topology(name, ZONES)
            one.metric(name, status(cpu=50 * number))
        for number in range(0, 100, 7):
            one.drop(f"n{number}")
        due = one.calculate(NOW)
        names = [name for number in range(one.parts) for name in one.names(number)]
        said = [(name, one.desired(name), one.desired_zones(name)) for name in sorted(names)]
        return [sorted(names) for names in due], sorted(names), said

    whole = reckoned()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("koord_manager.noderesource.core.fleet.PART", part)
        assert reckoned() == whole
    assert len(whole[1]) == 85


def test_a_zone_reported_after_the_pass_waits_for_the_next() -> None:
    one = fleet()
    one.calculate(NOW)
    many = tuple(NumaZone(f"node-{place}", place, CpuMemory(1000, 1000)) for place in range(5))
    one.topology("n", many)
    assert len(one.desired_zones("n")) <= 2
    one.calculate(NOW)
    assert [zone.name for zone in one.desired_zones("n")] == [zone.name for zone in many]
    for number in range(100):
        one.node(f"new-{number}", NODE, ON, NOW)
    assert one.desired("new-99") == DesiredNode()
    assert one.desired_zones("new-99") == one.decisions("new-99") == ()


SAID = st.sampled_from(
    ["1", "-5", "250m", "1Gi", "1e30", "1e400", "NaN", "", "0-3", "1.15", "koord-batch", "node-0"]
)
QUANTITY = st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | SAID
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", BATCH_CPU, MID_MEMORY]), QUANTITY)
USED = st.fixed_dictionaries({}, optional={"resources": AMOUNTS})
ANNOTATION = SAID | st.builds(
    lambda amounts: json.dumps(
        {"resources": amounts, "allocations": [{"priority": "koord-batch", "resources": amounts}]}
    ),
    AMOUNTS,
)
NODE_ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [
            ANNOTATION_CPU_NORMALIZATION_RATIO,
            ANNOTATION_NODE_RESERVATION,
            ANNOTATION_RAW_ALLOCATABLE,
            ANNOTATION_THIRD_PARTY,
        ]
    ),
    ANNOTATION,
)
METRIC = st.fixed_dictionaries(
    {"updateTime": st.sampled_from(["2026-11-20T10:00:00Z", "9999-12-31T23:59:59-14:00"])},
    optional={
        "nodeMetric": st.fixed_dictionaries({}, optional={"nodeUsage": USED, "systemUsage": USED}),
        "podsMetric": st.lists(st.fixed_dictionaries({"podUsage": USED, "priority": SAID})),
        "prodReclaimableMetric": st.none() | st.fixed_dictionaries({"resource": USED}),
    },
)
LISTED = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["cpu", "memory"]), "allocatable": QUANTITY})
)
TOPOLOGY = st.lists(st.fixed_dictionaries({"name": SAID, "resources": LISTED}), max_size=4)


@given(NODE_ANNOTATIONS, AMOUNTS, AMOUNTS, METRIC | QUANTITY, TOPOLOGY, AMOUNTS)
@example({ANNOTATION_CPU_NORMALIZATION_RATIO: "1.15"}, {"cpu": "8020323510309"}, {}, None, [], {})
def test_whatever_one_node_says_another_is_reckoned_as_ever(
    annotations: Any, capacity: Any, allocatable: Any, metric: Any, topology: Any, requests: Any
) -> None:
    one = fleet()
    document = {
        "metadata": {"annotations": annotations},
        "status": {"capacity": capacity, "allocatable": allocatable},
    }
    one.node("bad", read_node_state(document), ON, NOW)
    one.metric("bad", json.dumps(metric).encode())
    one.topology("bad", zones({"zones": topology}))
    containers = [{"resources": {"requests": requests}}]
    asking = {"spec": {"nodeName": "bad", "containers": containers}, "status": {"phase": "Running"}}
    with suppress(ValueError):
        one.pod("ns/bad", None, read_pod_summary(json.dumps(asking).encode()))
    alone = fleet()
    alone.calculate(NOW)
    for seconds in (0, 30):
        one.calculate(NOW + seconds)
        offered = one.desired("bad").resources
        assert all(amount is None or 0 <= amount < 1 << 63 for amount in offered.values())
        for name, place in ((BATCH_CPU, 1), (BATCH_MEMORY, 2)):
            in_zones = sum(zone[place] for zone in one.desired_zones("bad"))
            assert in_zones <= (offered[name] or 0)
    assert one.desired("n").resources == alone.desired("n").resources
