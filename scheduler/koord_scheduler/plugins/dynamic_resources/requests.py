"""Requests of claims on one node, before devices are chosen. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from koord_scheduler.plugins.dynamic_resources.capacity import consumed_capacity, fits
from koord_scheduler.plugins.dynamic_resources.objects import (
    MOST_RESULTS,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    ResourceClaimSpec,
)
from koord_scheduler.plugins.dynamic_resources.pool_devices import (
    ClaimingNode,
    DeviceId,
    PoolDevice,
)
from koord_scheduler.plugins.dynamic_resources.pools import INCOMPLETE, Pool
from koord_scheduler.plugins.dynamic_resources.selectors import SelectorError

ConsumedCapacity = Mapping[str, int]
"""Amounts by the name of the capacity, in billionths."""


class AllocationError(Exception):
    """Reason why devices cannot be allocated, in kube-scheduler's words where it has any."""


@dataclass(frozen=True)
class UsedDevices:
    """The devices that claims have: exclusively, or parts of their capacity."""

    exclusive: Mapping[DeviceId, int]
    consumed: Mapping[DeviceId, ConsumedCapacity]

    def __contains__(self, device: DeviceId) -> bool:
        """True if any claim has it."""
        return device in self.exclusive or device in self.consumed


class Alternative:
    """An exact request, or one of the alternatives of ``parent``."""

    def __init__(
        self, request: DeviceRequest, device_class: DeviceClass, node: ClaimingNode, parent: str
    ) -> None:
        self.request = request
        self.device_class = device_class
        self.parent = parent
        self.name = f"{parent}/{request.name}" if parent else request.name
        self.is_all = request.allocation_mode == "All"
        self.devices: list[PoolDevice] = []
        self._node = node

    @property
    def number(self) -> int:
        """Number of devices that it takes."""
        return len(self.devices) if self.is_all else self.request.count

    def means(self, device: PoolDevice) -> bool:
        """True if a device is one of those asked for; raises ``AllocationError``."""
        one = self.device_class
        in_class = _select(device, one.spec.selectors, f"class {one.metadata.name}")
        return (
            in_class
            and _select(device, self.request.selectors, f"request {self.name}")
            and device.is_usable_on(self._node)
        )

    def tolerates(self, device: PoolDevice) -> bool:
        """True if the taints of a device do not matter."""
        forbidding = (
            one for one in device.device.taints if one.effect in ("NoSchedule", "NoExecute")
        )
        tolerations = self.request.tolerations
        return all(
            any(toleration.tolerates(taint) for toleration in tolerations) for taint in forbidding
        )


ClaimRequests = list[list[Alternative]]
"""The requests of a claim, each with its alternatives."""


def claim_requests(
    claim: ResourceClaimSpec,
    node: ClaimingNode,
    pools: Sequence[Pool],
    classes: Mapping[str, DeviceClass],
    used: UsedDevices,
) -> ClaimRequests:
    """Return the requests of a claim; raises ``AllocationError`` where they cannot be met."""
    found = []
    for one in claim.devices.requests:
        exact = [(one.exactly, one.name, "")] if one.exactly is not None else []
        alternatives = exact or [(each, each.name, one.name) for each in one.first_available]
        if not alternatives:
            raise AllocationError(f"request {one.name}: unknown request type")
        found.append(
            [
                _alternative(request, name, parent, node, pools, classes, used)
                for request, name, parent in alternatives
            ]
        )
    least = sum(min(alternative.number for alternative in alternatives) for alternatives in found)
    if least > MOST_RESULTS:
        raise AllocationError(
            f"number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
        )
    return found


def _alternative(
    request: DeviceRequest,
    name: str,
    parent: str,
    node: ClaimingNode,
    pools: Sequence[Pool],
    classes: Mapping[str, DeviceClass],
    used: UsedDevices,
) -> Alternative:
    device_class = classes.get(request.device_class_name)
    if device_class is None:
        raise AllocationError(
            f"request {name}: could not retrieve device class {request.device_class_name}"
        )
    if request.allocation_mode not in ("ExactCount", "All"):
        raise AllocationError(f"request {name}: unsupported count mode {request.allocation_mode}")
    made = Alternative(_named(request, name), device_class, node, parent)
    if made.is_all:
        made.devices = [*_all_devices(made, pools, used)]
    return made


def _named(request: DeviceRequest, name: str) -> DeviceRequest:
    """An exact request has the name of what it is in."""
    return request if request.name == name else msgspec.structs.replace(request, name=name)


def _all_devices(
    asking: Alternative, pools: Sequence[Pool], used: UsedDevices
) -> Iterator[PoolDevice]:
    for pool in pools:
        if pool.problem:
            state = "being updated" if pool.problem == INCOMPLETE else pool.problem
            raise AllocationError(
                f"request {asking.request.name}: asks for all devices, "
                f"but resource pool {pool.id.driver}/{pool.id.name} is currently {state}"
            )
        for device in pool.devices:
            if asking.means(device) and has_room(asking, device, used) is not None:
                yield device


def has_room(
    asking: Alternative,
    device: PoolDevice,
    used: UsedDevices,
    more: Iterable[ConsumedCapacity] = (),
) -> ConsumedCapacity | None:
    """Return a request's part of a device's capacity; ``None`` if not as much is left.

    ``more`` is what others take of it beside those that it is ``used`` by.
    """
    consumed = consumed_capacity(asking.request, device.device)
    if not device.device.capacity or consumed is None:
        return consumed
    taken = Counter(used.consumed.get(device.id, {}))
    for one in more:
        taken.update(one)
    return consumed if fits(device.device, consumed, taken) else None


def _select(device: PoolDevice, selectors: Sequence[DeviceSelector], of: str) -> bool:
    for place, selector in enumerate(selectors):
        if selector.cel is None:
            raise AllocationError(f"{of}: selector #{place}: unsupported selector type")
        try:
            if not device.matches(selector.cel.expression):
                return False
        except SelectorError as error:
            raise AllocationError(f"{of}: selector #{place}: {error}") from None
    return True
