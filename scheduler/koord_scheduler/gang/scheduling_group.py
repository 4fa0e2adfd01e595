"""Kubernetes' own PodGroups (scheduling.k8s.io/v1alpha2), which are off there by default. No IO.

Pods name theirs in ``spec.schedulingGroup``. Its gang policy is that of a gang of which bound pods
count, and of which a pod that does not fit holds up no other.
"""

from __future__ import annotations

import msgspec
from koord_kube.views.decode import decode_view
from koord_model.times import from_rfc3339

from koord_scheduler.gang.gang_spec import GangMode, GangSource, GangSpec, MatchPolicy
from koord_scheduler.gang.pod_group import PodGroup, PodGroupMeta, PodGroupStatus

SUFFIX = ".scheduling.k8s.io"
"""Ends the keys of these gangs: names of PodGroups of both kinds may be equal."""


class GangPolicy(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """How many of its pods start together."""

    min_count: int = 0


class SchedulingPolicy(msgspec.Struct, frozen=True, gc=False):
    """Without ``gang``, pods are placed one by one."""

    gang: GangPolicy | None = None


class SchedulingGroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a group asks for; what else it may say needs features that are not there."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: dict[str, object] | None = None
    resource_claims: list[dict[str, object]] | None = None


class SchedulingGroupObject(msgspec.Struct, frozen=True):
    """A PodGroup of Kubernetes as the API has it."""

    metadata: PodGroupMeta = PodGroupMeta()
    spec: SchedulingGroupSpec = SchedulingGroupSpec()


_DECODER = msgspec.json.Decoder(SchedulingGroupObject)


def scheduling_group_key(namespace: str, name: str) -> str:
    """The key of the gang of a group."""
    return f"{namespace}/{name}{SUFFIX}"


def read_scheduling_group(raw: bytes) -> PodGroup:
    """The PodGroup of Kubernetes in a JSON document.

    Raises:
        ValueError: it is not one.
    """
    given = decode_view(_DECODER, raw, "a valid PodGroup")
    metadata, spec = given.metadata, given.spec
    key = scheduling_group_key(metadata.namespace, metadata.name)
    gang, created = spec.scheduling_policy.gang, metadata.creation_timestamp
    minimum = 0 if gang is None else gang.min_count
    described = GangSpec(
        key,
        minimum,
        minimum,
        GangMode.NON_STRICT,
        MatchPolicy.WAITING_AND_RUNNING,
        group=(key,),
        created=0.0 if created is None else from_rfc3339(created),
        source=GangSource.KUBERNETES,
        problem=_problem(spec),
    )
    return PodGroup(described, PodGroupStatus(), metadata.uid, metadata.resource_version)


def _problem(spec: SchedulingGroupSpec) -> str:
    if spec.scheduling_constraints:
        return (
            "spec.schedulingConstraints needs TopologyAwareWorkloadScheduling, which is not there"
        )
    if spec.resource_claims:
        return "spec.resourceClaims needs DRAWorkloadResourceClaims, which is not there"
    return ""
