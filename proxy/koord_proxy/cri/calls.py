"""CRI as a runtime API: its intercepted calls by path, and their messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError, Message
from koord_cri.services import SERVICES
from koord_hooks.protocol import HookRequest
from koord_hooks.stages import Stage
from koord_proto import cri_pb2 as cri

from koord_proxy.contract.events import RequestArrived
from koord_proxy.contract.runtime_api import RewrittenRequest
from koord_proxy.cri import hook_requests as rules
from koord_proxy.cri.container_status import with_requested_limits
from koord_proxy.rules.merge import ContainerHookRequest, Merge, PodHookRequest
from koord_proxy.rules.methods import METHODS, InterceptedMethod
from koord_proxy.rules.records import RecordKind, RequestedLimits


class MethodMessages(NamedTuple):
    """The messages of a method; the response only where something in it is read."""

    request: type[Message]
    response: type[Message] | None = None


MESSAGES = {
    "RunPodSandbox": MethodMessages(cri.RunPodSandboxRequest, cri.RunPodSandboxResponse),
    "StopPodSandbox": MethodMessages(cri.PodSandboxIdRequest),
    "RemovePodSandbox": MethodMessages(cri.PodSandboxIdRequest),
    "CreateContainer": MethodMessages(cri.CreateContainerRequest, cri.CreateContainerResponse),
    "StartContainer": MethodMessages(cri.ContainerIdRequest),
    "UpdateContainerResources": MethodMessages(cri.UpdateContainerResourcesRequest),
    "StopContainer": MethodMessages(cri.ContainerIdRequest),
    "RemoveContainer": MethodMessages(cri.ContainerIdRequest),
}

INTERCEPTED = {f"/{service}/{name}": name for service in SERVICES for name in METHODS}
"""The names of the intercepted methods by their gRPC path."""


STATUS = "/runtime.v1.RuntimeService/ContainerStatus"
"""The call by which the kubelet learns limits in force; v1alpha2 names none."""


class CriApi:
    """The Container Runtime Interface; a target is a gRPC path."""

    def call(self, target: str) -> str:
        return INTERCEPTED.get(target, "")

    def rewrites_answer(self, target: str) -> bool:
        return target == STATUS

    def rewrite_answer(
        self, message: bytes, requested: Callable[[str], RequestedLimits | None]
    ) -> bytes | None:
        try:
            return with_requested_limits(message, requested)
        except DecodeError as error:
            raise ValueError(f"ContainerStatusResponse: {error}") from None

    def stages(self, call: str) -> Sequence[Stage]:
        stage = METHODS[call].pre
        return (stage,) if stage else ()

    def label(self, target: str) -> str:
        return target

    def update(self, id: str) -> CriRequest:  # noqa: A002
        request = cri.UpdateContainerResourcesRequest(container_id=id)
        return CriRequest(METHODS["UpdateContainerResources"], request)

    def parse(self, arrived: RequestArrived) -> CriRequest:
        request = MESSAGES[arrived.method].request()
        try:
            request.ParseFromString(arrived.message or b"")
        except (DecodeError, ValueError) as error:
            name = request.DESCRIPTOR.name
            raise ValueError(f"{arrived.method} is not a valid {name}: {error}") from None
        return CriRequest(METHODS[arrived.method], request)


class CriRequest:
    """A request that was read."""

    describes_pod = True

    def __init__(self, method: InterceptedMethod, request: Any) -> None:
        self.method = method
        self.request = request

    @property
    def id(self) -> str:
        return "" if self.method.makes else str(getattr(self.request, self._id_field))

    @property
    def sandbox(self) -> str:
        return self.request.pod_sandbox_id if self.method.name == "CreateContainer" else ""

    @property
    def _id_field(self) -> str:
        """The field with the id: of the request, or of the response that makes one."""
        return "pod_sandbox_id" if self.method.kind is RecordKind.POD else "container_id"

    def new_hook_request(self, pod: PodHookRequest | None) -> HookRequest:
        request = self.request
        if self.method.kind is RecordKind.POD:
            return rules.pod_hook_request(request.config, request.runtime_handler)
        known = pod or rules.pod_hook_request(request.sandbox_config)
        return rules.container_hook_request(request.config, request.sandbox_config, known)

    def updated_hook_request(self, known: ContainerHookRequest) -> ContainerHookRequest:
        return rules.updated_hook_request(known, self.request)

    def rewrite(self, merge: Merge, *, complete: bool = True) -> RewrittenRequest:
        request, claims = self.request, merge.claims
        hook_request: Any = merge.hook_request
        if self.method.name == "UpdateContainerResources":
            before = request.SerializeToString(deterministic=True)
            rules.write_update(request, hook_request, None if complete else claims)
            after: bytes = request.SerializeToString(deterministic=True)
            return RewrittenRequest(None if after == before else after)
        if not (claims and self.method.makes):
            return RewrittenRequest(None)
        write = rules.write_sandbox if self.method.kind is RecordKind.POD else rules.write_container
        write(request, hook_request, claims)
        return RewrittenRequest(request.SerializeToString())

    def created_id(self, response: bytes) -> str:
        shape = MESSAGES[self.method.name].response
        if shape is None:
            return ""
        made = shape()
        try:
            made.ParseFromString(response)
        except DecodeError:
            return ""
        return str(getattr(made, self._id_field))
