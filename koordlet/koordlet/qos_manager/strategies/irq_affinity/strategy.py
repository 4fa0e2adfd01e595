"""Interrupts of network cards are spread evenly, away from CPUs that pods own exclusively.

The policies are Katalyst's ``balance-fair`` (``fair``). Koordinator has nothing like it. While a
process moves interrupts by itself (irqbalance), none is moved: two would only undo each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from koordlet.qos_manager.strategies.irq_affinity.fair import assign, receive_cpus, usable
from koordlet.qos_manager.suppression.be_cpus import pools

GATE = "IrqAffinity"
INTERVAL = "nics_collector_interval"


@dataclass(frozen=True, slots=True)
class Settings:
    """Treatment of interrupts."""

    rps_cpus_per_queue: Annotated[float, Meta(ge=0, le=100_000)] = 0
    """Packets are passed on to the CPUs beside (``rps_cpus``) where the node has so many CPUs for
    each receive queue of its cards; 0 for never."""
    disable_xps: bool = False
    """True: transmit queues are chosen by flow, not by CPU (``xps_cpus``)."""


def settings(slo: NodeSLO) -> Settings:
    """Koordinator has no section for it: the defaults."""
    return Settings()


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
    cpus = usable(view.cpus, pools(view).lse)
    assigned = assign(cards, cpus)
    steered = settings.rps_cpus_per_queue > 0 and len(cpus) >= settings.rps_cpus_per_queue * sum(
        len(card.rx_queues) for card in cards
    )
    desired: list[DesiredValue] = []
    decisions: list[Decision] = []
    for card in cards:
        decision = _decision(card, assigned, cpus)
        decisions.append(decision)
        desired += _affinities(view, card, assigned, decision)
        if steered:
            desired += _receive_steering(card, assigned, cpus, decision)
        if settings.disable_xps and len(card.tx_queues) > 1:
            desired += _transmit_steering(card, decision)
    return Plan(tuple(desired), tuple(decisions))


def _decision(
    card: NetworkCard, assigned: Mapping[int, int], cpus: tuple[Processor, ...]
) -> Decision:
    serving = {assigned[interrupt.irq] for interrupt in card.interrupts}
    given = (
        Term("interrupts", len(card.interrupts)),
        Term("usable CPUs", len(cpus)),
        Term("packets received", card.packets, "1/s"),
    )
    outcome = f"interrupts of {card.name} are spread over CPUs {cpuset.render(serving)}"
    return Decision(outcome, given=given, aspect=card.name)


def _affinities(
    view: StrategyView, card: NetworkCard, assigned: Mapping[int, int], decision: Decision
) -> Iterator[DesiredValue]:
    for interrupt in card.interrupts:
        place = f"{view.layout.proc_root}/irq/{interrupt.irq}"
        yield desired_value(place, "irq.smp_affinity_list", str(assigned[interrupt.irq]), decision)


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
