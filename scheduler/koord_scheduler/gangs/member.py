"""Membership of a pod in a gang. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from koord_model.gang_annotations import minimum_problem
from koord_model.keys import (
    ANNOTATION_BIND_GANG_COUNT,
    ANNOTATION_BIND_GANG_GROUP,
    ANNOTATION_GANG_NAME,
    ANNOTATION_GANG_NETWORK_INDEX,
    ANNOTATION_NETWORK_SELECTOR,
    ANNOTATION_OLD_BIND_GANG_COUNT,
    ANNOTATION_OLD_BIND_GANG_GROUP,
    LABEL_GANG_NAME,
    LABEL_POD_GROUP,
)

from koord_scheduler.gangs.gang_spec import GangDefaults, GangSpec, gang_of_pod
from koord_scheduler.objects.annotations import read_annotations
from koord_scheduler.state.pod_parts import PodPart


class Release(NamedTuple):
    """The members of a gang group that were bound together: the group, and how many they were."""

    group_id: str
    size: int

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of their bindings."""
        return {
            ANNOTATION_BIND_GANG_GROUP: self.group_id,
            ANNOTATION_BIND_GANG_COUNT: str(self.size),
            ANNOTATION_OLD_BIND_GANG_GROUP: self.group_id,
            ANNOTATION_OLD_BIND_GANG_COUNT: str(self.size),
        }


class GangMember(NamedTuple):
    """A pod's gang by its key, namespace/name.

    ``spec`` is what the pod says of the gang, ``None`` if nothing valid. ``release`` is that of a
    pod that was bound with others. ``phase`` is the pod's, ``owners`` what it belongs to.
    ``gather_index`` is its place among pods that are to be near each other, -1 if it has none; it
    is to be near pods with the same ``gather_selector``, too. ``problem`` is why its minimum is
    none. ``is_preempted``: it ends to make room for others.
    """

    gang: str
    spec: GangSpec | None = None
    release: Release | None = None
    phase: str = ""
    owners: str = ""
    gather_index: int = -1
    gather_selector: str = ""
    problem: str = ""
    priority: int = 0
    is_preempted: bool = False


GANG_MEMBER: PodPart[GangMember | None] = PodPart("gang", None)
read_annotations(
    ANNOTATION_BIND_GANG_COUNT,
    ANNOTATION_BIND_GANG_GROUP,
    ANNOTATION_GANG_NAME,
    ANNOTATION_GANG_NETWORK_INDEX,
    ANNOTATION_NETWORK_SELECTOR,
)


def gang_member(
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    created: float,
    defaults: GangDefaults,
) -> GangMember | None:
    """The membership of a pod; ``None``: it is a member of no gang."""
    pod_group = labels.get(LABEL_POD_GROUP)
    name = pod_group or labels.get(LABEL_GANG_NAME) or annotations.get(ANNOTATION_GANG_NAME)
    if not name:
        return None
    key = f"{namespace}/{name}"
    described = None if pod_group else gang_of_pod(key, labels, annotations, created, defaults)
    index = annotations.get(ANNOTATION_GANG_NETWORK_INDEX, "")
    return GangMember(
        key,
        described,
        _release(annotations),
        gather_index=int(index) if index.isascii() and index.isdecimal() else -1,
        gather_selector=annotations.get(ANNOTATION_NETWORK_SELECTOR, ""),
        problem="" if pod_group else minimum_problem(labels, annotations),
    )


def _release(annotations: Mapping[str, str]) -> Release | None:
    group_id = annotations.get(ANNOTATION_BIND_GANG_GROUP)
    count = annotations.get(ANNOTATION_BIND_GANG_COUNT, "")
    return Release(group_id, int(count)) if group_id and count.isdecimal() else None
