"""Constraints on attributes that devices of a claim share, or must not share. No IO."""

from __future__ import annotations

from koord_scheduler.plugins.dynamic_resources.objects import DeviceAttribute, DeviceConstraint
from koord_scheduler.plugins.dynamic_resources.pool_devices import PoolDevice


class AttributeConstraint:
    """All devices have the same value of an attribute, or each another one.

    It gets devices in the order in which they are tried, and gives them back in reverse. ``name``
    is that of the attribute.
    """

    def __init__(self, given: DeviceConstraint) -> None:
        self._requests = frozenset(given.requests)
        self._is_match = given.match_attribute is not None
        self.name = given.match_attribute or given.distinct_attribute or ""
        self._values: list[DeviceAttribute] = []

    def add(self, request: str, subrequest: str, device: PoolDevice) -> bool:
        """Take a device for a request, if that is allowed."""
        if not self._concerns(request, subrequest):
            return True
        value = device.attribute(self.name)
        if value is None:
            return False
        if self._is_match and self._values and value != self._values[0]:
            return False
        if not self._is_match and value in self._values:
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, subrequest: str) -> None:
        """Give the last device back."""
        if self._concerns(request, subrequest):
            self._values.pop()

    def _concerns(self, request: str, subrequest: str) -> bool:
        if not self._requests or request in self._requests:
            return True
        return bool(subrequest) and f"{request}/{subrequest}" in self._requests
