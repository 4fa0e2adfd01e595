"""NodeDeclaredFeatures: a node has the features that a pod needs of its kubelet. No IO."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from koord_scheduler.objects.node import Node
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.plugin import Filter, Plugin
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.coded_sets import SetColumn, SetValues
from koord_scheduler.state.feature_state import FeatureState, Parts
from koord_scheduler.state.pod_class import PodClass
from koord_scheduler.state.pod_parts import PodPart

_RESTART_ALL = "RestartAllContainersOnContainerExits"
_USER_NAMESPACES = "UserNamespacesHostNetworkSupport"
_NEEDED: PodPart[tuple[str, ...]] = PodPart("kubelet features", ())


class DeclaredFeatures(FeatureState):
    """Features that nodes say they have, by row."""

    def __init__(self, nodes: ClusterState) -> None:
        super().__init__(nodes)
        self.column = SetColumn[str](len(nodes))

    def lengthen(self, length: int) -> None:
        self.column.lengthen(length)

    def set_node(self, row: int, node: Node | None, *, is_moved: bool) -> bool:
        return self.column.set(row, (node.status.declared_features or ()) if node else ())

    def signature(self, pod: PodInfo) -> object:
        return pod.spec.host_network, pod.spec.host_users

    def class_parts(self, pod: PodInfo, requests: PodRequests) -> Parts:
        yield _NEEDED, required_features(pod)


class NodeDeclaredFeatures(Plugin):
    """Kubernetes' plugin of that name; nodes say what they have in ``status.declaredFeatures``."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    helped_by: ClassVar[str] = "nodes with the features that it needs"
    reads_labels: ClassVar[bool] = False
    reason: ClassVar[str] = "node(s) didn't match Pod's required features"
    resolvable: ClassVar[bool] = False

    def prepare(self, nodes: ClusterState) -> None:
        nodes.use(DeclaredFeatures)

    def sign(self, pod: PodClass) -> Hashable:
        return pod.of(_NEEDED)

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        if not pod.of(_NEEDED):
            return None
        needed = set(pod.of(_NEEDED))
        lacking = SetValues(
            nodes.use(DeclaredFeatures).column, lambda declared: len(needed - set(declared))
        )

        def can_run(rows: Rows) -> Mask:
            found: Mask = lacking.of(rows) == 0
            return found

        return can_run


def required_features(pod: PodInfo) -> tuple[str, ...]:
    """The features that a pod needs of its node, as Kubernetes infers them."""
    spec, found = pod.spec, []
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    rules = (rule for container in containers for rule in container.restart_policy_rules or ())
    if any(rule.action == "RestartAllContainers" for rule in rules):
        found.append(_RESTART_ALL)
    if spec.host_network and spec.host_users is False:
        found.append(_USER_NAMESPACES)
    return tuple(found)
