"""ResourceClaims, ResourceSlices and DeviceClasses of resource.k8s.io/v1, as read. No IO."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from koord_kube.views.decode import decode_view

from koord_scheduler.objects.metadata import ObjectMeta

Document = dict[str, Any]
Quantity = str | int | float

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps a claim with an allocation until nobody uses it any more."""
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of claims that the scheduler makes for extended resources of a pod."""
MOST_RESULTS = 32
"""Devices of one claim."""
MOST_CONSUMERS = 256
"""Pods that share a claim."""
MOST_ALTERNATIVES = 8
"""Subrequests of a request."""


class ClaimMeta(ObjectMeta, frozen=True, rename="camel", gc=False):
    """Metadata of an object of this group."""

    resource_version: str = ""
    finalizers: list[str] | None = None
    annotations: dict[str, str] | None = None


class _Struct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Something in these objects."""


class DeviceAttribute(_Struct, frozen=True):
    """One of four kinds of values."""

    integer: int | None = msgspec.field(default=None, name="int")
    boolean: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class ValidRange(_Struct, frozen=True):
    """From ``min`` to ``max`` in multiples of ``step`` above ``min``."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(_Struct, frozen=True):
    """Amounts of a capacity that can be consumed at a time."""

    default: Quantity | None = None
    valid_values: list[Quantity] | None = None
    valid_range: ValidRange | None = None


class DeviceCapacity(_Struct, frozen=True):
    """Capacity of a device."""

    value: Quantity = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(_Struct, frozen=True):
    """An amount that devices share."""

    value: Quantity = 0


class CounterSet(_Struct, frozen=True):
    """Amounts that devices of a pool share."""

    name: str = ""
    counters: dict[str, Counter] = {}


class CounterConsumption(_Struct, frozen=True):
    """A device's part of a counter set."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class DeviceTaint(_Struct, frozen=True):
    """Mark that keeps claims off a device that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceToleration(_Struct, frozen=True):
    """Taints of devices that a request bears; "" for ``key`` or ``effect`` means any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: DeviceTaint) -> bool:
        """True if it is for this taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (
            self.operator in ("", "Equal") and self.value == taint.value
        )


class DRADevice(_Struct, frozen=True):
    """One device of a slice."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: list[CounterConsumption] = []
    node_name: str | None = None
    node_selector: Document | None = None
    all_nodes: bool = False
    taints: list[DeviceTaint] = []
    binds_to_node: bool = False
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool = False


class ResourcePool(_Struct, frozen=True):
    """The pool that a slice belongs to, and how many slices it has."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(_Struct, frozen=True):
    """Devices, or the counters of a pool, and who can use them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: Document | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: list[DRADevice] = []
    shared_counters: list[CounterSet] = []


class CELSelector(_Struct, frozen=True):
    """An expression over ``device``."""

    expression: str = ""


class DeviceSelector(_Struct, frozen=True):
    """Selection of devices."""

    cel: CELSelector | None = None


class CapacityRequirements(_Struct, frozen=True):
    """Capacity that a device has to have left."""

    requests: dict[str, Quantity] = {}


class DeviceRequest(_Struct, frozen=True):
    """An exact request, or one of alternatives (which has its own name)."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[DeviceSelector] = []
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: list[DeviceToleration] = []
    capacity: CapacityRequirements | None = None


class ClaimRequest(_Struct, frozen=True):
    """A request of a claim: ``exactly`` that, or the first of alternatives that there is."""

    name: str = ""
    exactly: DeviceRequest | None = None
    first_available: list[DeviceRequest] = []


class DeviceConstraint(_Struct, frozen=True):
    """Constraint on attributes that devices of requests share, or must not share."""

    requests: list[str] = []
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(_Struct, frozen=True):
    """Settings for a driver."""

    requests: list[str] = []
    opaque: Document | None = None


class DeviceClaim(_Struct, frozen=True):
    """Requests of a claim."""

    requests: list[ClaimRequest] = []
    constraints: list[DeviceConstraint] = []
    config: list[DeviceClaimConfiguration] = []


class ResourceClaimSpec(_Struct, frozen=True):
    """Specification of a claim."""

    devices: DeviceClaim = DeviceClaim()


class AllocatedDevice(_Struct, frozen=True, rename={"share_id": "shareID"}):
    """A device of an allocation, as far as others have to know of it."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = msgspec.field(default=None, name="adminAccess")
    share_id: str | None = None
    consumed_capacity: dict[str, Quantity] | None = msgspec.field(
        default=None, name="consumedCapacity"
    )
    binding_conditions: list[str] | None = msgspec.field(default=None, name="bindingConditions")
    binding_failure_conditions: list[str] | None = msgspec.field(
        default=None, name="bindingFailureConditions"
    )


class DeviceAllocation(_Struct, frozen=True):
    """The devices of an allocation."""

    results: list[AllocatedDevice] = []


class Allocation(_Struct, frozen=True):
    """Devices of a claim, and the nodes where they can be used; ``None``: all."""

    devices: DeviceAllocation = DeviceAllocation()
    node_selector: Document | None = None


class Consumer(_Struct, frozen=True):
    """User of a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(_Struct, frozen=True):
    """A driver's condition of an allocated device."""

    type: str = ""
    status: str = ""
    message: str = ""


class AllocatedDeviceStatus(_Struct, frozen=True):
    """The conditions of an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: list[DeviceCondition] = []


class ResourceClaimStatus(_Struct, frozen=True):
    """Status of a claim."""

    allocation: Allocation | None = None
    reserved_for: list[Consumer] = []
    devices: list[AllocatedDeviceStatus] = []


class ResourceClaim(_Struct, frozen=True):
    """A claim of pods to devices."""

    metadata: ClaimMeta = ClaimMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def key(self) -> str:
        """The namespace/name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def is_reserved_for(self, uid: str) -> bool:
        """True if the pod with this uid may use it."""
        return any(one.uid == uid for one in self.status.reserved_for)

    def is_controlled_by(self, uid: str) -> bool:
        """True if an object with this uid manages it."""
        return uid in self._controllers

    @property
    def extended_resources_of(self) -> str:
        """The uid of the pod for whose extended resources a scheduler made it, "" for others."""
        is_such = (self.metadata.annotations or {}).get(EXTENDED_RESOURCE_CLAIM) == "true"
        return next(iter(self._controllers), "") if is_such else ""

    @property
    def _controllers(self) -> list[str]:
        owners = self.metadata.owner_references or ()
        return [owner.uid for owner in owners if owner.controller]


class ResourceSlice(_Struct, frozen=True):
    """Devices that a driver offers."""

    metadata: ClaimMeta = ClaimMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceClassSpec(_Struct, frozen=True):
    """Devices of a class, and settings for their driver."""

    selectors: list[DeviceSelector] = []
    config: list[DeviceClaimConfiguration] = []
    extended_resource_name: str | None = None


class DeviceClass(_Struct, frozen=True):
    """A kind of devices that administrators name."""

    metadata: ClaimMeta = ClaimMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


_Kind = TypeVar("_Kind", bound=msgspec.Struct)
_DECODERS: dict[type[Any], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (ResourceClaim, ResourceSlice, DeviceClass)
}


def read_device_object(kind: type[_Kind], text: bytes) -> _Kind:
    """The object of a kind in a JSON document.

    Raises:
        ValueError: it is not one.
    """
    found: _Kind = decode_view(_DECODERS[kind], text, f"a valid {kind.__name__}")
    return found
