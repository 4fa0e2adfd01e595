"""Pools of devices that a node can use. No IO.

As kube-scheduler: only slices of the newest generation count, and a pool of which slices are
missing, or that contradicts itself, gives no devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from koord_scheduler.plugins.dynamic_resources.objects import CounterSet, ResourceSlice
from koord_scheduler.plugins.dynamic_resources.pool_devices import (
    ClaimingNode,
    PoolDevice,
    node_matches,
)


class PoolId(NamedTuple):
    """A pool of a driver."""

    driver: str
    name: str


class PoolSlice:
    """A slice with its devices."""

    def __init__(self, piece: ResourceSlice) -> None:
        self.slice = piece
        self.name = piece.metadata.name
        self.pool = PoolId(piece.spec.driver, piece.spec.pool.name)
        self.generation = piece.spec.pool.generation
        self.devices = [PoolDevice(device, piece) for device in piece.spec.devices]

    @property
    def has_counters(self) -> bool:
        """True if it has the counters of its pool, which concern all nodes."""
        return bool(self.slice.spec.shared_counters)

    @property
    def node(self) -> str:
        """The only node that it concerns, "" where there may be others."""
        return "" if self.has_counters else self.slice.spec.node_name or ""

    def concerns(self, node: ClaimingNode) -> bool:
        """True if a node can use some of its devices, or has to know its counters."""
        spec = self.slice.spec
        if self.has_counters:
            return True
        if spec.per_device_node_selection:
            return any(device.is_usable_on(node) for device in self.devices)
        return node_matches(node, spec.node_name, spec.all_nodes, spec.node_selector)


@dataclass(frozen=True)
class Pool:
    """The devices of a pool for a node, in order; ``elsewhere`` are the others of the pool.

    ``problem``: why there are none now, "incomplete" or "invalid".
    """

    id: PoolId
    devices: tuple[PoolDevice, ...] = ()
    elsewhere: tuple[PoolDevice, ...] = ()
    counters: Mapping[str, CounterSet] | None = None
    problem: str = ""

    @property
    def has_binding_conditions(self) -> bool:
        """True if some device has to be prepared before pods can be bound."""
        return any(device.device.binding_conditions is not None for device in self.devices)


INCOMPLETE, INVALID = "incomplete", "invalid"


def gather_pools(
    node: ClaimingNode,
    slices: Iterable[PoolSlice],
    by_pool: Mapping[PoolId, Sequence[PoolSlice]],
) -> list[Pool]:
    """The pools of those ``slices`` that concern a node; ``by_pool`` has all slices there are.

    In order of their names; pools with binding conditions last.
    """
    found: dict[PoolId, list[PoolSlice]] = {}
    for pool_slice in slices:
        if pool_slice.concerns(node):
            known = found.setdefault(pool_slice.pool, [])
            if known and pool_slice.generation > known[0].generation:
                known.clear()
            if not known or pool_slice.generation == known[0].generation:
                known.append(pool_slice)
    pools = (_pool(pool, here, by_pool[pool]) for pool, here in found.items())
    return sorted(
        (one for one in pools if one is not None),
        key=lambda one: (one.has_binding_conditions, one.id),
    )


def _pool(pool: PoolId, here: list[PoolSlice], known: Sequence[PoolSlice]) -> Pool | None:
    """A pool by the slices that concern the node; ``None`` if a newer one does not concern it."""
    generation = here[0].generation
    expected = here[0].slice.spec.pool.resource_slice_count
    of_generation = here
    if len(here) != expected:
        if any(one.generation > generation for one in known):
            return None
        of_generation = [one for one in known if one.generation == generation]
        if len(of_generation) != expected:
            return Pool(pool, problem=INCOMPLETE)
    here = sorted(here, key=lambda one: one.name)
    devices = [device for piece in here if not piece.has_counters for device in piece.devices]
    names = {one.name for one in here}
    others = [
        device for piece in of_generation if piece.name not in names for device in piece.devices
    ]
    sets = [shared_counter for piece in here for shared_counter in piece.slice.spec.shared_counters]
    counters = {one.name: one for one in sets}
    is_valid = (
        len({device.id for device in devices}) == len(devices)
        and len(counters) == len(sets)
        and all(_has_its_counters(device, counters) for device in (*devices, *others))
    )
    if not is_valid:
        return Pool(pool, problem=INVALID)
    return Pool(pool, tuple(devices), tuple(others), counters)


def _has_its_counters(pool_device: PoolDevice, counters: Mapping[str, CounterSet]) -> bool:
    return all(
        consumed.counter_set in counters
        and consumed.counters.keys() <= counters[consumed.counter_set].counters.keys()
        for consumed in pool_device.device.consumes_counters
    )
