"""Devices that have to be prepared before pods that use them can be bound. No IO."""

from __future__ import annotations

from collections.abc import Iterator

from koord_scheduler.plugins.dynamic_resources.objects import AllocatedDevice, ResourceClaim


def is_ready(claim: ResourceClaim) -> bool:
    """True if drivers say of all devices of a claim that pods can be bound."""
    return all(
        set(one.binding_conditions or ()) <= conditions for one, conditions in _conditions(claim)
    )


def has_failed(claim: ResourceClaim) -> bool:
    """True if a driver says of a device of a claim that it will not be prepared."""
    return any(
        not conditions.isdisjoint(one.binding_failure_conditions or ())
        for one, conditions in _conditions(claim)
    )


def _conditions(claim: ResourceClaim) -> Iterator[tuple[AllocatedDevice, set[str]]]:
    """The devices that have to be prepared, and which conditions are true of each."""
    allocation = claim.status.allocation
    for one in allocation.devices.results if allocation is not None else ():
        if not one.binding_conditions:
            continue
        place = one.driver, one.pool, one.device
        statuses = (
            each for each in claim.status.devices if (each.driver, each.pool, each.device) == place
        )
        true = {
            each.type for status in statuses for each in status.conditions if each.status == "True"
        }
        yield one, true
