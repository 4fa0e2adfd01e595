"""Interrupts of network cards: spread evenly, or on CPUs of their own where a card is busy.

The policies are Katalyst's; Koordinator has nothing like them. While a process moves interrupts by
itself (irqbalance), none is moved: two would only undo each other. CPUs of a card's own are set
aside, so that hooks and cpu_suppress keep pods off them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from koord_host.knobs.forms import NO_CPUS
from koord_host.planning.desired_values import DesiredValue
from koord_model import cpuset
from koord_model.interrupts import NetworkCard, NodeInterrupts
from koord_model.node_info import Processor
from koord_model.node_slo import NodeSLO
from msgspec import Meta

from koordlet.qos_manager.core.strategy import (
    NOTHING,
    Decision,
    Plan,
    StrategyView,
    Term,
    desired_value,
)
from koordlet.qos_manager.strategies.irq_affinity.exclusive import (
    MOST_CARDS,
    ExclusiveInputs,
    ExclusiveState,
    IrqPolicy,
    advance,
    give_way,
)
from koordlet.qos_manager.strategies.irq_affinity.fair import assign, receive_cpus, usable
from koordlet.qos_manager.suppression.be_cpus import claimable, cpus_now, pools

GATE = "IrqAffinity"
INTERVAL = "nics_collector_interval"

_NICE = -20
_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Settings:
    """Treatment of interrupts."""

    policy: IrqPolicy = IrqPolicy.FAIR
    """``balance-fair``: cards share all CPUs; ``irq-cores-exclusive``: each of at most two cards
    has CPUs of its own; ``auto``: only while it is busy."""
    rps_cpus_per_queue: Annotated[float, Meta(ge=0, le=100_000)] = 0
    """Packets are passed on to the CPUs beside (``rps_cpus``) where the node has so many CPUs for
    each receive queue of its cards; 0 for never. Not for a card with CPUs of its own."""
    disable_xps: bool = False
    """True: transmit queues are chosen by flow, not by CPU (``xps_cpus``)."""
    renice_ksoftirqd: bool = False
    """True: soft interrupts on CPUs of a card's own go before all other work there (nice -20)."""


def settings(slo: NodeSLO) -> Settings:
    """Koordinator has no section for it: the defaults."""
    return Settings()


@dataclass(frozen=True, slots=True)
class _Memory:
    """Each card's exclusive CPUs by its name, since the measurement at ``steady``."""

    steady: float = float("-inf")
    states: Mapping[str, ExclusiveState] = field(default_factory=dict)


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """A CPU for each interrupt of each card."""
    found = view.latest.info(NodeInterrupts)
    if found is None or not view.cpus:
        return Plan(decisions=(Decision("interrupts stay: cards and CPUs are not known yet"),))
    cards = tuple(card for card in found.cards if card.interrupts)
    if found.balancer:
        outcome = (
            f"interrupts are left alone: {found.balancer} moves them; "
            "stop it (systemctl stop irqbalance), or turn this strategy off"
        )
        return Plan(decisions=(Decision(outcome),))
    if not cards:
        return NOTHING
    if memory is None and not view.pods_known:
        # Not even for a second onto CPUs of LSE pods: after a restart interrupts are off them.
        return Plan(decisions=(Decision("interrupts stay: which pods run is not known yet"),))
    before = memory if isinstance(memory, _Memory) else _Memory()
    if found.steady != before.steady:
        before = _Memory(found.steady, _advance(view, settings, found, cards, before.states))
    else:
        before = _Memory(found.steady, _give_way(view, before.states))
    return _Planner(view, settings, found, cards, before).plan()


def _advance(
    view: StrategyView,
    settings: Settings,
    found: NodeInterrupts,
    cards: tuple[NetworkCard, ...],
    before: Mapping[str, ExclusiveState],
) -> Mapping[str, ExclusiveState]:
    """The states of all cards after one more measurement."""
    states = {card.name: before.get(card.name, ExclusiveState()) for card in cards}
    policy = settings.policy if len(cards) <= MOST_CARDS else IrqPolicy.FAIR
    owners = pools(view)
    shared = [card for card in cards if not states[card.name].cpus]
    fair = assign(shared, usable(view.cpus, owners.lse | _claimed(states)))
    for place, card in enumerate(sorted(cards, key=lambda card: card.name)):
        state = states.pop(card.name)
        free = claimable(view, state.claimed) - _claimed(states)
        candidates = [cpu for cpu in view.cpus if cpu.id in free]
        # Two cards grow from both ends.
        candidates.sort(key=lambda cpu: (cpu.core, cpu.id), reverse=bool(place))
        inputs = ExclusiveInputs(
            found.steady,
            found.busy,
            candidates,
            len(view.cpus),
            {one.irq: fair[one.irq] for one in card.interrupts if one.irq in fair},
            lambda cpus: _containers_on(view, cpus),
            settings.rps_cpus_per_queue > 0,
        )
        states[card.name] = advance(card, state, inputs, policy)
    return states


def _give_way(
    view: StrategyView, states: Mapping[str, ExclusiveState]
) -> Mapping[str, ExclusiveState]:
    """The states where owners of CPUs may have changed, and measurements have not."""
    return {
        name: give_way(state, claimable(view, state.claimed), view.steady)
        for name, state in states.items()
    }


def _claimed(states: Mapping[str, ExclusiveState]) -> frozenset[int]:
    return _NONE.union(*(state.claimed for state in states.values()))


def _containers_on(view: StrategyView, cpus: frozenset[int]) -> int:
    """Count containers that may run on these CPUs; one without a cpuset may on all.

    One more while it is not known which pods there are.
    """
    groups = (one.group for pod in view.pods if not pod.in_vm for one in pod.containers)
    there = sum(not (allowed := cpus_now(view, group)) or bool(allowed & cpus) for group in groups)
    return there + (not view.pods_known)


@dataclass(frozen=True, slots=True)
class _Planner:
    """Desired values and decisions of the cards in their states."""

    view: StrategyView
    settings: Settings
    found: NodeInterrupts
    cards: tuple[NetworkCard, ...]
    memory: _Memory

    def plan(self) -> Plan:
        """The plan."""
        claimed = _claimed(self.memory.states)
        cpus = usable(self.view.cpus, pools(self.view).lse | claimed)
        shared = [card for card in self.cards if not self.memory.states[card.name].cpus]
        fair = assign(shared, cpus)
        queues = sum(len(card.rx_queues) for card in self.cards)
        least = self.settings.rps_cpus_per_queue * queues
        desired: list[DesiredValue] = []
        decisions: list[Decision] = []
        for card in self.cards:
            state = self.memory.states[card.name]
            decision = self._decision(card, state, fair, len(cpus))
            decisions.append(decision)
            desired += self._affinities(card, state.assigned if state.cpus else fair, decision)
            if not state.cpus and 0 < least <= len(cpus):
                desired += _receive_steering(card, fair, cpus, decision)
            if self.settings.disable_xps and len(card.tx_queues) > 1:
                desired += _transmit_steering(card, decision)
            if self.settings.renice_ksoftirqd:
                desired += self._nice(state, decision)
        return Plan(tuple(desired), tuple(decisions), set_aside=claimed, memory=self.memory)

    def _decision(
        self, card: NetworkCard, state: ExclusiveState, fair: Mapping[int, int], usable_cpus: int
    ) -> Decision:
        serving = state.cpus or {fair[interrupt.irq] for interrupt in card.interrupts}
        busy = [self.found.busy[cpu] for cpu in serving if cpu in self.found.busy]
        given = (
            Term("interrupts", len(card.interrupts)),
            Term("packets received", card.packets, "1/s"),
            Term("usable CPUs", usable_cpus),
            Term("time in interrupts", sum(busy) / len(busy) if busy else None, "%"),
            Term("out of budget", sum(self.found.squeezed.get(cpu, 0.0) for cpu in serving), "1/s"),
        )
        if state.cpus:
            outcome = (
                f"interrupts of {card.name} have CPUs {cpuset.render(state.cpus)} to themselves"
            )
        else:
            outcome = f"interrupts of {card.name} are spread over CPUs {cpuset.render(serving)}"
        if state.note:
            outcome += f" ({state.note})"
        return Decision(outcome, given=given, aspect=card.name)

    def _affinities(
        self, card: NetworkCard, assigned: Mapping[int, int], decision: Decision
    ) -> Iterator[DesiredValue]:
        for interrupt in card.interrupts:
            place = f"{self.view.layout.proc_root}/irq/{interrupt.irq}"
            cpu = str(assigned[interrupt.irq])
            yield desired_value(place, "irq.smp_affinity_list", cpu, decision)

    def _nice(self, state: ExclusiveState, decision: Decision) -> Iterator[DesiredValue]:
        for cpu in sorted(state.cpus & self.found.ksoftirqd.keys()):
            yield desired_value(self.found.ksoftirqd[cpu], "ksoftirqd.nice", _NICE, decision)


def _receive_steering(
    card: NetworkCard,
    assigned: Mapping[int, int],
    cpus: tuple[Processor, ...],
    decision: Decision,
) -> Iterator[DesiredValue]:
    for queue, receiving in receive_cpus(card, assigned, cpus).items():
        if queue in card.rx_queues:
            place = f"{card.path}/queues/rx-{queue}"
            yield desired_value(place, "rps_cpus", cpuset.render(receiving), decision)


def _transmit_steering(card: NetworkCard, decision: Decision) -> Iterator[DesiredValue]:
    for queue in card.tx_queues:
        yield desired_value(f"{card.path}/queues/tx-{queue}", "xps_cpus", NO_CPUS, decision)
