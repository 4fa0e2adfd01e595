"""CPUs that serve a busy card's interrupts and nothing else: how many, which, and when. No IO.

Thresholds and waiting times are those of Katalyst's policy irq-cores-exclusive. CPUs are claimed
first, so that containers leave them; interrupts move there once all of them are free.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from koord_model.interrupts import NetworkCard
from koord_model.node_info import Processor

from koordlet.qos_manager.strategies.irq_affinity.fair import split

MOST_CARDS = 2
"""With more cards none has CPUs of its own."""

ENTER_PACKETS, LEAVE_PACKETS = 60_000, 30_000
"""Packets a second from which on a card counts as busy, and up to which as idle."""
CHECKS = 30
"""So many measurements in succession, or between both thresholds, decide."""
SWITCH_SECONDS = 600.0

EXPECTED_PERCENT = 50
"""Time in interrupts that a CPU of a card is meant to have."""
LEAST_PERCENT, MOST_PERCENT = 2, 30
"""Of the node's CPUs, for one card."""
STEP_PERCENT = 5
"""Of the node's CPUs, that are claimed at once."""
LEAVE_SECONDS = 600.0
"""Time that containers have to leave claimed CPUs."""
SETTLE_SECONDS = 60.0
"""After packets were no longer passed on to other CPUs, before loads count."""

FULL_PERCENT, GROW_PERCENT, SHRINK_PERCENT = 85, 60, 40
"""Mean time in interrupts at which the card goes back to all CPUs, gets more, gets fewer."""
GROW_SECONDS = 5.0
SHRINK_SECONDS, SHRINK_AFTER_GROWTH, SHRINK_AFTER_BALANCE = 30.0, 300.0, 60.0
BALANCE_PERCENT, BALANCE_GAP = 65, 20
"""A CPU is relieved from the first on, of a neighbour that has so much less."""
BALANCE_SECONDS, PING_PONG_SECONDS = 10.0, 180.0
MOST_MOVED = 2

_FULL = f"its CPUs are in interrupts for {FULL_PERCENT} % of the time"
_NEVER = float("-inf")
_NONE: frozenset[int] = frozenset()


class IrqPolicy(StrEnum):
    """Katalyst's policies."""

    FAIR = "balance-fair"
    EXCLUSIVE = "irq-cores-exclusive"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class ExclusiveState:
    """The exclusive CPUs of a card; times are of the steady clock.

    ``claimed`` are set aside; ``cpus``, a part of them, serve ``assigned`` interrupts. While
    they differ, containers are leaving. ``above`` and ``below`` count measurements. ``pair``
    are the CPUs between which interrupts moved last.
    """

    cpus: frozenset[int] = _NONE
    claimed: frozenset[int] = _NONE
    goal: frozenset[int] = _NONE
    assigned: Mapping[int, int] = field(default_factory=dict)
    above: int = 0
    below: int = 0
    switched: float = _NEVER
    claimed_at: float = _NEVER
    grown: float = _NEVER
    shrunk: float = _NEVER
    balanced: float = _NEVER
    settled: float = _NEVER
    pair: tuple[int, int] | None = None
    note: str = ""
    """The last thing that happened, for people."""


class ExclusiveInputs(NamedTuple):
    """One measurement.

    ``candidates`` are CPUs that the card has or may have, ``total`` all CPUs of the node, ``fair``
    the CPUs of its interrupts without exclusive ones. ``containers_on`` counts containers that
    may run on CPUs. The order of candidates decides which are taken first. ``steered`` is whether
    packets are passed on to other CPUs in fair mode.
    """

    steady: float
    busy: Mapping[int, float]
    candidates: Sequence[Processor]
    total: int
    fair: Mapping[int, int]
    containers_on: Callable[[frozenset[int]], int]
    steered: bool = False


def bounds(total: int) -> tuple[int, int]:
    """The fewest and the most CPUs of a card on a node of so many."""
    return max(total * LEAST_PERCENT // 100, 1), total * MOST_PERCENT // 100


def wanted_count(use: float, total: int) -> int:
    """The number of CPUs for interrupts that take ``use`` CPUs; never below the fewest."""
    least, most = bounds(total)
    return max(min(math.ceil(use * 100 / EXPECTED_PERCENT), most), least)


def select(count: int, candidates: Sequence[Processor], held: Collection[int]) -> frozenset[int]:
    """So many CPUs, evenly of NUMA nodes, whole cores first, those held before others.

    Fewer where there are no more.
    """
    nodes: dict[int, list[Processor]] = {}
    for cpu in candidates:
        nodes.setdefault(cpu.node, []).append(cpu)
    if not nodes:
        return _NONE
    cores = list(dict.fromkeys(cpu.core for cpu in candidates))
    found: list[int] = []
    rest: list[int] = []
    for node, share in zip(sorted(nodes), split(range(count), len(nodes)), strict=True):
        order = sorted(nodes[node], key=lambda cpu: (cpu.id not in held, cores.index(cpu.core)))
        found += [cpu.id for cpu in order[: len(share)]]
        rest += [cpu.id for cpu in order[len(share) :]]
    return frozenset(found + rest[: count - len(found)])


def spread(
    assigned: Mapping[int, int], irqs: Iterable[int], cpus: Collection[int]
) -> Mapping[int, int]:
    """Assign interrupts to these CPUs: those elsewhere move, and CPUs without any get some."""
    found = {irq: cpu for irq in irqs if (cpu := assigned.get(irq, -1)) in cpus}
    counts = Counter(dict.fromkeys(sorted(cpus), 0))
    counts.update(found.values())
    empty = {cpu for cpu, count in counts.items() if not count}
    for irq in irqs:
        if irq not in found:
            found[irq] = min(counts, key=lambda cpu: counts[cpu])
            counts[found[irq]] += 1
    while True:
        most = max(counts, key=lambda cpu: counts[cpu])
        least = min(empty, key=lambda cpu: counts[cpu], default=most)
        if counts[most] - counts[least] <= 1:
            return found
        irq = max(irq for irq, cpu in found.items() if cpu == most)
        found[irq] = least
        counts[most] -= 1
        counts[least] += 1


def advance(
    card: NetworkCard, state: ExclusiveState, inputs: ExclusiveInputs, policy: IrqPolicy
) -> ExclusiveState:
    """The state after one more measurement."""
    state = _count(card, state)
    if state.cpus and {*_irqs(card)} != state.assigned.keys():
        state = replace(state, assigned=spread(state.assigned, _irqs(card), state.cpus))
    now = inputs.steady
    state = give_way(state, frozenset(cpu.id for cpu in inputs.candidates), now)
    if policy is IrqPolicy.FAIR:
        return _leave(state, now, "the policy says so") if state.claimed else state
    if not state.claimed:
        return _enter(state, inputs) if _is_due(state, now, policy) else state
    if state.claimed != state.cpus:
        return _await_containers(card, state, inputs)
    if policy is IrqPolicy.AUTO and state.below >= CHECKS and now - state.switched > SWITCH_SECONDS:
        return _leave(state, now, f"up to {LEAVE_PACKETS} packets a second")
    return _adjust(card, state, inputs)


def give_way(state: ExclusiveState, free: frozenset[int], now: float) -> ExclusiveState:
    """The state of a card that may have ``free`` CPUs: without any if one of its own is not."""
    if state.claimed <= free:
        return state
    return _leave(state, now, "a CPU of its own went to somebody else")


def _count(card: NetworkCard, state: ExclusiveState) -> ExclusiveState:
    """Count measurements above and below; one in between changes nothing."""
    if card.packets is None or LEAVE_PACKETS < card.packets < ENTER_PACKETS:
        return state
    if card.packets >= ENTER_PACKETS:
        return replace(state, above=min(state.above + 1, CHECKS), below=0)
    return replace(state, above=0, below=min(state.below + 1, CHECKS))


def _is_due(state: ExclusiveState, now: float, policy: IrqPolicy) -> bool:
    busy = policy is IrqPolicy.EXCLUSIVE or state.above >= CHECKS
    return busy and now - state.switched > SWITCH_SECONDS


def _leave(state: ExclusiveState, now: float, why: str) -> ExclusiveState:
    """Go back to all CPUs."""
    note = f"back to all CPUs: {why}"
    return ExclusiveState(above=state.above, below=state.below, switched=now, note=note)


def _enter(state: ExclusiveState, inputs: ExclusiveInputs) -> ExclusiveState:
    least, most = bounds(inputs.total)
    serving = set(inputs.fair.values())
    if not serving <= inputs.busy.keys():
        return state  # not measured yet
    if most < least:
        return replace(state, note=f"{inputs.total} CPUs are too few to give some away")
    use = sum(inputs.busy[cpu] for cpu in serving) / 100
    # Katalyst's reserve at the switch: by fifths, rounded down.
    count = min(wanted_count(use, inputs.total) * 12 // 10, most)
    if 100 * use / count >= GROW_PERCENT:
        return replace(state, note=f"{count} CPUs, the most it may have, would not do")
    return _claim(state, inputs, count)


def _claim(state: ExclusiveState, inputs: ExclusiveInputs, count: int) -> ExclusiveState:
    """Begin to grow to so many CPUs, as far as there are candidates."""
    goal = select(count, inputs.candidates, state.cpus)
    if not goal > state.cpus:  # or it is not known which are free
        return replace(state, note="there are no more CPUs to claim")
    return _claim_step(replace(state, goal=goal), inputs)


def _claim_step(state: ExclusiveState, inputs: ExclusiveInputs) -> ExclusiveState:
    missing = [cpu.id for cpu in inputs.candidates if cpu.id in state.goal - state.claimed]
    step = missing[: max(inputs.total * STEP_PERCENT // 100, 1)]
    note = "containers are leaving CPUs that it will have"
    claimed = state.claimed.union(step)
    return replace(state, claimed=claimed, claimed_at=inputs.steady, note=note)


def _await_containers(
    card: NetworkCard, state: ExclusiveState, inputs: ExclusiveInputs
) -> ExclusiveState:
    now = inputs.steady
    if state.cpus and (_mean(state, inputs) or 0.0) >= FULL_PERCENT:
        return _leave(state, now, _FULL)
    if inputs.containers_on(state.claimed - state.cpus):
        if now - state.claimed_at < LEAVE_SECONDS:
            return state
        note = f"containers have not left CPUs for {LEAVE_SECONDS:.0f} s"
        if not state.cpus:
            return _leave(state, now, note)
        return replace(state, claimed=state.cpus, goal=state.cpus, grown=now, note=note)
    if state.claimed != state.goal:
        return _claim_step(state, inputs)
    switches = not state.cpus
    assigned = spread(state.assigned, _irqs(card), state.goal)
    return replace(
        state,
        cpus=state.goal,
        assigned=assigned,
        grown=now,
        switched=now if switches else state.switched,
        settled=now + SETTLE_SECONDS if switches and inputs.steered else state.settled,
        note="it has CPUs of its own" if switches else "it has more CPUs of its own",
    )


def _adjust(card: NetworkCard, state: ExclusiveState, inputs: ExclusiveInputs) -> ExclusiveState:
    """Grow, balance or shrink: one of these for each measurement."""
    now = inputs.steady
    mean = _mean(state, inputs)
    if mean is None or now < state.settled:
        return state
    if mean >= FULL_PERCENT:
        return _leave(state, now, _FULL)
    busy = {cpu: inputs.busy[cpu] for cpu in sorted(state.cpus)}
    wanted = wanted_count(sum(busy.values()) / 100, inputs.total)
    if mean >= GROW_PERCENT:
        due = now - state.grown >= GROW_SECONDS
        return _claim(state, inputs, wanted) if due and wanted > len(busy) else state
    balanced = _balance(card, state, inputs, busy)
    if balanced is not state:
        return balanced
    if mean <= SHRINK_PERCENT and wanted < len(busy) and _may_shrink(state, now):
        return _shrink(card, state, busy, now)
    return state


def _shrink(
    card: NetworkCard, state: ExclusiveState, busy: Mapping[int, float], now: float
) -> ExclusiveState:
    """Give back the idlest CPU, unless one that takes over its interrupts would be too busy."""
    gone = min(busy, key=lambda cpu: busy[cpu])
    rates = {one.irq: one.rate or 0.0 for one in card.interrupts if state.assigned[one.irq] == gone}
    per_rate = busy[gone] / sum(rates.values()) if sum(rates.values()) else 0.0
    loads = {cpu: load for cpu, load in busy.items() if cpu != gone}
    assigned = dict(state.assigned)
    for irq in sorted(rates, key=lambda irq: -rates[irq]):
        cpu = assigned[irq] = min(loads, key=lambda cpu: loads[cpu])
        loads[cpu] += rates[irq] * per_rate
        if loads[cpu] >= GROW_PERCENT:
            return state
    cpus = frozenset(loads)
    return replace(
        state,
        cpus=cpus,
        claimed=cpus,
        goal=cpus,
        assigned=assigned,
        shrunk=now,
        note="it has one CPU less",
    )


def _mean(state: ExclusiveState, inputs: ExclusiveInputs) -> float | None:
    """Mean time in interrupts of its CPUs, in percent; ``None`` where one's is not known."""
    if not state.cpus <= inputs.busy.keys():
        return None
    return sum(inputs.busy[cpu] for cpu in state.cpus) / len(state.cpus)


def _may_shrink(state: ExclusiveState, now: float) -> bool:
    return (
        now - state.shrunk >= SHRINK_SECONDS
        and now - state.grown >= SHRINK_AFTER_GROWTH
        and now - state.balanced >= SHRINK_AFTER_BALANCE
    )


def _balance(
    card: NetworkCard, state: ExclusiveState, inputs: ExclusiveInputs, busy: Mapping[int, float]
) -> ExclusiveState:
    """Relieve the busiest CPU; with one CPU more where moving interrupts does not help."""
    now = inputs.steady
    source = max(busy, key=lambda cpu: busy[cpu])
    target = min(busy, key=lambda cpu: busy[cpu])
    if busy[source] < BALANCE_PERCENT or now - state.balanced < BALANCE_SECONDS:
        return state
    rates = {
        interrupt.irq: interrupt.rate or 0.0
        for interrupt in card.interrupts
        if state.assigned[interrupt.irq] == source
    }
    if len(rates) < 2:
        return state  # its only interrupt would be as busy elsewhere
    back_and_forth = (source, target) == state.pair and now - state.balanced < PING_PONG_SECONDS
    gap = busy[source] - busy[target]
    moved: Sequence[int] = ()
    if not back_and_forth and gap >= BALANCE_GAP:
        empty = target not in state.assigned.values()
        moved = _moved(rates, sum(rates.values()) * (gap / 2) / busy[source], to_empty=empty)
    if not moved:
        if now - state.grown < GROW_SECONDS:
            return state
        return _claim(replace(state, balanced=now), inputs, min(len(busy) + 1, _most(inputs)))
    assigned = {**state.assigned, **dict.fromkeys(moved, target)}
    note = f"{len(moved)} of its interrupts moved from CPU {source} to CPU {target}"
    return replace(state, assigned=assigned, balanced=now, pair=(source, target), note=note)


def _most(inputs: ExclusiveInputs) -> int:
    return bounds(inputs.total)[1]


def _moved(rates: Mapping[int, float], worth: float, *, to_empty: bool) -> Sequence[int]:
    """Interrupts of at most this rate together, the busiest first, and never all of them.

    A CPU that has none gets the second busiest if none is so little.
    """
    order = sorted(rates, key=lambda irq: (-rates[irq], irq))
    moved: list[int] = []
    for irq in order:
        if 0 < rates[irq] <= worth and len(moved) < min(MOST_MOVED, len(order) - 1):
            moved.append(irq)
            worth -= rates[irq]
    return moved or (order[1:2] if to_empty else [])


def _irqs(card: NetworkCard) -> tuple[int, ...]:
    return tuple(interrupt.irq for interrupt in card.interrupts)
