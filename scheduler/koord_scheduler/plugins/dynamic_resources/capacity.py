"""Part of a device's capacity that a request takes. No IO.

As Kubernetes' feature DRAConsumableCapacity: a request without an amount takes the default of the
policy, or all; an amount is rounded up to the next one that the policy allows. Amounts are in
billionths.
"""

from __future__ import annotations

from collections.abc import Mapping

from koord_model.quantity import nano

from koord_scheduler.plugins.dynamic_resources.objects import (
    CapacityRequestPolicy,
    DeviceCapacity,
    DeviceRequest,
    DRADevice,
    Quantity,
    ValidRange,
)

_ONE = 10**9


def consumed_capacity(request: DeviceRequest, device: DRADevice) -> dict[str, int] | None:
    """Return the part of each capacity that a request takes; ``None``: it cannot be had."""
    asked = request.capacity.requests if request.capacity is not None else {}
    if not asked.keys() <= device.capacity.keys():
        return None
    found = {}
    for name, one in device.capacity.items():
        amount = _consumed(asked.get(name), one)
        if one.request_policy is not None and _violates(amount, one.request_policy):
            return None
        found[name] = amount
    return found


def fits(device: DRADevice, consumed: Mapping[str, int], used: Mapping[str, int]) -> bool:
    """True if a device has as much left, beside what is ``used`` of it."""
    return all(
        consumed[name] + used.get(name, 0) <= nano(one.value)
        for name, one in device.capacity.items()
    )


def _consumed(asked: Quantity | None, capacity: DeviceCapacity) -> int:
    policy = capacity.request_policy
    if asked is None:
        default = policy.default if policy is not None else None
        return nano(capacity.value if default is None else default)
    amount = nano(asked)
    if policy is None:
        return amount
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded(amount, nano(policy.valid_range.min), policy.valid_range)
    valid = sorted(map(nano, policy.valid_values or ()))
    return next((one for one in valid if amount <= one), amount)


def _rounded(amount: int, least: int, within: ValidRange) -> int:
    if amount < least or within.step is None:
        return max(amount, least)
    # Kubernetes steps in whole numbers.
    step, start, wanted = (_whole(one) for one in (nano(within.step), least, amount))
    return (start + -(-(wanted - start) // step) * step) * _ONE


def _violates(amount: int, policy: CapacityRequestPolicy) -> bool:
    if policy.default is not None and amount == nano(policy.default):
        return False
    within = policy.valid_range
    if within is not None:
        if within.max is not None and amount > nano(within.max):
            return True
        least = nano(within.min or 0)
        return (
            within.step is not None
            and (_whole(amount) - _whole(least)) % _whole(nano(within.step)) != 0
        )
    return bool(policy.valid_values) and amount not in map(nano, policy.valid_values or ())


def _whole(amount: int) -> int:
    return -(-amount // _ONE)
