"""A Node as the scheduler reads it. No IO."""

from __future__ import annotations

from sys import intern

import msgspec
from koord_kube.views.decode import decode_view
from koord_kube.views.pod import Quantities

from koord_scheduler.objects.annotations import decode_hook
from koord_scheduler.objects.metadata import AnnotatedMeta


class Taint(msgspec.Struct, frozen=True, gc=False):
    """Mark that keeps pods away that do not tolerate it.

    ``effect`` is NoSchedule, NoExecute (both forbid) or PreferNoSchedule (a lower score).
    """

    key: str = ""
    value: str = ""
    effect: str = ""


UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""Taint that ``spec.unschedulable`` stands for."""


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """Conditions for pods on the node."""

    taints: list[Taint] | None = None
    unschedulable: bool = False


class ContainerImage(msgspec.Struct, frozen=True, rename={"size": "sizeBytes"}, gc=False):
    """An image on the node under all its names; ``size`` is in bytes."""

    names: list[str] | None = None
    size: int = 0

    def __post_init__(self) -> None:
        if self.names:  # many nodes have the same
            self.names[:] = map(intern, self.names)


class NodeStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Resources of the node."""

    allocatable: Quantities | None = None
    images: list[ContainerImage] | None = None
    declared_features: list[str] | None = None


class Node(msgspec.Struct, frozen=True):
    """A node of the cluster."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        """The name, which is unique."""
        return self.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        """The labels."""
        return self.metadata.labels or {}


_DECODER = msgspec.json.Decoder(Node, dec_hook=decode_hook)


def read_node(text: bytes) -> Node:
    """The node in a JSON document.

    Raises:
        ValueError: it is not a Node.
    """
    return decode_view(_DECODER, text, "a valid Node")
