"""CPUs of a card's own: when it gets them, how many, and how its interrupts move among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from koord_model.interrupts import NetworkCard, NodeInterrupts, QueueInterrupt
from koord_model.node import SharedPool, Topology
from koord_model.node_info import Processor
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.strategy import Plan
from koordlet.qos_manager.strategies.irq_affinity import strategy
from koordlet.qos_manager.strategies.irq_affinity.exclusive import (
    ExclusiveInputs,
    ExclusiveState,
    IrqPolicy,
    advance,
    bounds,
    select,
    spread,
    wanted_count,
)
from koordlet.qos_manager.strategies.irq_affinity.fair import assign

from tests.support.views import FakeLatest, cpu_info, pod_view, view


@cache
def machine(cpus: int) -> tuple[Processor, ...]:
    return cpu_info(cpus, 2).processors


@dataclass
class Loop:
    """A card of a node: each step is a measurement. An interrupt costs ``costs`` % of a CPU."""

    costs: dict[int, float]
    packets: float = 100_000.0
    cpus: int = 64
    policy: IrqPolicy = IrqPolicy.AUTO
    containers: int = 0
    forbidden: frozenset[int] = frozenset()
    state: ExclusiveState = field(default_factory=ExclusiveState)
    now: float = 10_000.0
    seconds: float = 5.0
    notes: list[str] = field(default_factory=list)

    @property
    def card(self) -> NetworkCard:
        interrupts = tuple(QueueInterrupt(irq, irq, 100 * cost) for irq, cost in self.costs.items())
        return NetworkCard("eth0", "/sys/class/net/eth0", interrupts, packets=self.packets)

    def busy(self, assigned: Mapping[int, int]) -> dict[int, float]:
        found = dict.fromkeys(range(self.cpus), 0.0)
        for irq, cpu in assigned.items():
            found[cpu] += self.costs.get(irq, 0.0)
        return {cpu: min(load, 100.0) for cpu, load in found.items()}

    def step(self, times: int = 1) -> ExclusiveState:
        for _ in range(times):
            self.now += self.seconds
            everything = machine(self.cpus)
            candidates = [cpu for cpu in everything if cpu.id not in self.forbidden]
            fair = assign([self.card], candidates)
            serving = self.state.assigned if self.state.cpus else fair
            inputs = ExclusiveInputs(
                self.now, self.busy(serving), candidates, self.cpus, fair,
                lambda _: self.containers,
            )  # fmt: skip
            self.state = advance(self.card, self.state, inputs, self.policy)
            if self.state.note not in self.notes[-1:]:
                self.notes.append(self.state.note)
        return self.state


def busy_loop(**fields: object) -> Loop:
    """A card of 16 queues that takes two CPUs, with CPUs of its own."""
    loop = Loop(dict.fromkeys(range(16), 12.5), **fields)  # type: ignore[arg-type]
    loop.step(40)
    return loop


def test_counts_of_cpus() -> None:
    assert bounds(64) == (1, 19)
    assert [wanted_count(use, 64) for use in (0.5, 0.51, 2.0, 50.0)] == [1, 2, 4, 19]
    # Katalyst takes the most where the fewest are too many.
    assert wanted_count(0.1, 400) == bounds(400)[0] == 8


def test_a_busy_card_gets_cpus_after_thirty_measurements_and_one_fifth_more() -> None:
    loop = Loop(dict.fromkeys(range(16), 15.0))
    assert loop.step(29).claimed == frozenset()
    assert len(loop.step().claimed) == 3  # 5 % of 64 at once
    state = loop.step(5)
    assert (len(state.cpus), state.note) == (6, "it has CPUs of its own")  # ⌈2.4 / 0.5⌉ × 1.2
    assert set(state.assigned.values()) == state.cpus == state.claimed
    assert {cpu % 32 // 16 for cpu in state.cpus} == {0, 1}  # both NUMA nodes


def test_packets_between_both_thresholds_change_nothing_and_few_begin_anew() -> None:
    loop = Loop({0: 20.0, 1: 20.0})
    loop.step(20)
    loop.packets = 45_000.0
    loop.step(20)
    assert loop.state.above == 20
    loop.packets = 30_000.0
    assert loop.step().above == 0


def test_an_idle_card_gives_them_back_after_thirty_measurements_and_ten_minutes() -> None:
    loop = busy_loop()
    loop.packets = 1000.0
    entered = loop.state.switched
    while loop.state.cpus:
        loop.step()
    assert loop.now - entered > 600
    assert loop.state.note == "back to all CPUs: up to 30000 packets a second"
    loop.packets = 100_000.0
    left = loop.now
    while not loop.state.claimed:
        loop.step()
    assert loop.now - left > 600


def test_interrupts_wait_until_containers_have_left() -> None:
    loop = Loop(dict.fromkeys(range(16), 12.5), containers=3)
    loop.step(31)
    claimed = loop.state.claimed
    assert claimed
    assert loop.step(100).cpus == frozenset()
    loop.step(30)
    assert loop.state.claimed == frozenset()
    assert loop.state.note == "back to all CPUs: containers have not left CPUs for 600 s"


def test_a_full_card_goes_back_to_all_cpus_at_once() -> None:
    loop = busy_loop()
    loop.costs = dict.fromkeys(range(16), 30.0)
    assert loop.step().claimed == frozenset()
    assert loop.state.note == "back to all CPUs: its CPUs are in interrupts for 85 % of the time"
    loop.containers = 1
    growing = busy_loop()
    growing.costs, growing.containers = dict.fromkeys(range(16), 17.0), 1
    growing.step()
    assert growing.state.claimed > growing.state.cpus
    growing.costs = dict.fromkeys(range(16), 30.0)
    assert growing.step().claimed == frozenset()  # also while it waits for more


def test_more_load_than_it_may_have_is_left_to_all_cpus() -> None:
    loop = Loop(dict.fromkeys(range(60), 25.0))
    loop.step(60)
    assert loop.notes == ["", "19 CPUs, the most it may have, would not do"]
    small = Loop({0: 10.0}, cpus=2)
    assert small.step(40).note == "2 CPUs are too few to give some away"


def test_growth_takes_load_to_the_new_cpus() -> None:
    # Katalyst's loop that balances after growth ends before its first step.
    loop = busy_loop()
    before = loop.state.cpus
    loop.costs = dict.fromkeys(range(16), 16.0)
    loop.step(4)
    assert loop.state.cpus > before
    assert max(loop.busy(loop.state.assigned).values()) <= 60
    assert set(loop.state.assigned.values()) == loop.state.cpus


def uneven() -> Loop:
    loop = busy_loop()
    cpus = sorted(loop.state.cpus)
    loop.state = replace(loop.state, assigned={irq: cpus[min(irq // 5, 3)] for irq in range(16)})
    return loop


def test_the_first_balance_moves_at_most_two() -> None:
    # Katalyst writes to a map here that it never made.
    loop = uneven()
    loop.costs |= {0: 25.0, 1: 20.0, 2: 10.0, 3: 10.0, 4: 5.0, 10: 1.0}
    before = loop.state.assigned
    after = loop.step().assigned
    moved = [irq for irq in before if before[irq] != after[irq]]
    # (70 − 12.5) / 2 is 28.75 % of a CPU's time: 25, and then nothing that fits but …
    assert moved == [0]
    assert loop.state.pair is not None
    assert loop.step().assigned == after  # 10 s between two


def test_the_same_pair_again_asks_for_one_more_cpu() -> None:
    loop = uneven()
    source, target = sorted(loop.state.cpus)[0], sorted(loop.state.cpus)[3]
    loop.costs |= {0: 25.0, 1: 20.0, 2: 10.0, 3: 10.0, 4: 5.0}
    loop.state = replace(loop.state, pair=(source, target), balanced=loop.now - 100)
    before = len(loop.state.cpus)
    loop.step(2)
    assert len(loop.state.cpus) == before + 1


def test_fewer_cpus_one_by_one_with_all_waiting_times() -> None:
    loop = busy_loop()
    loop.costs = dict.fromkeys(range(16), 4.0)
    grown, before = loop.state.grown, loop.state.cpus
    while loop.state.cpus == before:
        loop.step()
    assert loop.now - grown >= 300
    assert len(loop.state.cpus) == len(before) - 1
    first = loop.now
    before = loop.state.cpus
    while loop.state.cpus == before:
        loop.step()
    assert loop.now - first >= 30
    assert len(loop.step(200).cpus) == wanted_count(0.64, 64) == 2


def test_interrupts_that_come_and_go_have_a_cpu_also_while_it_grows() -> None:
    loop = busy_loop()
    loop.costs = dict.fromkeys(range(2, 18), 17.0)
    loop.containers = 1
    state = loop.step(2)
    assert state.claimed > state.cpus
    loop.costs[40] = 1.0
    assert loop.step().assigned.keys() == loop.costs.keys()


def test_a_cpu_that_somebody_owns_now_ends_it() -> None:
    loop = busy_loop()
    loop.forbidden = frozenset(list(loop.state.cpus)[:1])
    assert loop.step().note == "back to all CPUs: a CPU of its own went to somebody else"


@given(st.lists(st.floats(0, 60), min_size=1, max_size=24), st.sampled_from([4, 16, 61, 128]))
@settings(max_examples=25)
def test_under_a_static_load_everything_comes_to_rest(costs: list[float], cpus: int) -> None:
    loop = Loop(dict(enumerate(costs)), cpus=cpus, policy=IrqPolicy.EXCLUSIVE)
    least, most = bounds(cpus)
    for number in range(100):
        state = loop.step()
        loop.seconds = 5.0 if number < 40 else 31.0
        if state.cpus:
            assert state.assigned.keys() == loop.costs.keys()
            assert set(state.assigned.values()) <= state.cpus <= state.claimed
            assert least <= len(state.cpus) <= len(state.claimed) <= most
    loop.seconds = 67.0
    after = loop.step(30)
    assert (after.cpus, after.assigned) == (state.cpus, state.assigned), loop.notes


@given(st.integers(0, 16), st.integers(2, 32), st.data())
def test_selected_cpus_keep_those_held(count: int, cpus: int, data: st.DataObject) -> None:
    candidates = cpu_info(cpus, 2).processors
    held = select(data.draw(st.integers(0, count)), candidates, ())
    found = select(count, candidates, held)
    assert len(found) == min(count, cpus)
    assert held <= found


@given(
    st.dictionaries(st.integers(0, 40), st.integers(0, 9), min_size=1),
    st.sets(st.integers(0, 9), min_size=1),
)
def test_interrupts_are_spread_without_a_needless_move(
    assigned: dict[int, int], cpus: set[int]
) -> None:
    found = spread(assigned, assigned, cpus)
    assert found.keys() == assigned.keys()
    assert set(found.values()) <= cpus
    if len(assigned) >= len(cpus):
        assert set(found.values()) == cpus
    assert spread(found, found, cpus) == found


SHARED = Topology((SharedPool(0, "0-31"),))


def test_the_plan_sets_cpus_aside_and_leaves_pods_their_own() -> None:
    interrupts = tuple(QueueInterrupt(30 + queue, queue, 1000.0) for queue in range(8))
    card = NetworkCard("eth0", "/sys/class/net/eth0", interrupts, tuple(range(8)), packets=9e4)
    second = NetworkCard("eth1", "/sys/class/net/eth1", (QueueInterrupt(50, 0, 1.0),), (0,))
    other = replace(second, packets=1.0)
    own = pod_view("db", qos=QoSClass.LSR, cpuset="0-1,16-17")
    chosen = strategy.Settings(policy=IrqPolicy.AUTO, rps_cpus_per_queue=1, renice_ksoftirqd=True)
    found = Plan()
    for at in range(60):
        shown = NodeInterrupts(
            5.0 * at, (card, other), dict.fromkeys(range(32), 10.0),
            ksoftirqd={cpu: f"{cpu + 10}@1" for cpu in range(32)},
        )  # fmt: skip
        latest = FakeLatest({}, shown, cpu_info(32, 2))
        aside = Cpusets(found.set_aside)
        seen = view(latest=latest, pods=(own,), cgroups=aside, topology=SHARED)
        found = strategy.plan(seen, chosen, found.memory)
        assert found == strategy.plan(seen, chosen, found.memory), "the same view twice"
    values = {(one.target.knob, one.target.place): one.value for one in found.desired}
    mine = {str(cpu) for cpu in found.set_aside}
    assert len(mine) == 2
    assert not found.set_aside & {0, 1, 16, 17}
    assert {values["irq.smp_affinity_list", f"/proc/irq/{one.irq}"] for one in interrupts} == mine
    assert values["irq.smp_affinity_list", "/proc/irq/50"] not in mine
    assert {place for knob, place in values if knob == "rps_cpus"} == {
        "/sys/class/net/eth1/queues/rx-0"
    }
    assert [value for (knob, _), value in values.items() if knob == "ksoftirqd.nice"] == [-20, -20]
    assert "to themselves" in found.decisions[0].outcome
    third = replace(other, name="eth2", interrupts=(QueueInterrupt(60, 0, 1.0),))
    shown = replace(shown, steady=400.0, cards=(card, other, third))
    many = strategy.plan(view(latest=FakeLatest({}, shown, cpu_info(32, 2))), chosen, found.memory)
    assert many.set_aside == frozenset()


class Cpusets:
    """Containers leave CPUs that are set aside."""

    def __init__(self, aside: frozenset[int]) -> None:
        self._cpus = ",".join(str(cpu) for cpu in range(32) if cpu not in aside)

    def now(self, group: str, knob: str) -> str:
        return self._cpus if "/cri-containerd-" in group else ""

    def base(self, group: str, knob: str) -> None:
        return None

    def below(self, group: str, subsystem: str) -> tuple[str, ...]:
        return ()


@pytest.mark.parametrize("policy", list(IrqPolicy))
def test_nothing_measured_is_no_opinion(policy: IrqPolicy) -> None:
    card = NetworkCard("eth0", "/", (QueueInterrupt(1, 0),))
    inputs = ExclusiveInputs(0.0, {}, cpu_info(16).processors, 16, {1: 0}, lambda _: 0)
    assert advance(card, ExclusiveState(), inputs, policy) == ExclusiveState()
