"""The fair assignment: a card's interrupts evenly over NUMA nodes, caches, cores and CPUs. No IO.

It follows from the cards and CPUs alone, never from where interrupts are: as long as these stay,
nothing moves. The order is Katalyst's balance-fair policy's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from koord_model.interrupts import NetworkCard
from koord_model.node_info import Processor

RPS_FACTOR = 4
"""CPUs of a domain that serve interrupts receive no packets of others by RPS where the domain has
so many times as many CPUs: Katalyst's."""

_Item = TypeVar("_Item")
Domain = tuple[int, int]
"""A NUMA node and a last-level cache."""


def split(items: Sequence[_Item], parts: int) -> list[Sequence[_Item]]:
    """Divide into runs that differ by one at most; longer ones are taken from both ends in turn."""
    size, rest = divmod(len(items), parts)
    ends = [
        part for pair in zip(range(parts), reversed(range(parts)), strict=True) for part in pair
    ]
    longer = set(list(dict.fromkeys(ends))[:rest])
    found, start = [], 0
    for part in range(parts):
        end = start + size + (part in longer)
        found.append(items[start:end])
        start = end
    return found


def usable(cpus: Iterable[Processor], forbidden: Collection[int]) -> tuple[Processor, ...]:
    """The CPUs that may serve interrupts; all of them if all are forbidden: some CPU has to."""
    cpus = tuple(cpus)
    return tuple(cpu for cpu in cpus if cpu.id not in forbidden) or cpus


def assign(cards: Iterable[NetworkCard], cpus: Sequence[Processor]) -> Mapping[int, int]:
    """The CPU of each interrupt, among ``cpus``, of which there are some.

    Cards come in the order of their names; those before count where cores are compared.
    """
    counts: Counter[int] = Counter()
    found = {}
    for card in sorted(cards, key=lambda card: card.name):
        irqs = sorted(interrupt.irq for interrupt in card.interrupts)
        for of_node, nodes_irqs in _by_key(irqs, cpus, lambda cpu: cpu.node):
            for of_cache, caches_irqs in _by_key(nodes_irqs, of_node, lambda cpu: cpu.l3):
                for irq in caches_irqs:
                    found[irq] = _least_used(of_cache, counts)
                    counts[found[irq]] += 1
    return found


def _by_key(
    irqs: Sequence[int], cpus: Sequence[Processor], key: Callable[[Processor], int]
) -> list[tuple[Sequence[Processor], Sequence[int]]]:
    groups: dict[int, list[Processor]] = {}
    for cpu in cpus:
        groups.setdefault(key(cpu), []).append(cpu)
    names = sorted(groups)
    return [(groups[name], part) for name, part in zip(names, split(irqs, len(names)), strict=True)]


def _least_used(cpus: Sequence[Processor], counts: Counter[int]) -> int:
    """The CPU with the fewest interrupts of the core with the fewest; the lowest of several."""
    cores: dict[int, list[int]] = {}
    for cpu in cpus:
        cores.setdefault(cpu.core, []).append(cpu.id)
    core = min(cores.values(), key=lambda ids: (sum(counts[cpu] for cpu in ids), min(ids)))
    return min(core, key=lambda cpu: (counts[cpu], cpu))


def domain(cpu: Processor) -> Domain:
    """The domain of a CPU."""
    return cpu.node, cpu.l3


def receive_cpus(
    card: NetworkCard, assigned: Mapping[int, int], cpus: Sequence[Processor]
) -> Mapping[int, frozenset[int]]:
    """CPUs that continue to receive what a queue's interrupt took in (RPS), by queue.

    They are those of the interrupt's domain, without those that serve the card's interrupts if
    enough are left.
    """
    by_id = {cpu.id: cpu for cpu in cpus}
    serving = {assigned[interrupt.irq] for interrupt in card.interrupts}
    found = {}
    for interrupt in card.interrupts:
        cpu = by_id.get(assigned[interrupt.irq])
        if interrupt.rx_queue is None or cpu is None:
            continue
        near = {other.id for other in cpus if domain(other) == domain(cpu)}
        busy = near & serving
        found[interrupt.rx_queue] = frozenset(
            near - busy if len(near) >= RPS_FACTOR * len(busy) else near
        )
    return found
