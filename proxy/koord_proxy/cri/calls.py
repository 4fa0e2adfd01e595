"""CRI as a language: its intercepted calls by path, and their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError, Message
from koord_hooks.stages import Stage
from koord_proto import cri_pb2 as cri

from koord_proxy.cri import facts as rules
from koord_proxy.events import RequestArrived
from koord_proxy.language import Written
from koord_proxy.rules.merge import ContainerFacts, Facts, Merge, PodFacts
from koord_proxy.rules.methods import METHODS, Method
from koord_proxy.rules.records import Kind

SERVICES = ("runtime.v1.RuntimeService", "runtime.v1alpha2.RuntimeService")
"""CRI versions whose calls are intercepted; the messages used are the same in both."""


class Messages(NamedTuple):
    """The messages of a method; the response only where something in it is read."""

    request: type[Message]
    response: type[Message] | None = None


MESSAGES = {
    "RunPodSandbox": Messages(cri.RunPodSandboxRequest, cri.RunPodSandboxResponse),
    "StopPodSandbox": Messages(cri.PodSandboxIdRequest),
    "RemovePodSandbox": Messages(cri.PodSandboxIdRequest),
    "CreateContainer": Messages(cri.CreateContainerRequest, cri.CreateContainerResponse),
    "StartContainer": Messages(cri.ContainerIdRequest),
    "UpdateContainerResources": Messages(cri.UpdateContainerResourcesRequest),
    "StopContainer": Messages(cri.ContainerIdRequest),
    "RemoveContainer": Messages(cri.ContainerIdRequest),
}

INTERCEPTED = {f"/{service}/{name}": name for service in SERVICES for name in METHODS}
"""The names of the intercepted methods by their gRPC path."""


class CriCalls:
    """The Container Runtime Interface; a target is a gRPC path."""

    def call(self, target: str) -> str:
        return INTERCEPTED.get(target, "")

    def stages(self, call: str) -> Sequence[Stage]:
        stage = METHODS[call].pre
        return (stage,) if stage else ()

    def label(self, target: str) -> str:
        return target

    def read(self, arrived: RequestArrived) -> CriRequest:
        request = MESSAGES[arrived.method].request()
        try:
            request.ParseFromString(arrived.message or b"")
        except (DecodeError, ValueError) as error:
            name = request.DESCRIPTOR.name
            raise ValueError(f"{arrived.method} is no {name}: {error}") from None
        return CriRequest(METHODS[arrived.method], request)


class CriRequest:
    """A request that was read."""

    tells_pod = True

    def __init__(self, method: Method, request: Any) -> None:
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
        return "pod_sandbox_id" if self.method.kind is Kind.POD else "container_id"

    def made(self, pod: PodFacts | None) -> Facts:
        request = self.request
        if self.method.kind is Kind.POD:
            return rules.pod_facts(request.config, request.runtime_handler)
        known = pod or rules.pod_facts(request.sandbox_config)
        return rules.container_facts(request.config, request.sandbox_config, known)

    def updated(self, known: ContainerFacts) -> ContainerFacts:
        return rules.updated_facts(known, self.request)

    def written(self, merge: Merge) -> Written:
        request, claims = self.request, merge.claims
        facts: Any = merge.facts
        if self.method.name == "UpdateContainerResources":
            before = request.SerializeToString(deterministic=True)
            rules.write_update(request, facts)
            after: bytes = request.SerializeToString(deterministic=True)
            return Written(None if after == before else after)
        if not (claims and self.method.makes):
            return Written(None)
        write = rules.write_sandbox if self.method.kind is Kind.POD else rules.write_container
        write(request, facts, claims)
        return Written(request.SerializeToString())

    def made_id(self, response: bytes) -> str:
        shape = MESSAGES[self.method.name].response
        if shape is None:
            return ""
        made = shape()
        try:
            made.ParseFromString(response)
        except DecodeError:
            return ""
        return str(getattr(made, self._id_field))
