"""What is reclaimed of whom, and when nothing is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.table import KNOBS
from koord_model.keys import BATCH_MEMORY, MEMORY
from koord_model.node import Kernel, NodeView
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.strategy import Plan, PodView, StrategyView, WindowStats
from koordlet.qos_manager.strategies import memory_offload
from koordlet.qos_manager.strategies.memory_offload import Settings, plan

from tests.support.views import (
    GIB,
    STEADY,
    V1,
    FakeHistory,
    FakeLatest,
    pod_view,
    stats,
    view,
)

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
    series = {} if found is None else {("pod_psi", one.uid, *("mem", "avg10", "some")): found
                                       for one in pods}  # fmt: skip
    values = {} if use is None else {(kind, one.uid): use for one in pods}
    return view(
        pods=pods,
        node=NodeView(kernel=Kernel(knobs=knobs)),
        latest=FakeLatest(values),
        history=FakeHistory(series),
        **others,
    )


def amounts(made: Plan) -> dict[str, int]:
    for one in made.deeds:
        KNOBS[one.target.knob].check(one.value)
        assert one.target.knob == RECLAIM
    return {one.target.place: int(one.value) for one in made.deeds}


def outcome(made: Plan) -> str:
    [decision] = made.decisions
    return decision.outcome


def test_the_strategy_is_ours() -> None:
    assert (memory_offload.GATE, memory_offload.INTERVAL) == ("MemoryOffload", 30.0)
    assert memory_offload.settings(NodeSLO()) == Settings()


@pytest.mark.parametrize(
    ("pressure", "part"), [(0.0, 1.0), (5.0, 0.5), (9.0, 0.1), (10.0, 0.0), (80.0, 0.0)]
)
def test_the_less_the_nearer_the_target(pressure: float, part: float) -> None:
    pod = job()
    made = plan(node(pod, pressure=pressure), Settings(), None)
    wanted = part * 4 * GIB / 100
    assert amounts(made).get(pod.group, 0) == pytest.approx(wanted, abs=2)
    assert [one.value for one in made.signals] == list(amounts(made).values())


def test_it_says_why() -> None:
    pod = job()
    made = plan(node(pod, pressure=5.0), Settings(), None)
    assert outcome(made) == "memory that it does not miss is reclaimed"
    [decision] = made.decisions
    assert (decision.pod, [one.name for one in decision.given]) == (
        "ns/job",
        ["pressure", "target", "share", "use", "floor", "most", "amount"],
    )
    assert made.deeds[0].why == str(decision)
    assert made.deeds[0].pod == "ns/job"


def test_a_pod_that_just_began_to_wait_is_left_alone_at_once() -> None:
    made = plan(node(job(), pressure=stats(1.0, last=12.0)), Settings(), None)
    assert made.deeds == ()
    assert outcome(made) == "nothing is reclaimed: it waits for memory already"


@pytest.mark.parametrize(
    ("missing", "words"), [({"pressure": None}, "pressure"), ({"use": None}, "use")]
)
def test_what_is_not_known_means_nothing(missing: dict[str, None], words: str) -> None:
    made = plan(node(job(), **missing), Settings(), None)
    assert made.deeds == ()
    assert outcome(made) == f"nothing is reclaimed: its memory {words} is not known"


@pytest.mark.parametrize(
    ("requests", "use", "amount"),
    [
        ({BATCH_MEMORY: 8 * GIB}, 4.0 * GIB, 0),
        ({MEMORY: 8 * GIB}, 4.0 * GIB, 0),
        ({BATCH_MEMORY: 8 * GIB}, 4.0 * GIB + (8 << 20), 8 << 20),
        ({}, float(60 << 20), 0),
        ({}, float(66 << 20), 0),
        ({}, float(200 << 20), 2 << 20),
        ({}, 64.0 * GIB, 256 << 20),
    ],
)
def test_what_a_pod_keeps(requests: dict[str, int], use: float, amount: int) -> None:
    pod = pod_view("job", qos=BE, requests=requests)
    made = plan(node(pod, use=use), Settings(), None)
    assert amounts(made) == ({pod.group: amount} if amount else {})


def test_with_page_cache_where_that_is_measured() -> None:
    pod = job()
    kind = "pod_memory_usage_with_page_cache"
    assert amounts(plan(node(pod, kind=kind), Settings(), None)) == {pod.group: 4 * GIB // 100}


def test_of_whom() -> None:
    pods = (
        job("be"), job("ls", qos=QoSClass.LS), job("vm", runtime_handler="kata"), job("going")
    )  # fmt: skip
    made = plan(node(*pods, evicting=frozenset({"going"})), Settings(), None)
    assert list(amounts(made)) == [pods[0].group]
    made = plan(node(*pods), Settings(classes=(QoSClass.LS,)), None)
    assert list(amounts(made)) == [pods[1].group]


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"layout": V1}, "cgroup v1 has no memory.reclaim"),
        ({"knobs": frozenset()}, "this kernel has no memory.reclaim (Linux 5.19 has)"),
    ],
)
def test_where_it_cannot_be_done(others: dict[str, Any], words: str) -> None:
    made = plan(node(job(), **others), Settings(), None)
    assert (made.deeds, outcome(made)) == ((), f"nothing is reclaimed: {words}")


@pytest.mark.parametrize(("after", "again"), [(0.0, False), (20.0, False), (29.5, True)])
def test_it_is_done_once_in_its_time(after: float, again: bool) -> None:
    pod = job()
    first = plan(node(pod), Settings(), None)
    later = plan(node(pod, steady=STEADY + after), Settings(), first.memory)
    assert bool(later.deeds) is again
    assert [one.outcome for one in later.decisions] == [one.outcome for one in first.decisions]


def test_the_same_view_and_memory_give_the_same_plan() -> None:
    seen = node(job())
    assert plan(seen, Settings(), None) == plan(seen, Settings(), None)


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
