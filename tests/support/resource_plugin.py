"""A double of a QRM plugin: it keeps Katalyst's rules, and gives CPUs that nobody else has.

As Katalyst's plugins it gives a container the same CPUs again when it is asked again, refuses what
it does not have, and keeps what it gave until the pod is removed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
from google.protobuf.message import Message
from koord_model import cpuset
from koord_proto import resource_plugin_pb2 as pb
from koord_proto.plugin_registration_pb2 import PluginInfo

from tests.support.plugin_server import PluginServer

SERVICE = "resourceplugin.v1alpha1.ResourcePlugin"


class CpuPlugin:
    """A plugin of a resource; ``hints`` are NUMA nodes that it names, all preferred."""

    def __init__(
        self,
        path: Path,
        cpus: str = "0-7",
        hints: tuple[int, ...] = (),
        resource: str = "cpu",
    ) -> None:
        self.free = set(cpuset.parse(cpus))
        self.given: dict[tuple[str, str], frozenset[int]] = {}
        self.asked: list[tuple[str, Message]] = []
        self.extra = pb.ResourceAllocationInfo()
        """What else its answers say."""
        self.options = pb.ResourcePluginOptions(with_topology_alignment=bool(hints))
        self._hints = hints
        self._resource = resource
        path.parent.mkdir(exist_ok=True)
        info = PluginInfo(type="ResourcePlugin", name=resource, supported_versions=["v1alpha1"])
        self.server = PluginServer(
            path,
            info,
            SERVICE,
            {
                "GetResourcePluginOptions": self._options,
                "GetTopologyHints": self._topology_hints,
                "Allocate": self._allocate,
                "GetResourcesAllocation": self._allocation,
                "RemovePod": self._remove,
            },
        )

    async def _options(self, _: bytes) -> Message:
        return self.options

    async def _topology_hints(self, text: bytes) -> Message:
        self.asked.append(("GetTopologyHints", pb.ResourceRequest.FromString(text)))
        hints = [pb.TopologyHint(nodes=[node], preferred=True) for node in self._hints]
        found = {self._resource: pb.ListOfTopologyHints(hints=hints)}
        return pb.ResourceHintsResponse(resource_hints=found)

    async def _allocate(self, text: bytes) -> Message:
        request = pb.ResourceRequest.FromString(text)
        self.asked.append(("Allocate", request))
        key = (request.pod_uid, request.container_name)
        number = request.resource_requests[self._resource]
        if key not in self.given:
            if number > len(self.free):
                raise ValueError("not enough cpus")
            self.given[key] = frozenset(sorted(self.free)[: int(number)])
            self.free -= self.given[key]
        return pb.ResourceAllocationResponse(allocation_result=self._answer(key))

    def _answer(self, key: tuple[str, str]) -> pb.ResourceAllocation:
        cpus = self.given[key]
        info = pb.ResourceAllocationInfo(
            oci_property_name="CpusetCpus",
            is_scalar_resource=True,
            allocated_quantity=len(cpus),
            allocation_result=cpuset.render(cpus),
        )
        info.MergeFrom(self.extra)
        return pb.ResourceAllocation(resource_allocation={self._resource: info})

    async def _allocation(self, _: bytes) -> Message:
        found = pb.GetResourcesAllocationResponse()
        for uid, container in self.given:
            there = found.pod_resources[uid].container_resources[container]
            there.CopyFrom(self._answer((uid, container)))
        return found

    async def _remove(self, text: bytes) -> Message:
        uid = pb.RemovePodRequest.FromString(text).pod_uid
        for key in [key for key in self.given if key[0] == uid]:
            self.free |= self.given.pop(key)
        return pb.RemovePodResponse()


async def register(
    socket: Path, endpoint: str, resource: str = "cpu", version: str = "v1alpha1"
) -> str:
    """Register at a koordlet as plugins do by themselves; return why that is refused, or ""."""
    request = pb.RegisterRequest(version=version, endpoint=endpoint, resource_name=resource)
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        call = channel.unary_unary("/resourceplugin.v1alpha1.Registration/Register")
        try:
            await asyncio.wait_for(call(request.SerializeToString()), 5)
        except grpc.aio.AioRpcError as error:
            return error.details() or error.code().name
    return ""
