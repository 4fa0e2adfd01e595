"""A container runtime's rules: allowed calls, their order, their effects.

The embedded runtime's mind, without a socket: requests in, responses out. The
rules were observed on containerd 1.6.20; where CRI asks for more (to stop or
remove what is unknown is no error), CRI is followed.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import time
from collections.abc import Callable, Iterable, Iterator

import grpc

from koord_demo import cri_client_pb2 as pb
from koord_demo.cgroup_tree import CgroupLimits, CgroupTree, KernelRefusedError
from koord_demo.pod_records import SANDBOX_LIMITS, SANDBOX_OOM_SCORE_ADJ, DemoContainer, DemoSandbox

_KILLED = 137
_START_ERROR = 128

Listener = Callable[[pb.ContainerEventResponse], None]


class CallRefusedError(Exception):
    """The error a call ends with."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class PodRules:
    """Pods and containers, and one method for each CRI call that concerns them."""

    def __init__(self, cgroups: CgroupTree) -> None:
        self.cgroups = cgroups
        self.listeners: set[Listener] = set()
        """Called for each container that is created, started, stopped or deleted."""
        self._sandboxes: dict[str, DemoSandbox] = {}
        self._containers: dict[str, DemoContainer] = {}
        # Numbers that look like process ids, but are not.
        self._pids = itertools.count(1 << 22)

    # Pods.

    def run_pod_sandbox(self, request: pb.RunPodSandboxRequest) -> pb.RunPodSandboxResponse:
        if not request.config.HasField("metadata"):
            raise CallRefusedError(grpc.StatusCode.UNKNOWN, "sandbox config must include metadata")
        sandbox = DemoSandbox(_new_id(), request.config, request.runtime_handler, time.time_ns())
        _reserve(sandbox, self._sandboxes.values())
        with _kernel():
            self.cgroups.write(sandbox.cgroup, SANDBOX_LIMITS)
            self.cgroups.note(sandbox.cgroup, "oom_score_adj", SANDBOX_OOM_SCORE_ADJ)
        self._sandboxes[sandbox.id] = sandbox
        return pb.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)

    def stop_pod_sandbox(self, request: pb.StopPodSandboxRequest) -> pb.StopPodSandboxResponse:
        sandbox = self._sandboxes.get(request.pod_sandbox_id)
        if sandbox is not None:
            self._stop_sandbox(sandbox)
        return pb.StopPodSandboxResponse()

    def remove_pod_sandbox(
        self, request: pb.RemovePodSandboxRequest
    ) -> pb.RemovePodSandboxResponse:
        sandbox = self._sandboxes.get(request.pod_sandbox_id)
        if sandbox is not None:
            self._stop_sandbox(sandbox)
            for container in self._of(sandbox):
                self._delete(container)
            del self._sandboxes[sandbox.id]
        return pb.RemovePodSandboxResponse()

    def pod_sandbox_status(
        self, request: pb.PodSandboxStatusRequest
    ) -> pb.PodSandboxStatusResponse:
        sandbox = self._sandbox(request.pod_sandbox_id)
        info = {"info": sandbox.info()} if request.verbose else {}
        return pb.PodSandboxStatusResponse(status=sandbox.status(), info=info)

    def list_pod_sandbox(self, request: pb.ListPodSandboxRequest) -> pb.ListPodSandboxResponse:
        wanted = request.filter
        found = (
            sandbox.listed()
            for sandbox in self._sandboxes.values()
            if wanted.id in ("", sandbox.id)
            and (not wanted.HasField("state") or wanted.state.state == sandbox.state)
            and wanted.label_selector.items() <= sandbox.config.labels.items()
        )
        return pb.ListPodSandboxResponse(items=found)

    # Containers.

    def create_container(self, request: pb.CreateContainerRequest) -> pb.CreateContainerResponse:
        sandbox = self._sandbox(request.pod_sandbox_id)
        if not sandbox.ready:
            message = f'sandbox "{sandbox.id}": no running task found'
            raise CallRefusedError(grpc.StatusCode.NOT_FOUND, message)
        if not request.config.HasField("metadata"):
            message = "container config must include metadata"
            raise CallRefusedError(grpc.StatusCode.UNKNOWN, message)
        identity = _new_id()
        container = DemoContainer(
            identity,
            sandbox,
            request.config,
            f"{request.sandbox_config.linux.cgroup_parent}/{identity}",
            CgroupLimits().overlaid(request.config.linux.resources),
            time.time_ns(),
        )
        _reserve(container, self._containers.values())
        self._containers[identity] = container
        self._tell(container, pb.CONTAINER_CREATED_EVENT)
        return pb.CreateContainerResponse(container_id=identity)

    def start_container(self, request: pb.StartContainerRequest) -> pb.StartContainerResponse:
        container = self._container(request.container_id)
        if container.state != pb.CONTAINER_CREATED:
            state = pb.ContainerState.Name(container.state)
            message = f'cannot start container "{container.id}": it is in {state} state'
            raise CallRefusedError(grpc.StatusCode.UNKNOWN, message)
        if not container.sandbox.ready:
            message = f'sandbox container "{container.sandbox.id}" is not running'
            raise CallRefusedError(grpc.StatusCode.UNKNOWN, message)
        try:
            with _kernel():
                self.cgroups.write(container.cgroup, container.limits)
                self.cgroups.note(container.cgroup, "oom_score_adj", container.oom_score_adj)
        except CallRefusedError as error:
            container.state, container.finished_at = pb.CONTAINER_EXITED, time.time_ns()
            container.exit_code, container.reason = _START_ERROR, "StartError"
            container.message = error.message
            raise
        container.state, container.started_at = pb.CONTAINER_RUNNING, time.time_ns()
        container.pid = next(self._pids)
        self._tell(container, pb.CONTAINER_STARTED_EVENT)
        return pb.StartContainerResponse()

    def stop_container(self, request: pb.StopContainerRequest) -> pb.StopContainerResponse:
        container = self._containers.get(request.container_id)
        if container is not None:
            self._exit(container)
        return pb.StopContainerResponse()

    def remove_container(self, request: pb.RemoveContainerRequest) -> pb.RemoveContainerResponse:
        container = self._containers.get(request.container_id)
        if container is not None:
            self._exit(container)
            self._delete(container)
        return pb.RemoveContainerResponse()

    def update_container_resources(
        self, request: pb.UpdateContainerResourcesRequest
    ) -> pb.UpdateContainerResourcesResponse:
        container = self._container(request.container_id)
        limits = container.limits.overlaid(request.linux)
        # What does not run has no cgroup: its values are for the start, if any.
        if container.state == pb.CONTAINER_RUNNING:
            with _kernel():
                self.cgroups.write(container.cgroup, limits)
        container.limits = limits
        return pb.UpdateContainerResourcesResponse()

    def container_status(self, request: pb.ContainerStatusRequest) -> pb.ContainerStatusResponse:
        container = self._container(request.container_id)
        info = {"info": container.info()} if request.verbose else {}
        return pb.ContainerStatusResponse(status=container.status(), info=info)

    def list_containers(self, request: pb.ListContainersRequest) -> pb.ListContainersResponse:
        wanted = request.filter
        found = (
            container.listed()
            for container in self._containers.values()
            if wanted.id in ("", container.id)
            and wanted.pod_sandbox_id in ("", container.sandbox.id)
            and (not wanted.HasField("state") or wanted.state.state == container.state)
            and wanted.label_selector.items() <= container.config.labels.items()
        )
        return pb.ListContainersResponse(containers=found)

    # What several of them need.

    def _sandbox(self, identity: str) -> DemoSandbox:
        sandbox = self._sandboxes.get(identity)
        if sandbox is None:
            raise CallRefusedError(grpc.StatusCode.NOT_FOUND, f'sandbox "{identity}": not found')
        return sandbox

    def _container(self, identity: str) -> DemoContainer:
        container = self._containers.get(identity)
        if container is None:
            raise CallRefusedError(grpc.StatusCode.NOT_FOUND, f'container "{identity}": not found')
        return container

    def _of(self, sandbox: DemoSandbox) -> list[DemoContainer]:
        return [c for c in self._containers.values() if c.sandbox is sandbox]

    def _stop_sandbox(self, sandbox: DemoSandbox) -> None:
        for container in self._of(sandbox):
            self._exit(container)
        sandbox.ready = False
        self.cgroups.remove(sandbox.cgroup)

    def _exit(self, container: DemoContainer) -> None:
        """End a running container; one that never ran stays as it is."""
        if container.state != pb.CONTAINER_RUNNING:
            return
        container.state, container.finished_at = pb.CONTAINER_EXITED, time.time_ns()
        container.exit_code, container.reason, container.pid = _KILLED, "Error", 0
        self.cgroups.remove(container.cgroup)
        self._tell(container, pb.CONTAINER_STOPPED_EVENT)

    def _delete(self, container: DemoContainer) -> None:
        del self._containers[container.id]
        self._tell(container, pb.CONTAINER_DELETED_EVENT)

    def _tell(self, container: DemoContainer, kind: pb.ContainerEventType) -> None:
        if not self.listeners:
            return
        event = pb.ContainerEventResponse(
            container_id=container.id,
            container_event_type=kind,
            created_at=time.time_ns(),
            pod_sandbox_status=container.sandbox.status(),
            containers_statuses=[c.status() for c in self._of(container.sandbox)],
        )
        for listener in tuple(self.listeners):
            listener(event)


def _reserve(
    new: DemoSandbox | DemoContainer, others: Iterable[DemoSandbox | DemoContainer]
) -> None:
    """Refuse a name that is in use, as a kubelet's repeated call would bring it."""
    for other in others:
        if other.name == new.name:
            message = f'name "{new.name}" is reserved for "{other.id}"'
            raise CallRefusedError(grpc.StatusCode.UNKNOWN, message)


@contextlib.contextmanager
def _kernel() -> Iterator[None]:
    try:
        yield
    except KernelRefusedError as error:
        raise CallRefusedError(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from None


def _new_id() -> str:
    return secrets.token_hex(32)
