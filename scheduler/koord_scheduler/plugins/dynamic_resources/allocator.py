"""Allocation of a node's devices to the claims of a pod. No IO.

As kube-scheduler: the first devices that do, in the order of pools, slices and devices; where a
choice leaves later requests without devices, the next one is tried, unless it is alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from koord_scheduler.plugins.dynamic_resources.alike_devices import AlikeDevices
from koord_scheduler.plugins.dynamic_resources.constraints import AttributeConstraint
from koord_scheduler.plugins.dynamic_resources.counters import PoolCounters
from koord_scheduler.plugins.dynamic_resources.objects import (
    MOST_RESULTS,
    DeviceClass,
    ResourceClaimSpec,
)
from koord_scheduler.plugins.dynamic_resources.pool_devices import (
    ClaimingNode,
    DeviceId,
    PoolDevice,
)
from koord_scheduler.plugins.dynamic_resources.pools import INVALID, Pool
from koord_scheduler.plugins.dynamic_resources.requests import (
    AllocationError,
    Alternative,
    ClaimRequests,
    ConsumedCapacity,
    UsedDevices,
    claim_requests,
    has_room,
)

_Item = TypeVar("_Item")
_Undo = Callable[[], object]

MOST_STEPS = 20_000
"""Devices that are looked at on a node, after which it is given up: some tens of milliseconds."""
NOT_ALLOCATED = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"
TIMED_OUT = "timed out trying to allocate devices"


class ChosenDevice(NamedTuple):
    """A device for a request; ``consumed`` of its capacity if others may have the rest."""

    alternative: Alternative
    device: PoolDevice
    consumed: ConsumedCapacity | None = None


class SearchBudget:
    """Number of devices that may still be looked at; kube-scheduler has a time for that."""

    def __init__(self, left: int = MOST_STEPS) -> None:
        self.left = left

    def spend(self) -> None:
        """Look at one more; raises ``AllocationError`` if that is one too many."""
        if self.left <= 0:
            raise AllocationError(TIMED_OUT)
        self.left -= 1


class ClaimDevices(NamedTuple):
    """The devices of a claim, and which alternative of each of its requests they are for."""

    devices: list[ChosenDevice]
    alternatives: list[Alternative]


def allocate(
    claims: Sequence[ResourceClaimSpec],
    node: ClaimingNode,
    pools: Sequence[Pool],
    classes: Mapping[str, DeviceClass],
    used: UsedDevices,
    budget: SearchBudget,
) -> list[ClaimDevices]:
    """Devices for all claims of a pod; raises ``AllocationError`` where there are none."""
    requests = [claim_requests(claim, node, pools, classes, used) for claim in claims]
    constraints = []
    for claim in claims:
        for place, given in enumerate(claim.devices.constraints):
            if not given.match_attribute and not given.distinct_attribute:
                raise AllocationError(f"constraint #{place}: empty constraint")
        constraints.append([AttributeConstraint(each) for each in claim.devices.constraints])
    search = _Search(requests, constraints, pools, used, budget)
    try:
        is_done = search.run()
    except RecursionError:
        raise AllocationError(TIMED_OUT) from None
    if not is_done:
        is_invalid = any(pool.problem == INVALID for pool in pools)
        raise AllocationError(INVALID_POOLS if is_invalid else NOT_ALLOCATED)
    return search.result


class _TooManyDevicesError(Exception):
    """A claim would get more than it can: fewer can only come of other alternatives."""


class _Search:
    def __init__(
        self,
        requests: Sequence[ClaimRequests],
        constraints: Sequence[Sequence[AttributeConstraint]],
        pools: Iterable[Pool],
        used: UsedDevices,
        budget: SearchBudget,
    ) -> None:
        self._requests = requests
        self._constraints = constraints
        self._used = used
        self._pool_of: dict[DeviceId, Pool] = {}
        self._devices: list[PoolDevice] = []
        for pool in pools:
            if not pool.problem:
                self._devices += pool.devices
                self._pool_of.update((device.id, pool) for device in pool.devices)
        self._counters: dict[tuple[str, str], PoolCounters] = {}
        self._taken: dict[DeviceId, list[int]] = defaultdict(list)
        self._consumed: dict[DeviceId, list[ConsumedCapacity]] = defaultdict(list)
        self._budget = budget
        self._alike = AlikeDevices(requests, constraints)
        self.result = [ClaimDevices([], [each[0] for each in request]) for request in requests]

    def run(self) -> bool:
        return self._claim(0)

    def _claim(self, claim: int) -> bool:
        return claim == len(self._requests) or self._request(claim, 0)

    def _request(self, claim: int, place: int) -> bool:
        if place == len(self._requests[claim]):
            try:
                return self._claim(claim + 1)
            except _TooManyDevicesError:
                return False
        alternatives = self._requests[claim][place]
        if not alternatives[0].parent:
            return self._choose(claim, place, alternatives[0], 0, 0)
        too_many = True
        for alternative in alternatives:
            try:
                if self._choose(claim, place, alternative, 0, 0):
                    self.result[claim].alternatives[place] = alternative
                    return True
                too_many = False
            except _TooManyDevicesError:
                continue
        if too_many:
            raise _TooManyDevicesError
        return False

    def _choose(
        self, claim: int, place: int, alternative: Alternative, done: int, start: int
    ) -> bool:
        """Choose the remaining devices of a request, of those from ``start`` on, and the rest."""
        if alternative.is_all and not alternative.devices:
            return False
        if done >= alternative.number:
            return self._request(claim, place + 1)
        if len(self.result[claim].devices) + alternative.number - done > MOST_RESULTS:
            raise _TooManyDevicesError
        if alternative.is_all:
            self._budget.spend()
            return self._try(claim, place, alternative, alternative.devices[done], done, 0)
        failed: set[Hashable] = set()
        for at in range(start, len(self._devices)):
            self._budget.spend()
            device = self._devices[at]
            if self._is_in_use(claim, alternative, device) or not alternative.means(device):
                continue
            if failed and self._alike.kind(device) in failed:
                continue
            if self._try(claim, place, alternative, device, done, at + 1):
                return True
            failed.add(self._alike.kind(device))
        return False

    def _try(
        self,
        claim: int,
        place: int,
        alternative: Alternative,
        device: PoolDevice,
        done: int,
        start: int,
    ) -> bool:
        """Take a device, and give it back if there are not all others then."""
        undo: list[_Undo] = []
        is_done = False
        try:
            is_done = self._take(claim, alternative, device, undo) and self._choose(
                claim, place, alternative, done + 1, start
            )
        finally:
            if not is_done:
                for step in reversed(undo):
                    step()
        return is_done

    def _is_in_use(self, claim: int, alternative: Alternative, device: PoolDevice) -> bool:
        taken = self._taken.get(device.id, ())
        if alternative.request.admin_access:
            return claim in taken
        return device.id in self._used.exclusive or bool(taken)

    def _take(
        self, claim: int, alternative: Alternative, device: PoolDevice, undo: list[_Undo]
    ) -> bool:
        """Take a device if it can be had; ``undo`` gets what gives it back, or a part of it."""
        if self._is_in_use(claim, alternative, device) or not alternative.tolerates(device):
            return False
        consumed = has_room(alternative, device, self._used, self._consumed.get(device.id, ()))
        if consumed is None or not self._take_counters(device, undo):
            return False
        if not self._add_to_constraints(claim, alternative, device, undo):
            if alternative.is_all:
                raise AllocationError(
                    f"request {alternative.request.name}: cannot add device {'/'.join(device.id)} "
                    "because a claim constraint would not be satisfied"
                )
            return False
        is_shared = device.device.allow_multiple_allocations
        if is_shared:
            self._push(self._consumed[device.id], consumed, undo)
        else:
            self._push(self._taken[device.id], claim, undo)
        chosen = ChosenDevice(alternative, device, consumed if is_shared else None)
        self._push(self.result[claim].devices, chosen, undo)
        return True

    @staticmethod
    def _push(onto: list[_Item], one: _Item, undo: list[_Undo]) -> None:
        onto.append(one)
        undo.append(onto.pop)

    def _take_counters(self, device: PoolDevice, undo: list[_Undo]) -> bool:
        if not device.device.consumes_counters:
            return True
        shares = device.device.allow_multiple_allocations
        if shares and (device.id in self._used.consumed or self._consumed.get(device.id)):
            return True  # whoever was first has taken them
        pool = self._pool_of[device.id]
        if pool.id not in self._counters:
            self._counters[pool.id] = PoolCounters(pool, self._used)
        counters = self._counters[pool.id]
        if not counters.take(device):
            return False
        undo.append(partial(counters.give_back, device))
        return True

    def _add_to_constraints(
        self, claim: int, alternative: Alternative, device: PoolDevice, undo: list[_Undo]
    ) -> bool:
        request = alternative.parent or alternative.request.name
        subrequest = alternative.request.name if alternative.parent else ""
        for each in self._constraints[claim]:
            if not each.add(request, subrequest, device):
                return False
            undo.append(partial(each.remove, request, subrequest))
        return True
