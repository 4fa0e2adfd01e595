"""What is reclaimed of which pods, and when nothing is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.table import KNOBS
from koord_model.keys import BATCH_MEMORY, MEMORY
from koord_model.node import Kernel, NodeView
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koord_model.service_profile import ServiceProfile
from koordlet.qos_manager.core.strategy import Plan, PodView, StrategyView, WindowStats
from koordlet.qos_manager.strategies.memory_offload.strategy import OffloadPolicy, Settings, plan

from tests.support.formulas import wrong
from tests.support.views import GIB, STEADY, V1, FakeHistory, FakeLatest, pod_view, stats, view

BE = QoSClass.BE
RECLAIM = "memory.reclaim"


def job(name: str = "job", request: int = GIB, **others: Any) -> PodView:
    return pod_view(name, qos=others.pop("qos", BE), requests={BATCH_MEMORY: request}, **others)


def node(
    *pods: PodView,
    pressure: float | WindowStats | None = 0.0,
    use: float | None = 4.0 * GIB,
    knobs: frozenset[str] = frozenset({RECLAIM}),
    kind: str = "pod_memory_usage",
    **others: Any,
) -> StrategyView:
    found = stats(pressure) if isinstance(pressure, float) else pressure
    keys = [("pod_psi", one.uid, "mem", "avg10", "some") for one in pods]
    series = {} if found is None else dict.fromkeys(keys, found)
    values = {} if use is None else {(kind, one.uid): use for one in pods}
    return view(
        pods=pods,
        node=NodeView(kernel=Kernel(knobs=knobs)),
        latest=FakeLatest(values),
        history=FakeHistory(series),
        **others,
    )


def amounts(made: Plan) -> dict[str, int]:
    for one in made.one_shot:
        KNOBS[one.target.knob].check(one.value)
        assert one.target.knob == RECLAIM
    return {one.target.place: int(one.value) for one in made.one_shot}


def outcome(made: Plan) -> str:
    [decision] = made.decisions
    return decision.outcome


def planned(seen: StrategyView, memory: object = None, **settings: Any) -> Plan:
    return plan(seen, Settings(**{"target_percent": 10, **settings}), memory)


ONE = 4 * GIB // 100
MIB = 1 << 20


@pytest.mark.parametrize(
    ("pressure", "requests", "use", "amount"),
    [
        # One percent, and the less the nearer the pressure is to 10 %.
        (0.0, {BATCH_MEMORY: GIB}, 4.0 * GIB, ONE),
        (5.0, {BATCH_MEMORY: GIB}, 4.0 * GIB, ONE // 2),
        (9.0, {BATCH_MEMORY: GIB}, 4.0 * GIB, ONE // 10),
        (10.0, {BATCH_MEMORY: GIB}, 4.0 * GIB, 0),
        (80.0, {BATCH_MEMORY: GIB}, 4.0 * GIB, 0),
        # A pod that just began to wait is left alone at once.
        (stats(1.0, last=12.0), {BATCH_MEMORY: GIB}, 4.0 * GIB, 0),
        # It keeps half of its request.
        (0.0, {BATCH_MEMORY: 8 * GIB}, 4.0 * GIB, 0),
        (0.0, {MEMORY: 8 * GIB}, 4.0 * GIB, 0),
        (0.0, {BATCH_MEMORY: 8 * GIB}, 4.0 * GIB + 8 * MIB, 8 * MIB),
        (0.0, {}, 60.0 * MIB, 0),
        (0.0, {}, 66.0 * MIB, 0),
        (0.0, {}, 200.0 * MIB, 2 * MIB),
        (0.0, {}, 64.0 * GIB, 256 * MIB),
    ],
)
def test_how_much_is_reclaimed(
    pressure: float | WindowStats, requests: dict[str, int], use: float, amount: int
) -> None:
    pod = pod_view("job", qos=BE, requests=requests)
    made = planned(node(pod, pressure=pressure, use=use))
    assert amounts(made).get(pod.group, 0) == pytest.approx(amount, abs=2)
    assert [one.value for one in made.signals] == list(amounts(made).values())


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (node(job(), pressure=12.0), "it waits for memory already"),
        (node(job(), pressure=None), "its memory pressure is not known"),
        (node(job(), use=None), "its memory use is not known"),
        (node(job(), layout=V1), "cgroup v1 has no memory.reclaim"),
        (node(job(), knobs=frozenset()), "this kernel has no memory.reclaim (Linux 5.19 has)"),
    ],
)
def test_why_nothing_is_reclaimed(seen: StrategyView, reason: str) -> None:
    made = planned(seen)
    assert (made.one_shot, outcome(made)) == ((), f"nothing is reclaimed: {reason}")


def test_from_which_pods_memory_is_reclaimed() -> None:
    others = job("ls", qos=QoSClass.LS), job("vm", runtime_handler="kata"), job("going")
    pods = job("be"), *others
    made = planned(node(*pods, evicting=frozenset({"going"})))
    assert list(amounts(made)) == [pods[0].group]
    made = planned(node(*pods), classes=(QoSClass.LS,))
    assert list(amounts(made)) == [pods[1].group]
    # With page cache where that is measured.
    with_cache = node(pods[0], kind="pod_memory_usage_with_page_cache")
    assert amounts(planned(with_cache)) == {pods[0].group: ONE}


GROUP_STAT = {"inactive_anon": 0, "inactive_file": GIB, "page_cache": 2 * GIB, "file_mapped": 0}
COUNTS = {"pgscan": 10.0, "pgsteal": 10.0, "workingset_activate": 0.0}


def measured(
    pod: PodView, swap_free: int = 0, counts: dict[str, float] = COUNTS, **stat: int
) -> StrategyView:
    """A pod of 4 GiB under no pressure, of which page cache and refaults are known."""
    sizes = GROUP_STAT | {"swap_free": swap_free} | stat
    seen = node(pod)
    latest = {("pod_memory_stat", pod.uid, name): size for name, size in sizes.items()}
    series = {("pod_memory_reclaim", pod.uid, name): stats(rate) for name, rate in counts.items()}
    return replace(
        seen,
        latest=FakeLatest({("pod_memory_usage", pod.uid): 4.0 * GIB} | latest),
        history=FakeHistory(seen.history.series | series),  # type: ignore[attr-defined]
    )


@pytest.mark.parametrize("enabled", [True, False])
def test_a_profile_says_of_which_pods_whatever_their_class(enabled: bool) -> None:
    """``enableTMO`` of the services' profiles; pods of the baseline are as without one."""
    pods = [job("a"), job("b"), job("c", qos=QoSClass.LS), job("d", labels={"odd": ""})]
    names = {"matchExpressions": [{"key": "odd", "operator": "DoesNotExist"}]}
    profile = ServiceProfile("ns/web", names, "ns", {}, enabled, memory_baseline=frozenset("b"))
    seen = node(*pods)
    seen = replace(seen, node=replace(seen.node, slo=NodeSLO(services=(profile,))))
    found = {decision.pod for decision in plan(seen, Settings(), None).decisions}
    assert found == {"ns/b", "ns/d"} | ({"ns/a", "ns/c"} if enabled else set())


@pytest.mark.parametrize(
    ("policy", "counts", "stat", "amount"),
    [
        ("psi", {}, {}, ONE),
        ("refault", COUNTS, {"inactive_file": 20 * MIB}, 2 * MIB),
        ("integrated", COUNTS, {"inactive_file": 20 * MIB}, 2 * MIB),
        ("integrated", COUNTS, {}, ONE),
        # The kernel scans in vain, or what it took is read again.
        ("refault", COUNTS | {"pgscan": 20.0}, {}, 0),
        ("refault", COUNTS | {"workingset_activate": 1.0}, {}, 0),
        # Without swap mapped page cache is left alone; with swap it does not matter.
        ("psi", {}, {"file_mapped": GIB + 1}, 0),
        ("psi", {}, {"file_mapped": GIB + 1, "swap_free": GIB}, ONE),
        ("psi", {}, {"page_cache": 3 * MIB}, 6 * MIB),
    ],
)
def test_policies_and_page_cache(
    policy: str, counts: dict[str, float], stat: dict[str, int], amount: int
) -> None:
    pod = job()
    made = planned(measured(pod, counts=counts, **stat), policy=OffloadPolicy(policy))
    assert amounts(made).get(pod.group, 0) == amount
    assert wrong(made.decisions[0]) == []


def test_refaults_shrink_what_is_reclaimed_next() -> None:
    pod = job()
    settings = {"policy": OffloadPolicy.REFAULT}
    made = planned(measured(pod), **settings)
    missed = measured(pod, counts=COUNTS | {"workingset_activate": 5.0})
    made = planned(replace(missed, steady=STEADY + 30), made.memory, **settings)
    assert amounts(made) == {pod.group: ONE // 2}
    # A group that was made again has no counters yet, and begins from nothing.
    unknown = replace(measured(pod, counts={}), steady=STEADY + 60)
    made = planned(unknown, made.memory, **settings)
    assert outcome(made) == "nothing is reclaimed: its refaults are not known"
    made = planned(replace(missed, steady=STEADY + 90), made.memory, **settings)
    assert amounts(made) == {}


def test_idle_page_cache_that_is_reserved_stays() -> None:
    pod = job()
    seen = measured(pod, inactive_file=30 * MIB)
    assert amounts(planned(seen, reserved_inactive_file_bytes=10 * MIB)) == {pod.group: 20 * MIB}
    assert amounts(planned(seen, reserved_inactive_file_bytes=30 * MIB)) == {}


@pytest.mark.parametrize(("after", "again"), [(0.0, False), (20.0, False), (29.5, True)])
def test_it_is_done_once_in_its_time(after: float, again: bool) -> None:
    pod = job()
    first = planned(node(pod))
    assert planned(node(pod)) == first
    later = planned(node(pod, steady=STEADY + after), first.memory)
    assert bool(later.one_shot) is again
    assert [one.outcome for one in later.decisions] == [one.outcome for one in first.decisions]


@given(
    st.floats(0, 100), st.floats(0, 1e12), st.integers(0, 1 << 40), st.floats(0.1, 100),
    st.floats(0.1, 20),
)  # fmt: skip
def test_never_below_the_floor_nor_more_than_the_share(
    pressure: float, use: float, request: int, target: float, share: float
) -> None:
    settings = Settings(target_percent=target, share_percent=share)
    made = plan(node(job(request=request), pressure=pressure, use=use), settings, None)
    for amount in amounts(made).values():
        assert pressure < target
        assert settings.least_bytes <= amount <= min(use * share / 100, settings.most_bytes)
        assert use - amount >= max(request / 2, settings.floor_bytes)
