"""Choice of the CPUs that best-effort pods run on. No IO.

Best-effort pods never use the exclusive CPUs of an LSE pod, nor CPUs that are set aside
(reserved, exclusive to the system, or withheld from all pods). The other CPUs form two pools:
those of LSR pods and the rest. Of n CPUs, the LSR pool contributes its proportional share,
rounded down (Koordinator's rule).

In each pool CPUs come in one order: whole cores before parts of cores, in turns from the NUMA
node and socket that contributed the fewest (ties: the larger, then the lower CPU), lower
cores first. Of this order, CPUs that were chosen before come first, so that no task moves
without need: growth by one CPU adds the next of the others, beginning with the other thread of
a core that is half used; a loss of one CPU takes the last one chosen. So fewer CPUs are always
a part of more, and the same number is always the same CPUs.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from koord_model import cpuset
from koord_model.node_info import Processor
from koord_model.pod import Pod
from koord_model.qos import KubeQoS, QoSClass
from koord_model.resource_status import resource_status

from koordlet.qos_manager.core.strategy import StrategyView

LEAST_CPUS = 2
"""As few CPUs as best-effort pods may have, on a node that has them to give (Koordinator's)."""

STATIC = "static"
"""The kubelet's policy under which it gives CPUs to containers itself."""

_CPUSET = "cpuset.cpus"
_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class CPUPools:
    """The node's CPUs by owner: each is in one of these.

    ``lsr`` and ``shared`` are those that best-effort pods may run on too.
    """

    shared: frozenset[int] = _NONE
    lsr: frozenset[int] = _NONE
    lse: frozenset[int] = _NONE
    aside: frozenset[int] = _NONE

    @property
    def allowed(self) -> frozenset[int]:
        """CPUs that best-effort pods may run on at all."""
        return self.shared | self.lsr


def pools(view: StrategyView) -> CPUPools:
    """The owner of each CPU.

    LSE and LSR pods have what their annotation resource-status says, also before the topology has
    it. An LSE pod without one has what the kubelet or a resource plugin gave it; what else pods
    have for themselves by the topology counts as LSR's. CPUs that the cgroup above all pods lacks
    are set aside.
    """
    online = frozenset(processor.id for processor in view.cpus)
    own = {QoSClass.LSE: _NONE, QoSClass.LSR: _NONE}
    exclusive = view.node.topology.exclusive if view.node.topology else {}
    for pod in view.pods:
        if pod.qos in own:
            own[pod.qos] |= own_cpus(pod.record.pod) or exclusive.get(pod.uid, _NONE)
    lse = own[QoSClass.LSE] & online
    above = cpus_now(view, all_pods(view))
    aside = ((view.set_aside.all & online) | (online - above if above else _NONE)) - lse
    free = online - lse - aside
    lsr = own[QoSClass.LSR].union(*exclusive.values())
    return CPUPools(free - lsr, free & lsr, lse, aside)


def claimable(view: StrategyView, mine: frozenset[int]) -> frozenset[int]:
    """CPUs that a strategy may set aside: those that pods share, and what it claims already.

    ``mine`` is its own claim. None that a pod has for itself, and none while it is not known which
    those are.
    """
    topology = view.node.topology
    if topology is None or not owners_known(view):
        return mine
    shared = mine.union(*(cpuset.parse(pool.cpuset) for pool in topology.shared_pools))
    claims = {name: cpus - mine for name, cpus in view.set_aside.claims.items()}
    before = replace(view, set_aside=replace(view.set_aside, claims=claims))
    return pools(before).shared & shared


def owners_known(view: StrategyView) -> bool:
    """True if it is known which CPUs are not to be shared."""
    topology = view.node.topology
    return view.pods_known and topology is not None and topology.owners_known


def all_pods(view: StrategyView) -> str:
    """The cgroup above all pods."""
    return view.layout.kube_qos_group(KubeQoS.GUARANTEED)


def own_cpus(pod: Pod) -> frozenset[int]:
    """The CPUs that the scheduler gave a pod; empty where it gave none."""
    try:
        return cpuset.parse(resource_status(pod).cpuset)
    except ValueError:
        # The plugin that applies the annotation logs the error.
        return _NONE


def cpus_now(view: StrategyView, group: str) -> frozenset[int]:
    """A cgroup's own cpuset; empty if it has none or does not exist."""
    found = view.cgroups.now(group, _CPUSET)
    try:
        return cpuset.parse(found) if isinstance(found, str) else _NONE
    except ValueError:
        return _NONE


def count_of(
    cores: float,
    before: int,
    cpus: int,
    growth_percent: float,
    least: float = 0.0,
    deadband: float = 0.0,
) -> int:
    """Return the number of the node's ``cpus`` for so many cores: rounded up.

    Never fewer than ``LEAST_CPUS`` and ``least``, which is in cores. ``before`` is how many there
    were: growth in one step is ``growth_percent`` of the node at most, rounded up, and where they
    are too many for ``cores`` by less than ``deadband`` cores, none is taken away.
    """
    if is_kept(cores, before, least, deadband):
        return min(before, cpus)
    floor = least_count(least)
    at_most = before + growth(cpus, growth_percent)
    return min(max(floor, min(_rounded_up(cores), at_most)), cpus)


def is_kept(cores: float, before: int, least: float, deadband: float) -> bool:
    """True if CPUs are too many for ``cores``, but by so little that all stay."""
    floor = least_count(least)
    return max(_rounded_up(cores), floor) < before <= max(_rounded_up(cores + deadband), floor)


def least_count(least: float) -> int:
    """As few CPUs as there may be for a least number of cores."""
    return max(_rounded_up(least), LEAST_CPUS)


def growth(cpus: int, percent: float) -> int:
    """Return the number of CPUs that may be added in one step."""
    return math.ceil(cpus * percent / 100)


def _rounded_up(cores: float) -> int:
    # 3.0000000004 are three cores, and noise of floating point.
    return math.ceil(cores - 1e-6)


def choose_cpus(
    count: int, pools: CPUPools, cpus: Sequence[Processor], before: frozenset[int]
) -> frozenset[int]:
    """``count`` CPUs, or all that may be chosen if those are fewer.

    Of ``before`` as many as may stay.
    """
    both = len(pools.lsr) + len(pools.shared)
    if both == 0:
        return _NONE
    count = min(count, both)
    from_lsr = count * len(pools.lsr) // both
    return take(from_lsr, pools.lsr, cpus, before) | take(
        count - from_lsr, pools.shared, cpus, before
    )


def take(
    count: int, pool: frozenset[int], cpus: Sequence[Processor], before: frozenset[int]
) -> frozenset[int]:
    """``count`` CPUs of a pool, or all of it if those are fewer; ``before`` ones stay."""
    remaining = before & pool
    if len(remaining) == count:
        return remaining
    if len(remaining) > count:
        return frozenset(in_order(cpus, remaining)[:count])
    return remaining | frozenset(
        in_order(cpus, pool - remaining, remaining)[: count - len(remaining)]
    )


class _Core(NamedTuple):
    """A core's CPUs that are to be ordered; of two cores the one with the lower number first."""

    number: int
    cpus: tuple[int, ...]


class _Socket:
    """A NUMA node and socket: how many of its CPUs are taken, and its cores by tier."""

    def __init__(self) -> None:
        self.taken = 0
        self.size = 0
        self.first = -1
        self.cores: tuple[list[_Core], ...] = ([], [], [])


def in_order(
    cpus: Iterable[Processor], pool: frozenset[int], taken: frozenset[int] = _NONE
) -> list[int]:
    """The pool's CPUs in the order in which they are chosen when ``taken`` already are."""
    places = _places(cpus, pool, taken)
    return [cpu for tier in range(3) for cpu in _in_turns(places, tier)]


def _places(
    cpus: Iterable[Processor], pool: frozenset[int], taken: frozenset[int]
) -> list[_Socket]:
    by_core: dict[tuple[int, int, int], list[int]] = {}
    for processor in cpus:
        by_core.setdefault((processor.node, processor.socket, processor.core), []).append(
            processor.id
        )
    places: dict[tuple[int, int], _Socket] = {}
    for (node, socket, number), threads in sorted(by_core.items()):
        place = places.setdefault((node, socket), _Socket())
        free = tuple(sorted(cpu for cpu in threads if cpu in pool))
        theirs = sum(cpu in taken for cpu in threads)
        place.taken += theirs
        if free:
            place.size += len(free)
            place.first = free[0] if place.first < 0 else min(place.first, free[0])
            # Partly taken, whole, or with a thread that another owner has.
            tier = 0 if theirs else 1 if len(free) == len(threads) else 2
            place.cores[tier].append(_Core(number, free))
    return list(places.values())


def _in_turns(places: Iterable[_Socket], tier: int) -> Iterator[int]:
    waiting = [
        (place.taken, -place.size, place.first, index, place)
        for index, place in enumerate(places)
        if place.cores[tier]
    ]
    heapq.heapify(waiting)
    while waiting:
        _, size, first, index, place = heapq.heappop(waiting)
        core = place.cores[tier].pop(0)
        place.taken += len(core.cpus)
        yield from core.cpus
        if place.cores[tier]:
            heapq.heappush(waiting, (place.taken, size, first, index, place))
