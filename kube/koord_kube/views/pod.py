"""A Pod's specification as controllers and koordlet read it. No IO.

With a quarter of a million pods a reader that is alone decodes only what it uses, so metadata and
status are its own. ``ClusterPodDocument`` is for several readers of one pod, as decoding is most
of the work. Admission reads pods by stricter types, so that authors learn of mistakes.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from koord_kube.views.decode import decode_view
from koord_kube.views.metadata import OwnerReference

Quantities = dict[str, str | int | float | None]
"""Amounts by resource name, as the API serves them."""


class ResourceRequirements(msgspec.Struct):
    """Requests and limits of a container or a pod."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerSpec(msgspec.Struct):
    """A container, or an init container."""

    name: str = ""
    resources: ResourceRequirements | None = None
    restart_policy: str | None = msgspec.field(default=None, name="restartPolicy")

    @property
    def is_sidecar(self) -> bool:
        """True if an init container stays and runs beside the others."""
        return self.restart_policy == "Always"


class PodSpec(msgspec.Struct):
    """Node and requests of a pod."""

    node: str = msgspec.field(default="", name="nodeName")
    priority: int | None = None
    overhead: Quantities | None = None
    resources: ResourceRequirements | None = None
    containers: list[ContainerSpec] | None = None
    init_containers: list[ContainerSpec] | None = msgspec.field(default=None, name="initContainers")


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    created: str = msgspec.field(default="", name="creationTimestamp")
    deleted: str | None = msgspec.field(default=None, name="deletionTimestamp")
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owners: list[OwnerReference] | None = msgspec.field(default=None, name="ownerReferences")


class ContainerStateTerminated(msgspec.Struct, gc=False):
    """End of a container."""

    reason: str = ""
    finished: datetime | None = msgspec.field(default=None, name="finishedAt")


class _State(msgspec.Struct, gc=False):
    terminated: ContainerStateTerminated | None = None


class _ContainerStatus(msgspec.Struct, gc=False):
    name: str = ""
    state: _State | None = None
    last: _State | None = msgspec.field(default=None, name="lastState")


class _Status(msgspec.Struct, gc=False):
    phase: str = ""
    qos: str = msgspec.field(default="", name="qosClass")
    containers: list[_ContainerStatus] | None = msgspec.field(
        default=None, name="containerStatuses"
    )
    inits: list[_ContainerStatus] | None = msgspec.field(default=None, name="initContainerStatuses")


class ClusterPodDocument(msgspec.Struct, gc=False):
    """All of a pod that some reader uses; times in metadata are as Kubernetes writes them."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: _Status = msgspec.field(default_factory=_Status)


_DOCUMENT = msgspec.json.Decoder(ClusterPodDocument)


def decode_pod(content: bytes) -> ClusterPodDocument:
    """The document in a Pod's JSON.

    Raises:
        ValueError: it is not a Pod.
    """
    return decode_view(_DOCUMENT, content, "a valid pod")
