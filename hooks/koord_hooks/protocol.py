"""The hook protocol's messages to and from the model.

Responses are written in the Go koordlet's way: everything asked is echoed, with
the changes laid over it. The Go proxy needs that, because it takes an empty
cpuset or a zero ``oom_score_adj`` in a response for a desired value.
"""

from __future__ import annotations

from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.resources import RESOURCE_FIELDS, LinuxResources
from koord_proto import hook_pb2 as pb

from koord_hooks.runner import HookResult, HookRunner
from koord_hooks.stages import POD_STAGES, Stage

HookRequest = pb.PodSandboxHookRequest | pb.ContainerResourceHookRequest
HookResponse = pb.PodSandboxHookResponse | pb.ContainerResourceHookResponse


def request_type(stage: Stage) -> type[HookRequest]:
    """The message a hook server is asked with."""
    return pb.PodSandboxHookRequest if stage in POD_STAGES else pb.ContainerResourceHookRequest


def response_type(stage: Stage) -> type[HookResponse]:
    """The message a hook server answers with."""
    return pb.PodSandboxHookResponse if stage in POD_STAGES else pb.ContainerResourceHookResponse


def to_resources(message: pb.LinuxContainerResources) -> LinuxResources:
    """The limits of a message; a field at its protobuf default counts as unset."""
    return LinuxResources(
        **{field.name: getattr(message, field.cri) or None for field in RESOURCE_FIELDS},
        hugepage_limits={limit.page_size: limit.limit for limit in message.hugepage_limits},
        unified=dict(message.unified),
    )


def lay_over(message: pb.LinuxContainerResources, wanted: LinuxResources) -> None:
    """Write the fields that are set into the message and leave the others."""
    for field in RESOURCE_FIELDS:
        value = getattr(wanted, field.name)
        if value is not None:
            setattr(message, field.cri, value)
    message.unified.update(wanted.unified)
    for page_size, limit in wanted.hugepage_limits.items():
        same = [known for known in message.hugepage_limits if known.page_size == page_size]
        (same[0] if same else message.hugepage_limits.add(page_size=page_size)).limit = limit


def to_pod(request: pb.PodSandboxHookRequest) -> Pod:
    """The pod of a pod stage."""
    return Pod(
        name=request.pod_meta.name,
        namespace=request.pod_meta.namespace,
        uid=request.pod_meta.uid,
        labels=dict(request.labels),
        annotations=dict(request.annotations),
        cgroup_parent=request.cgroup_parent,
        runtime_handler=request.runtime_handler,
        resources=to_resources(request.resources),
        overhead=to_resources(request.overhead),
    )


def to_container(request: pb.ContainerResourceHookRequest) -> Container:
    """The container of a container stage, with its pod."""
    pod = Pod(
        name=request.pod_meta.name,
        namespace=request.pod_meta.namespace,
        uid=request.pod_meta.uid,
        labels=dict(request.pod_labels),
        annotations=dict(request.pod_annotations),
        cgroup_parent=request.pod_cgroup_parent,
        resources=to_resources(request.pod_resources),
    )
    return Container(
        pod=pod,
        name=request.container_meta.name,
        id=request.container_meta.id,
        annotations=dict(request.container_annotations),
        resources=to_resources(request.container_resources),
        env=dict(request.container_envs),
    )


def subject_of(request: HookRequest) -> Pod | Container:
    """Return the pod or container of a request."""
    if isinstance(request, pb.PodSandboxHookRequest):
        return to_pod(request)
    return to_container(request)


def answer(
    runner: HookRunner, stage: Stage, request: HookRequest, view: NodeView
) -> tuple[HookResponse, HookResult[Patch]]:
    """Run the plugins on a hook request and write the response to it."""
    outcome = runner.run(stage, subject_of(request), view)
    return respond(request, outcome.patch), outcome


def respond(request: HookRequest, patch: Patch) -> HookResponse:
    """The echo of a request with a patch laid over it."""
    if isinstance(request, pb.PodSandboxHookRequest):
        return _pod_response(request, patch)
    return _container_response(request, patch)


def changes(request: HookRequest, response: HookResponse) -> bool:
    """True if a response is more than the echo of its request."""
    pod = isinstance(request, pb.PodSandboxHookRequest)
    names = _POD_ECHO if pod else _CONTAINER_ECHO
    return any(getattr(request, name) != getattr(response, name) for name in names)


_POD_ECHO = ("resources", "labels", "annotations", "cgroup_parent")
_CONTAINER_ECHO = (
    "container_resources",
    "container_annotations",
    "container_envs",
    "pod_cgroup_parent",
)
_NO_LIMITS = LinuxResources()


def _pod_response(request: pb.PodSandboxHookRequest, patch: Patch) -> pb.PodSandboxHookResponse:
    response = pb.PodSandboxHookResponse(
        labels=request.labels, annotations=request.annotations, cgroup_parent=request.cgroup_parent
    )
    if request.HasField("resources"):
        response.resources.CopyFrom(request.resources)
    response.labels.update(patch.labels)
    response.annotations.update(patch.annotations)
    if patch.cgroup_parent is not None:
        response.cgroup_parent = patch.cgroup_parent
    if patch.resources != _NO_LIMITS:
        lay_over(response.resources, patch.resources)
    return response


def _container_response(
    request: pb.ContainerResourceHookRequest, patch: Patch
) -> pb.ContainerResourceHookResponse:
    response = pb.ContainerResourceHookResponse(
        container_annotations=request.container_annotations,
        pod_cgroup_parent=request.pod_cgroup_parent,
        container_envs=request.container_envs,
    )
    if request.HasField("container_resources"):
        response.container_resources.CopyFrom(request.container_resources)
    response.container_annotations.update(patch.annotations)
    response.container_envs.update(patch.env)
    if patch.cgroup_parent is not None:
        response.pod_cgroup_parent = patch.cgroup_parent
    if patch.resources != _NO_LIMITS:
        lay_over(response.container_resources, patch.resources)
    return response
