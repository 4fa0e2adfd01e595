"""Types of those fields of a CustomNodeResource that plugins may report. No IO.

Katalyst decodes a plugin's JSON into Go's types, whose names the fields have; these are the same,
and stricter: what the API server would refuse the whole object for is refused here.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from koord_model.katalyst import LEVELS
from koord_model.quantity import milli
from msgspec import Meta

_Name = Annotated[str, Meta(min_length=1, max_length=253)]
_Text = Annotated[str, Meta(max_length=4096)]
Quantities = dict[_Name, str | int]
_EFFECTS = ("NoSchedule", "PreferNoSchedule")
"""Effects of taints; never NoExecute, an eviction without a budget."""
OWN_CONDITION = "AgentReady"


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of the object; what its type does not have is dropped."""


def _check(*amounts: Quantities | None) -> None:
    for found in amounts:
        for name, amount in (found or {}).items():
            try:
                milli(amount)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None


class Attribute(_Part, frozen=True):
    """A named value."""

    name: _Name
    value: _Text


class ResourcePackage(_Part, frozen=True):
    """Resources that are sold as a unit."""

    package_name: _Name
    allocatable: Quantities | None = None
    attributes: list[Attribute] = []

    def __post_init__(self) -> None:
        _check(self.allocatable)


class ResourcePoolBounds(_Part, frozen=True):
    """Bounds of a pool."""

    pool_name: _Name
    min_allocatable: Quantities | None = None
    max_allocatable: Quantities | None = None
    attributes: list[Attribute] = []

    def __post_init__(self) -> None:
        _check(self.min_allocatable, self.max_allocatable)


class ZoneResources(_Part, frozen=True):
    """Resources of the node or of a zone."""

    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    resource_packages: list[ResourcePackage] = []
    resource_pools: list[ResourcePoolBounds] = []

    def __post_init__(self) -> None:
        _check(self.allocatable, self.capacity)


class ZoneAllocation(_Part, frozen=True):
    """A pod's part of a zone."""

    consumer: _Name
    requests: Quantities | None = None

    def __post_init__(self) -> None:
        _check(self.requests)


class ZoneSibling(_Part, frozen=True):
    """A zone beside another, and how they are related."""

    type: _Name
    name: _Name
    attributes: list[Attribute] = []


class TopologyZone(_Part, frozen=True):
    """A socket, a NUMA node, a device and so on, with the zones in it."""

    type: _Name
    name: _Name
    resources: ZoneResources = msgspec.field(default_factory=ZoneResources)
    attributes: list[Attribute] = []
    allocations: list[ZoneAllocation] = []
    children: list[TopologyZone] = []
    siblings: list[ZoneSibling] = []


class NodeProperty(_Part, frozen=True):
    """A property of the machine, with words or an amount."""

    property_name: _Name
    property_values: list[_Text] = []
    property_quantity: str | int | None = None

    def __post_init__(self) -> None:
        if self.property_quantity is not None:
            _check({self.property_name: self.property_quantity})


class ZoneTaint(_Part, frozen=True):
    """A taint for pods of one of Katalyst's levels."""

    key: _Name
    effect: str
    qos_level: str = msgspec.field(name="qosLevel")
    value: _Text = ""

    def __post_init__(self) -> None:
        if self.effect not in _EFFECTS:
            raise ValueError(f"{self.key}: effect; expected one of {', '.join(_EFFECTS)}")
        if self.qos_level not in LEVELS:
            raise ValueError(f"{self.key}: qosLevel; expected one of {', '.join(LEVELS)}")


class NodeCondition(_Part, frozen=True):
    """A condition of the node; that of its agent is koordlet's."""

    type: _Name
    status: str
    reason: _Text = ""
    message: _Text = ""
    last_heartbeat_time: str | None = None

    def __post_init__(self) -> None:
        if self.type == OWN_CONDITION:
            raise ValueError(f"{OWN_CONDITION} is koordlet's own")


Labels = dict[_Name, _Text]

TYPES: dict[tuple[str, str], tuple[str, Any]] = {
    ("spec", "NodeResourceProperties"): ("nodeResourceProperties", list[NodeProperty]),
    ("spec", "Taints"): ("taints", list[ZoneTaint]),
    ("status", "Resources"): ("resources", ZoneResources),
    ("status", "TopologyZone"): ("topologyZone", list[TopologyZone]),
    ("status", "Conditions"): ("conditions", list[NodeCondition]),
    ("metadata", "Labels"): ("labels", Labels),
    ("metadata", "Annotations"): ("annotations", Labels),
}
"""By the part of the object and Go's name of the field: its name in JSON, and its type."""

OWN = frozenset({("status", "TopologyPolicy"), ("status", "NodeMetricStatus")})
"""Fields that are koordlet's as a whole."""
