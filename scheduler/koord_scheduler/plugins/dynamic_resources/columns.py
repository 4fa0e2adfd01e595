"""State of dynamic resource allocation beside that of nodes. No IO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec
import numpy as np
from koord_kube.protocol.resources import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)

from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.plugins.dynamic_resources.claim_objects import DeviceObjects
from koord_scheduler.plugins.dynamic_resources.device_counts import count_devices
from koord_scheduler.plugins.dynamic_resources.extended_resources import (
    EXTENDED,
    container_requests,
    may_be_backed,
)
from koord_scheduler.plugins.dynamic_resources.node_answers import NodeAnswers
from koord_scheduler.plugins.dynamic_resources.objects import (
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
    read_device_object,
)
from koord_scheduler.plugins.dynamic_resources.pod_claims import CLAIMS, pod_claims
from koord_scheduler.plugins.dynamic_resources.pool_devices import ClaimingNode
from koord_scheduler.state.arrays import Amounts, Rows
from koord_scheduler.state.cluster_kind import ClusterKind
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.feature_state import FeatureState, Parts
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.resource_backing import ResourceBacking


class ClaimColumns(FeatureState):
    """``objects`` of the API and what is allocated of them; ``answers`` about nodes."""

    def __init__(self, nodes: ClusterState) -> None:
        super().__init__(nodes)
        self.objects = DeviceObjects(nodes.touch)
        self.answers = NodeAnswers(self.objects)
        nodes.backing = self.backing = DeviceBacking(nodes, self.objects)

    def kinds(self, now: Callable[[], float]) -> Iterable[ClusterKind]:
        found = self.objects
        yield _kind(RESOURCE_CLAIMS, ResourceClaim, found.set_claim, found.remove_claim)
        yield _kind(RESOURCE_SLICES, ResourceSlice, found.set_slice, found.remove_slice)
        yield _kind(DEVICE_CLASSES, DeviceClass, found.set_class, found.remove_class)

    def signature(self, pod: PodInfo) -> object:
        metadata, claims = pod.metadata, pod.spec.resource_claims
        if not claims:
            return ()
        # Devices are given to one pod.
        return claims, pod.status.resource_claim_statuses, metadata.name, metadata.uid

    def class_parts(self, pod: PodInfo, requests: PodRequests) -> Parts:
        yield CLAIMS, pod_claims(pod)
        yield EXTENDED, container_requests(pod)


class DeviceBacking(ResourceBacking):
    """Devices behind extended resources that nodes have no device plugin for."""

    def __init__(self, nodes: ClusterState, objects: DeviceObjects) -> None:
        self._nodes = nodes
        self._objects = objects

    @property
    def classes(self) -> Mapping[str, str]:  # type: ignore[override]
        return self._objects.backing_classes

    def concerns(self, pod: PodClass) -> bool:
        return bool(extended_resources(pod))

    def backed(self, pod: PodClass) -> Mapping[str, str]:
        """The classes behind a pod's resources, by resource."""
        known = self._objects.backing_classes
        return {name: known[name] for name in extended_resources(pod) if name in known}

    def version(self) -> int:
        return self._objects.shared_version

    def add(
        self, pod: PodClass, names: Sequence[str], rows: Rows, has: Amounts, taken: Amounts
    ) -> None:
        backed = self.backed(pod)
        for place, name in enumerate(names):
            if name not in backed:
                continue
            device_class = self._objects.classes[backed[name]]
            for at in np.flatnonzero(has[place] == 0):
                node = claiming_node(self._nodes, rows[at])
                count = count_devices(device_class, node, self._objects)
                if count.there:
                    has[place, at], taken[place, at] = count


def backed_classes(pod: PodClass, nodes: ClusterState) -> Mapping[str, str]:
    """The classes behind a pod's resources, by resource."""
    return nodes.use(ClaimColumns).backing.backed(pod)


def claiming_node(nodes: ClusterState, row: int) -> ClaimingNode:
    """The node of a row, for which devices are looked for."""
    return ClaimingNode(nodes.name(row), nodes.labels.of(row))


def extended_resources(pod: PodClass) -> tuple[str, ...]:
    """The extended resources that a pod asks for."""
    return _extended_among(pod.amounts)


@lru_cache(1 << 12)
def _extended_among(amounts: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """Remembered: it is asked for at each decision about a class."""
    return tuple(name for name, amount in amounts if amount and may_be_backed(name))


def _kind(
    resource: Resource,
    view: type[msgspec.Struct],
    put: Callable[[str, Any], object],
    remove: Callable[[str], object],
) -> ClusterKind:
    """Kubernetes 1.34 and later have them."""
    read = partial(read_device_object, view)
    decides = resource == RESOURCE_CLAIMS
    return ClusterKind(resource, view, read, put, remove, True, has_decisions=decides)
