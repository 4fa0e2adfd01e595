"""What the scheduler reads of an object's metadata. No IO."""

from __future__ import annotations

import msgspec
from koord_kube.views.decode import decode_view
from koord_kube.views.metadata import OwnerReference
from koord_model.keys import (
    ANNOTATION_AMPLIFICATION_RATIO,
    ANNOTATION_BIND_GANG_COUNT,
    ANNOTATION_BIND_GANG_GROUP,
    ANNOTATION_DEVICE_ALLOCATE_HINT,
    ANNOTATION_DEVICE_ALLOCATED,
    ANNOTATION_DEVICE_JOINT_ALLOCATE,
    ANNOTATION_EXACT_MATCH_RESERVATION,
    ANNOTATION_GANG_GROUPS,
    ANNOTATION_GANG_MATCH_POLICY,
    ANNOTATION_GANG_MIN_AVAILABLE,
    ANNOTATION_GANG_MODE,
    ANNOTATION_GANG_NAME,
    ANNOTATION_GANG_NETWORK_INDEX,
    ANNOTATION_GANG_NETWORK_TOPOLOGY,
    ANNOTATION_GANG_TOTAL_NUMBER,
    ANNOTATION_GANG_WAITING_TIME,
    ANNOTATION_GPU_PARTITION_SPEC,
    ANNOTATION_LOAD_AFTER_INITIALIZED,
    ANNOTATION_LOAD_AFTER_SCHEDULED,
    ANNOTATION_LOAD_FACTORS,
    ANNOTATION_NETWORK_SELECTOR,
    ANNOTATION_NUMA_TOPOLOGY_SPEC,
    ANNOTATION_OLD_GANG_MATCH_POLICY,
    ANNOTATION_OLD_SCHEDULING_HINT,
    ANNOTATION_PRE_ALLOCATABLE_PRIORITY,
    ANNOTATION_RAW_ALLOCATABLE,
    ANNOTATION_RESERVATION_AFFINITY,
    ANNOTATION_RESERVATION_ALLOCATED,
    ANNOTATION_RESERVATION_CURRENT_OWNER,
    ANNOTATION_RESERVATION_OWNERS,
    ANNOTATION_RESOURCE_SPEC,
    ANNOTATION_RESOURCE_STATUS,
    ANNOTATION_SCHEDULING_HINT,
    ANNOTATION_USAGE_THRESHOLDS,
)


class SchedulingAnnotations(msgspec.Struct, frozen=True, gc=False):
    """The annotations that decide where pods run, of pods and of Nodes; others are not read."""

    resource_spec: str | None = msgspec.field(default=None, name=ANNOTATION_RESOURCE_SPEC)
    numa_topology_spec: str | None = msgspec.field(default=None, name=ANNOTATION_NUMA_TOPOLOGY_SPEC)
    resource_status: str | None = msgspec.field(default=None, name=ANNOTATION_RESOURCE_STATUS)
    amplification_ratio: str | None = msgspec.field(
        default=None, name=ANNOTATION_AMPLIFICATION_RATIO
    )
    load_factors: str | None = msgspec.field(default=None, name=ANNOTATION_LOAD_FACTORS)
    load_after_scheduled: str | None = msgspec.field(
        default=None, name=ANNOTATION_LOAD_AFTER_SCHEDULED
    )
    load_after_initialized: str | None = msgspec.field(
        default=None, name=ANNOTATION_LOAD_AFTER_INITIALIZED
    )
    usage_thresholds: str | None = msgspec.field(default=None, name=ANNOTATION_USAGE_THRESHOLDS)
    raw_allocatable: str | None = msgspec.field(default=None, name=ANNOTATION_RAW_ALLOCATABLE)
    scheduling_hint: str | None = msgspec.field(default=None, name=ANNOTATION_SCHEDULING_HINT)
    old_scheduling_hint: str | None = msgspec.field(
        default=None, name=ANNOTATION_OLD_SCHEDULING_HINT
    )
    device_allocated: str | None = msgspec.field(default=None, name=ANNOTATION_DEVICE_ALLOCATED)
    device_hint: str | None = msgspec.field(default=None, name=ANNOTATION_DEVICE_ALLOCATE_HINT)
    device_joint: str | None = msgspec.field(default=None, name=ANNOTATION_DEVICE_JOINT_ALLOCATE)
    gpu_partition_spec: str | None = msgspec.field(default=None, name=ANNOTATION_GPU_PARTITION_SPEC)
    reservation_affinity: str | None = msgspec.field(
        default=None, name=ANNOTATION_RESERVATION_AFFINITY
    )
    reservation_allocated: str | None = msgspec.field(
        default=None, name=ANNOTATION_RESERVATION_ALLOCATED
    )
    reservation_owners: str | None = msgspec.field(default=None, name=ANNOTATION_RESERVATION_OWNERS)
    reservation_current_owner: str | None = msgspec.field(
        default=None, name=ANNOTATION_RESERVATION_CURRENT_OWNER
    )
    exact_match_reservation: str | None = msgspec.field(
        default=None, name=ANNOTATION_EXACT_MATCH_RESERVATION
    )
    bind_gang_count: str | None = msgspec.field(default=None, name=ANNOTATION_BIND_GANG_COUNT)
    bind_gang_group: str | None = msgspec.field(default=None, name=ANNOTATION_BIND_GANG_GROUP)
    gang_groups: str | None = msgspec.field(default=None, name=ANNOTATION_GANG_GROUPS)
    gang_match_policy: str | None = msgspec.field(default=None, name=ANNOTATION_GANG_MATCH_POLICY)
    gang_min_available: str | None = msgspec.field(default=None, name=ANNOTATION_GANG_MIN_AVAILABLE)
    gang_mode: str | None = msgspec.field(default=None, name=ANNOTATION_GANG_MODE)
    gang_name: str | None = msgspec.field(default=None, name=ANNOTATION_GANG_NAME)
    gang_network_index: str | None = msgspec.field(default=None, name=ANNOTATION_GANG_NETWORK_INDEX)
    gang_network_topology: str | None = msgspec.field(
        default=None, name=ANNOTATION_GANG_NETWORK_TOPOLOGY
    )
    gang_total_number: str | None = msgspec.field(default=None, name=ANNOTATION_GANG_TOTAL_NUMBER)
    gang_waiting_time: str | None = msgspec.field(default=None, name=ANNOTATION_GANG_WAITING_TIME)
    network_selector: str | None = msgspec.field(default=None, name=ANNOTATION_NETWORK_SELECTOR)
    old_gang_match_policy: str | None = msgspec.field(
        default=None, name=ANNOTATION_OLD_GANG_MATCH_POLICY
    )

    pre_allocatable_priority: str | None = msgspec.field(
        default=None, name=ANNOTATION_PRE_ALLOCATABLE_PRIORITY
    )

    def by_key(self) -> dict[str, str]:
        """Those that are there, by their keys."""
        found = ((key, getattr(self, name)) for key, name in _KEYS)
        return {key: value for key, value in found if value is not None}


_KEYS = tuple((one.encode_name, one.name) for one in msgspec.structs.fields(SchedulingAnnotations))
NO_ANNOTATIONS = SchedulingAnnotations()


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Names, labels and owners; times are RFC 3339."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class AnnotatedMeta(ObjectMeta, frozen=True, gc=False):
    """With those annotations that decide where pods run."""

    annotations: SchedulingAnnotations | None = None


class AnyObject(msgspec.Struct, frozen=True):
    """An object of any kind, by its metadata."""

    metadata: ObjectMeta = ObjectMeta()


_DECODER = msgspec.json.Decoder(AnyObject)


def read_metadata(text: bytes) -> ObjectMeta:
    """The metadata of an object of any kind, from its JSON document.

    Raises:
        ValueError: it is not an object.
    """
    return decode_view(_DECODER, text, "a valid object").metadata
