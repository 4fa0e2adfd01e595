"""The CRI methods that are intercepted, one row each."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import Message
from koord_hooks.stages import Stage
from koord_proto import cri_pb2 as cri

from koord_proxy.rules.records import Kind

SERVICES = ("runtime.v1.RuntimeService", "runtime.v1alpha2.RuntimeService")
"""CRI versions whose calls are intercepted; the messages used are the same in both."""


@dataclass(frozen=True, slots=True)
class Method:
    """One intercepted method.

    ``makes`` says what a success brings into being (with the field of the
    response that has its id), ``ends`` whose record leaves with it.
    """

    name: str
    kind: Kind
    request: type[Message]
    pre: Stage | None = None
    post: Stage | None = None
    makes: type[Message] | None = None
    ends: bool = False

    @property
    def id_field(self) -> str:
        """The field that has the id: of the request, or of the response that makes one."""
        return "pod_sandbox_id" if self.kind is Kind.POD else "container_id"


_ROWS = (
    Method(
        "RunPodSandbox",
        Kind.POD,
        cri.RunPodSandboxRequest,
        pre=Stage.PRE_RUN_POD_SANDBOX,
        makes=cri.RunPodSandboxResponse,
    ),
    Method(
        "StopPodSandbox",
        Kind.POD,
        cri.PodSandboxIdRequest,
        post=Stage.POST_STOP_POD_SANDBOX,
        ends=True,
    ),
    Method(
        "RemovePodSandbox",
        Kind.POD,
        cri.PodSandboxIdRequest,
        pre=Stage.PRE_REMOVE_POD_SANDBOX,
        ends=True,
    ),
    Method(
        "CreateContainer",
        Kind.CONTAINER,
        cri.CreateContainerRequest,
        pre=Stage.PRE_CREATE_CONTAINER,
        makes=cri.CreateContainerResponse,
    ),
    Method(
        "StartContainer",
        Kind.CONTAINER,
        cri.ContainerIdRequest,
        pre=Stage.PRE_START_CONTAINER,
        post=Stage.POST_START_CONTAINER,
    ),
    Method(
        "UpdateContainerResources",
        Kind.CONTAINER,
        cri.UpdateContainerResourcesRequest,
        pre=Stage.PRE_UPDATE_CONTAINER_RESOURCES,
    ),
    Method(
        "StopContainer",
        Kind.CONTAINER,
        cri.ContainerIdRequest,
        post=Stage.POST_STOP_CONTAINER,
        ends=True,
    ),
    Method("RemoveContainer", Kind.CONTAINER, cri.ContainerIdRequest, ends=True),
)

METHODS = {row.name: row for row in _ROWS}

INTERCEPTED = {f"/{service}/{name}": METHODS[name] for service in SERVICES for name in METHODS}
"""The methods by their gRPC path."""
