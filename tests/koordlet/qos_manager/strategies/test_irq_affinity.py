"""Interrupts: the fair assignment, and what the strategy makes of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.interrupts import NetworkCard, NodeInterrupts, QueueInterrupt
from koord_model.node_info import Processor
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.strategy import Plan, StrategyView
from koordlet.qos_manager.strategies.irq_affinity.fair import assign, receive_cpus, split, usable
from koordlet.qos_manager.strategies.irq_affinity.strategy import Settings, plan

from tests.host.conftest import STRATEGY, make_executor
from tests.support.fake_interrupts import FakeInterrupts
from tests.support.views import FakeLatest, cpu_info, pod_view, view


def card(name: str, irqs: int, first: int = 30, **fields: Any) -> NetworkCard:
    queues = tuple(range(irqs))
    interrupts = tuple(QueueInterrupt(first + queue, queue) for queue in queues)
    path = f"/sys/class/net/{name}"
    return NetworkCard(name, path, interrupts, queues, queues, **fields)


CPUS = st.builds(
    lambda nodes, caches, cores, threads: [
        Processor(
            (thread * cores * caches + core) * nodes + node,
            node * 1000 + core,
            node,
            node,
            node * 10 + core % caches,
        )
        for node in range(nodes)
        for core in range(cores * caches)
        for thread in range(threads)
    ],
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 2),
)


@given(st.integers(0, 200), st.integers(1, 9))
def test_runs_differ_by_one(items: int, parts: int) -> None:
    found = split(list(range(items)), parts)
    assert [item for run in found for item in run] == list(range(items))
    assert max(map(len, found)) - min(map(len, found)) <= 1


@given(st.lists(st.integers(1, 70), min_size=1, max_size=3), CPUS, st.data())
def test_every_interrupt_has_a_cpu_evenly_and_nothing_forbidden(
    sizes: list[int], cpus: list[Processor], data: st.DataObject
) -> None:
    forbidden = data.draw(st.sets(st.sampled_from([cpu.id for cpu in cpus])))
    cards = [card(f"eth{at}", size, 100 * at) for at, size in enumerate(sizes)]
    allowed = usable(cpus, forbidden)
    found = assign(cards, allowed)
    assert found.keys() == {one.irq for each in cards for one in each.interrupts}
    assert len(forbidden) == len(cpus) or not forbidden & set(found.values())
    by_id = {cpu.id: cpu for cpu in cpus}
    nodes = {cpu.node for cpu in allowed}
    for each in cards:
        counts = Counter(by_id[found[one.irq]].node for one in each.interrupts)
        assert max(counts.values()) - min(counts[node] for node in nodes) <= 1
    for place in {(cpu.node, cpu.l3) for cpu in allowed}:
        counts = Counter(cpu for cpu in found.values() if (by_id[cpu].node, by_id[cpu].l3) == place)
        cores: Counter[int] = Counter(
            {cpu.core: 0 for cpu in allowed if (cpu.node, cpu.l3) == place}
        )
        for cpu, count in counts.items():
            cores[by_id[cpu].core] += count
        assert max(cores.values()) - min(cores.values()) <= 1
    steered = receive_cpus(cards[0], found, allowed)
    assert steered.keys() == set(cards[0].rx_queues)
    assert all(cpus and not cpus - {cpu.id for cpu in allowed} for cpus in steered.values())


def test_packets_go_on_beside_interrupts_where_the_domain_is_large() -> None:
    cpus = cpu_info(16, 2, smt=False).processors
    two = card("eth0", 4)
    assert set(assign([two], cpus).values()) == {0, 1, 8, 9}
    found = receive_cpus(two, assign([two], cpus), cpus)
    assert found == {0: frozenset(range(2, 8)), 1: frozenset(range(2, 8)),
                     2: frozenset(range(10, 16)), 3: frozenset(range(10, 16))}  # fmt: skip
    many = card("eth0", 6)  # three of eight CPUs: less than four times as many
    assert receive_cpus(many, assign([many], cpus), cpus)[0] == frozenset(range(8))


def shown(*cards: NetworkCard, balancer: str = "", **others: Any) -> StrategyView:
    found = NodeInterrupts(0.0, cards, balancer=balancer)
    return view(latest=FakeLatest({}, found, cpu_info(8, 2)), **others)


def values(found: Plan) -> dict[tuple[str, str], Any]:
    return {(one.target.knob, one.target.place): one.value for one in found.desired}


def test_interrupts_keep_off_cpus_of_lse_pods_and_the_same_view_moves_nothing() -> None:
    own = pod_view("db", qos=QoSClass.LSE, cpuset="0,4")
    found = plan(shown(card("eth0", 4), pods=(own,)), Settings(), None)
    assert list(values(found).values()) == ["1", "5", "2", "3"]
    assert [one.outcome for one in found.decisions] == [
        "interrupts of eth0 are spread over CPUs 1-3,5"
    ]
    assert plan(shown(card("eth0", 4), pods=(own,)), Settings(), found.memory) == found


def test_queues_are_steered_if_there_are_few() -> None:
    few = plan(shown(card("eth0", 1)), Settings(rps_cpus_per_queue=4, disable_xps=True), None)
    assert values(few)["rps_cpus", "/sys/class/net/eth0/queues/rx-0"] == "1,4-5"
    assert not [knob for knob, _ in values(few) if knob == "xps_cpus"]  # it has one queue
    many = plan(shown(card("eth0", 4)), Settings(rps_cpus_per_queue=4, disable_xps=True), None)
    assert {knob for knob, _ in values(many)} == {"irq.smp_affinity_list", "xps_cpus"}


ALONE = (
    "interrupts are left alone: irqbalance (PID 7) moves them; "
    "stop it (systemctl stop irqbalance), or turn this strategy off"
)


@pytest.mark.parametrize(
    ("shown_view", "outcome"),
    [
        (view(), "interrupts stay: cards and CPUs are not known yet"),
        (
            shown(card("eth0", 4), pods_known=False),
            "interrupts stay: which pods run is not known yet",
        ),
        (
            shown(card("eth0", 4), balancer="irqbalance (PID 7)"),
            ALONE,
        ),
        (shown(), None),
        (shown(NetworkCard("veth0", "/sys/class/net/veth0")), None),
    ],
)
def test_interrupts_are_left_alone(shown_view: StrategyView, outcome: str | None) -> None:
    found = plan(shown_view, Settings(), None)
    assert (found.desired, [one.outcome for one in found.decisions]) == (
        (), [outcome] if outcome else [],
    )  # fmt: skip


def test_writes_are_restored_and_managed_interrupts_reported_once() -> None:
    files = FakeInterrupts(8)
    files.add_card("eth0", (29, 30, 31))
    files.managed = {31}
    executor = make_executor(files)  # type: ignore[arg-type]
    found = plan(shown(card("eth0", 2)), Settings(rps_cpus_per_queue=1), None)
    executor.set_desired(STRATEGY, "", found.desired)
    news = executor.apply().news
    assert files.affinity(30) == "0"
    refused = [one for one in news if one.errno]
    assert [(one.target.place, one.reason) for one in refused] == [
        ("/proc/irq/31", "Input/output error")
    ]
    assert files.read("/sys/class/net/eth0/queues/rx-0/rps_cpus") == "32\n"
    assert not [one for one in executor.apply().news if one.errno]
    executor.forget(STRATEGY, "")
    executor.apply()
    assert (files.affinity(30), files.affinity(31)) == ("0-7", "0-7")
    assert files.read("/sys/class/net/eth0/queues/rx-0/rps_cpus") == "00\n"
