"""Base class for users of the package, with a method for each call."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeAlias, TypeVar

from koord_proto import nri_pb2 as pb

from koordlet.runtime_hooks.nri.protocol.events import RuntimeInfo
from koordlet.runtime_hooks.nri.protocol.methods import METHODS

R = TypeVar("R")
Answer: TypeAlias = R | Awaitable[R | None] | None
"""Result of a method: a response, or None for no change; at once, or awaited."""


class RefusedCallError(Exception):
    """The runtime is to fail what it asks about; the message is its reason."""


class NriHandler:
    """Derive from it and define what you care about; the runtime is asked for just that.

        class Niceness(Handler):
            def create_container(self, request):
                changes = adjustment(annotations={"example.com/seen": "yes"})
                return pb.CreateContainerResponse(adjust=changes)

            async def synchronize(self, request):
                await remember(request.pods, request.containers)

        client = Client(Niceness(), name="niceness", index="10")
        await client.run()

    A plain method runs on the event loop and must be quick; an async one that is
    slower than the deadline is answered for, see ``Client``. Calls may overlap
    when one is late. Do not wait for ``update_containers`` in a method: the
    runtime takes it when the call is answered.
    """

    def connected(self, runtime: RuntimeInfo) -> None:
        """The runtime introduced itself; ``synchronize`` follows."""

    def disconnected(self, reason: str) -> None:
        """The connection ended; nothing is known of pods until ``synchronize``."""

    def synchronize(self, request: pb.SynchronizeRequest) -> Answer[pb.SynchronizeResponse]:
        """All pods and containers there are; forget what you knew."""
        return None

    def run_pod_sandbox(self, request: pb.RunPodSandboxRequest) -> Answer[pb.RunPodSandboxResponse]:
        return None

    def update_pod_sandbox(
        self, request: pb.UpdatePodSandboxRequest
    ) -> Answer[pb.UpdatePodSandboxResponse]:
        """Before a pod is resized in place; since NRI 0.10."""
        return None

    def post_update_pod_sandbox(
        self, request: pb.PostUpdatePodSandboxRequest
    ) -> Answer[pb.PostUpdatePodSandboxResponse]:
        return None

    def stop_pod_sandbox(
        self, request: pb.StopPodSandboxRequest
    ) -> Answer[pb.StopPodSandboxResponse]:
        """Containerd does not call this, nor the removal, for pods older than its own start."""
        return None

    def remove_pod_sandbox(
        self, request: pb.RemovePodSandboxRequest
    ) -> Answer[pb.RemovePodSandboxResponse]:
        return None

    def create_container(
        self, request: pb.CreateContainerRequest
    ) -> Answer[pb.CreateContainerResponse]:
        """May adjust the container, and update others."""
        return None

    def post_create_container(
        self, request: pb.PostCreateContainerRequest
    ) -> Answer[pb.PostCreateContainerResponse]:
        return None

    def start_container(
        self, request: pb.StartContainerRequest
    ) -> Answer[pb.StartContainerResponse]:
        return None

    def post_start_container(
        self, request: pb.PostStartContainerRequest
    ) -> Answer[pb.PostStartContainerResponse]:
        return None

    def update_container(
        self, request: pb.UpdateContainerRequest
    ) -> Answer[pb.UpdateContainerResponse]:
        """May update the container otherwise than asked, and others."""
        return None

    def post_update_container(
        self, request: pb.PostUpdateContainerRequest
    ) -> Answer[pb.PostUpdateContainerResponse]:
        return None

    def stop_container(self, request: pb.StopContainerRequest) -> Answer[pb.StopContainerResponse]:
        """May update other containers."""
        return None

    def remove_container(
        self, request: pb.RemoveContainerRequest
    ) -> Answer[pb.RemoveContainerResponse]:
        return None


def handled_events(handler: NriHandler) -> frozenset[int]:
    """The events that a handler defines a method for."""
    return frozenset(
        method.event
        for method in METHODS
        if method.event
        and getattr(type(handler), method.handler) is not getattr(NriHandler, method.handler)
    )
