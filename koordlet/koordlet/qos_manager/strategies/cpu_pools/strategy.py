"""Pods that name a pool of CPUs (Katalyst's ``cpuset_pool``) have CPUs that others do not run on.

This claims the CPUs and says whose they are. That keeps cpu_suppress and the other strategies off
them, and the hook plugin ``cpusetallocator`` gives them to the pods, new ones before they start.
The size of a pool follows what its pods use and wait for. Pods without a pool count as one more
when there is too little for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from koord_model import cpuset
from koord_model.cpu_pools import pool_of
from koord_model.keys import CPU
from koord_model.node import NamedPool
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from msgspec import Meta

from koordlet.qos_manager.core.strategy import NOTHING, Decision, Plan, PodView, StrategyView, Term
from koordlet.qos_manager.strategies.cpu_pools.pool_sizes import (
    LEAST_REST,
    PoolSize,
    in_proportion,
    need_of,
    resize,
)
from koordlet.qos_manager.suppression.be_cpus import claimable, own_cpus, owners_known, take

GATE = "CPUPools"
INTERVAL = 5.0

_NAME = "cpu_pools"
_WINDOW_SECONDS = 15.0
_REST = ""
"""The pods without a pool."""
_FORMULA = "available = max(free − kept for the rest, 0)"


@dataclass(frozen=True, slots=True)
class Settings:
    """Changes of pools."""

    shrink_after_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 300
    """Seconds for which a pool must have needed less before it gets smaller."""


def settings(slo: NodeSLO) -> Settings:
    """Koordinator has no section for it: the defaults."""
    return Settings()


@dataclass(frozen=True, slots=True)
class _Memory:
    """Sizes that pools ask for, and the CPUs that they have."""

    sizes: Mapping[str, PoolSize] = field(default_factory=dict)
    cpus: Mapping[str, frozenset[int]] = field(default_factory=dict)


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """The CPUs of each pool."""
    before = memory if isinstance(memory, _Memory) else _Memory()
    if not view.cpus or not owners_known(view):
        return _plan(before, (Decision("pools stay: pods or owners of CPUs are not known yet"),))
    needs, notes = _needs(view)
    if not needs.keys() - {_REST}:
        return Plan(decisions=tuple(notes)) if notes else NOTHING
    sizes = {
        name: resize(
            before.sizes.get(name, PoolSize()), need, view.steady, settings.shrink_after_seconds
        )
        for name, need in needs.items()
    }
    others = view.set_aside.others(_NAME)
    mine = frozenset().union(*before.cpus.values()) - others
    free = claimable(view, mine)
    kept_back = max(LEAST_REST, len({cpu.node for cpu in view.cpus}))
    available = max(len(free) - kept_back, 0)
    shares = in_proportion({name: size.cpus for name, size in sizes.items()}, available)
    cpus: dict[str, frozenset[int]] = {}
    # Those that have CPUs first, so that no pool takes what another keeps.
    kept = {name: before.cpus.get(name, frozenset()) & free for name in shares if name != _REST}
    rest = free.difference(*kept.values())
    for name in sorted(kept):
        cpus[name] = take(shares[name], kept[name] | rest, view.cpus, kept[name])
        rest -= cpus[name]
    common = (Term("free", len(free)), Term("kept for the rest", kept_back))
    decisions = [
        _decision(name, needs[name], sizes[name].cpus, cpus.get(name), available, common)
        for name in sorted(needs)
        if name != _REST
    ]
    return _plan(_Memory(sizes, cpus), (*decisions, *notes))


def _needs(view: StrategyView) -> tuple[Mapping[str, float], list[Decision]]:
    """Cores that pods need, by the name of their pool; notes on names that cannot be used."""
    use = view.history.windows("pod_cpu_usage", _WINDOW_SECONDS)
    wait = view.history.windows("pod_cpu_sched_wait", _WINDOW_SECONDS)
    needs: dict[str, float] = {}
    notes = []
    for pod in _sharing(view):
        name = _REST
        try:
            name = "" if pod.uid in view.node.allocations or pod.in_vm else pool_of(pod.record.pod)
        except ValueError as error:
            notes.append(Decision(str(error), pod=pod.name, aspect="name"))
        used, waited = use.get((pod.uid,)), wait.get((pod.uid,))
        limit = pod.limits.get(CPU)
        need = need_of(
            used.avg if used else None,
            waited.avg if waited else None,
            pod.requests.get(CPU, 0) / 1000,
            None if limit is None else limit / 1000,
        )
        needs[name] = needs.get(name, 0.0) + need
    return needs, notes


def _sharing(view: StrategyView) -> Iterator[PodView]:
    return (pod for pod in view.pods if pod.qos is not QoSClass.BE and not own_cpus(pod.record.pod))


def _decision(
    name: str,
    need: float,
    size: int,
    cpus: frozenset[int] | None,
    available: int,
    common: tuple[Term, ...],
) -> Decision:
    given = (
        Term("use and waiting", need, "cores"),
        Term("CPUs asked for", size),
        *common,
        Term("available", available),
    )
    if not cpus:
        outcome = f"pods of pool {name} share CPUs with the others: too few are available"
    else:
        outcome = f"pods of pool {name} run on {len(cpus)} CPUs: {cpuset.render(cpus)}"
    return Decision(outcome, _FORMULA, given, aspect=name)


def _plan(memory: _Memory, decisions: tuple[Decision, ...]) -> Plan:
    pools = tuple(
        NamedPool(name, cpuset.render(cpus)) for name, cpus in memory.cpus.items() if cpus
    )
    claimed = frozenset().union(*memory.cpus.values())
    return Plan(decisions=decisions, set_aside=claimed, pools=pools, memory=memory)
