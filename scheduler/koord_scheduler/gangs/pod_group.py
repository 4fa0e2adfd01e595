"""PodGroups of scheduling.sigs.k8s.io/v1alpha1. No IO."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from koord_kube.views.decode import decode_view
from koord_model.times import from_rfc3339

from koord_scheduler.gangs.gang_spec import GangDefaults, GangSpec, gang_of_pod_group
from koord_scheduler.objects.annotations import NO_ANNOTATIONS, decode_hook
from koord_scheduler.objects.metadata import AnnotatedMeta

PENDING = "Pending"
PRE_SCHEDULING = "PreScheduling"
SCHEDULING = "Scheduling"
SCHEDULED = "Scheduled"
RUNNING = "Running"
FINISHED = "Finished"
FAILED = "Failed"


class PodGroupMeta(AnnotatedMeta, frozen=True, rename="camel", gc=False):
    """With the version that is written about."""

    resource_version: str = ""
    generation: int = 0


class PodGroupSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Number of pods that have to be there."""

    min_member: int = 0
    schedule_timeout_seconds: int | None = None


class PodGroupStatus(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """Progress of its pods."""

    phase: str = ""
    occupied_by: str = ""
    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: str | None = None


class PodGroupObject(msgspec.Struct, frozen=True):
    """A PodGroup as the API has it."""

    metadata: PodGroupMeta = PodGroupMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class PodGroup(NamedTuple):
    """A PodGroup, and the gang that it describes."""

    spec: GangSpec
    status: PodGroupStatus
    uid: str
    resource_version: str


_DECODER = msgspec.json.Decoder(PodGroupObject, dec_hook=decode_hook)


def read_pod_group(raw: bytes, defaults: GangDefaults) -> PodGroup:
    """The PodGroup in a JSON document.

    Raises:
        ValueError: it is not a PodGroup.
    """
    given = decode_view(_DECODER, raw, "a valid PodGroup")
    metadata, spec = given.metadata, given.spec
    created = metadata.creation_timestamp
    return PodGroup(
        gang_of_pod_group(
            f"{metadata.namespace}/{metadata.name}",
            spec.min_member,
            spec.schedule_timeout_seconds,
            (metadata.annotations or NO_ANNOTATIONS),
            0.0 if created is None else from_rfc3339(created) or 0.0,
            defaults,
        ),
        given.status,
        metadata.uid,
        metadata.resource_version,
    )
