"""Kubernetes' CompositePodGroups (scheduling.k8s.io/v1alpha3): groups of PodGroups. No IO."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from koord_kube.views.decode import decode_view

from koord_scheduler.gangs.pod_group import PodGroupMeta
from koord_scheduler.gangs.scheduling_group import GroupSpec, scheduling_group_key
from koord_scheduler.objects.annotations import decode_hook


class CompositeGangPolicy(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Number of its groups that start together."""

    min_group_count: int = 0


class CompositePolicy(msgspec.Struct, frozen=True, gc=False):
    """One of both; with ``basic``, each of its groups starts by itself."""

    basic: dict[str, object] | None = None
    gang: CompositeGangPolicy | None = None


class CompositeGroupSpec(GroupSpec, frozen=True, rename="camel"):
    """Requests of a CompositePodGroup."""

    scheduling_policy: CompositePolicy = CompositePolicy()

    @property
    def problem(self) -> str:
        """Reason why it cannot be placed as it says."""
        policy = self.scheduling_policy
        if (policy.basic is None) == (policy.gang is None):
            return "spec.schedulingPolicy needs one of basic and gang"
        if policy.gang is not None and policy.gang.min_group_count < 1:
            given = policy.gang.min_group_count
            return f"spec.schedulingPolicy.gang.minGroupCount is {given}; expected at least 1"
        return self.common_problem

    @property
    def workload(self) -> str:
        """The name of its Workload, "" if it names none."""
        return self.workload_ref.workload_name if self.workload_ref else ""


class CompositeGroupObject(msgspec.Struct, frozen=True):
    """A CompositePodGroup as the API has it."""

    metadata: PodGroupMeta = PodGroupMeta()
    spec: CompositeGroupSpec = CompositeGroupSpec()


class CompositeGroup(NamedTuple):
    """A CompositePodGroup by its ``key``, namespace/name, and that of its ``parent`` ("": none)."""

    key: str
    spec: CompositeGroupSpec

    @property
    def parent(self) -> str:
        """The key of the group that it is part of, "" if of none."""
        return parent_key(self.key, self.spec)

    @property
    def gang(self) -> int:
        """Number of its groups that start together; 0: each by itself."""
        policy = self.spec.scheduling_policy.gang
        return policy.min_group_count if policy is not None else 0


_DECODER = msgspec.json.Decoder(CompositeGroupObject, dec_hook=decode_hook)


def parent_key(key: str, spec: GroupSpec) -> str:
    """The key of the CompositePodGroup that a group is part of, "" if of none."""
    name = spec.parent_composite_pod_group_name
    return scheduling_group_key(key.partition("/")[0], name) if name else ""


def read_composite_group(raw: bytes) -> CompositeGroup:
    """The CompositePodGroup in a JSON document.

    Raises:
        ValueError: it is not one.
    """
    given = decode_view(_DECODER, raw, "a valid CompositePodGroup")
    metadata = given.metadata
    return CompositeGroup(scheduling_group_key(metadata.namespace, metadata.name), given.spec)
