"""Hook requests from CRI requests, and hooks' changes written back into CRI requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from koord_proto import cri_pb2 as cri

from koord_proxy.rules.merge import (
    ANNOTATIONS,
    CGROUP_PARENT,
    ENV,
    LABELS,
    RESOURCES,
    SCALARS,
    UNIFIED,
    ContainerHookRequest,
    Field,
    PodHookRequest,
    read,
)


def pod_hook_request(config: cri.PodSandboxConfig, runtime_handler: str = "") -> PodHookRequest:
    """Hook request about the pod of a RunPodSandbox call."""
    hook_request = PodHookRequest(
        runtime_handler=runtime_handler,
        labels=config.labels,
        annotations=config.annotations,
        cgroup_parent=config.linux.cgroup_parent,
    )
    _copy(config.metadata, hook_request.pod_meta)
    if config.linux.HasField("overhead"):
        _copy(config.linux.overhead, hook_request.overhead)
    if config.linux.HasField("resources"):
        _copy(config.linux.resources, hook_request.resources)
    return hook_request


def container_hook_request(
    config: cri.ContainerConfig, sandbox: cri.PodSandboxConfig, pod: PodHookRequest
) -> ContainerHookRequest:
    """Hook request about the container of a CreateContainer call, in a known pod.

    Environment values that are not UTF-8 cannot travel in the hook protocol.
    They are left out here, and stay as they are in the container.
    """
    hook_request = ContainerHookRequest(
        pod_meta=pod.pod_meta,
        container_annotations=config.annotations,
        pod_annotations=pod.annotations,
        pod_labels=pod.labels,
        pod_cgroup_parent=sandbox.linux.cgroup_parent or pod.cgroup_parent,
    )
    hook_request.container_meta.name = config.metadata.name
    hook_request.container_meta.attempt = config.metadata.attempt
    if config.linux.HasField("resources"):
        _copy(config.linux.resources, hook_request.container_resources)
    if pod.HasField("resources"):
        hook_request.pod_resources.CopyFrom(pod.resources)
    for variable in config.envs:
        try:
            hook_request.container_envs[variable.key] = variable.value.decode()
        except UnicodeDecodeError:
            continue
    return hook_request


def updated_hook_request(
    stored: ContainerHookRequest, request: cri.UpdateContainerResourcesRequest
) -> ContainerHookRequest:
    """The stored hook request, overlaid with the values of UpdateContainerResources."""
    hook_request = ContainerHookRequest()
    hook_request.CopyFrom(stored)
    desired, target = request.linux, hook_request.container_resources
    for name in SCALARS:
        value = getattr(desired, name)
        if value:
            setattr(target, name, value)
    target.unified.update(desired.unified)
    if desired.hugepage_limits:
        del target.hugepage_limits[:]
        _merge(desired, target, "hugepage_limits")
    hook_request.container_annotations.update(request.annotations)
    return hook_request


def write_sandbox(
    request: cri.RunPodSandboxRequest, hook_request: PodHookRequest, changed: Iterable[Field]
) -> None:
    """Put what hooks changed into RunPodSandbox."""
    config = request.config
    for field in changed:
        value = read(hook_request, field)
        if field.group == LABELS:
            config.labels[field.name] = str(value)
        elif field.group == ANNOTATIONS:
            config.annotations[field.name] = str(value)
        elif field.group == CGROUP_PARENT:
            config.linux.cgroup_parent = str(value)


def write_container(
    request: cri.CreateContainerRequest,
    hook_request: ContainerHookRequest,
    changed: Iterable[Field],
) -> None:
    """Put what hooks changed into CreateContainer; the environment keeps its order."""
    config = request.config
    added: dict[str, bytes] = {}
    for field in changed:
        value = read(hook_request, field)
        if field.group == ANNOTATIONS:
            config.annotations[field.name] = str(value)
        elif field.group == CGROUP_PARENT:
            request.sandbox_config.linux.cgroup_parent = str(value)
        elif field.group == ENV:
            added[field.name] = str(value).encode()
        elif field.group == RESOURCES:
            setattr(config.linux.resources, field.name, value)
        else:
            config.linux.resources.unified[field.name] = str(value)
    there = set()
    for variable in config.envs:
        # One given twice is changed twice: runtimes let the last one count.
        if variable.key in added:
            variable.value = added[variable.key]
            there.add(variable.key)
    for name in sorted(added.keys() - there):
        config.envs.add(key=name, value=added[name])


def write_update(
    request: cri.UpdateContainerResourcesRequest,
    hook_request: ContainerHookRequest,
    only: Collection[Field] | None = None,
) -> None:
    """Put the full set of limits into UpdateContainerResources: in force, asked for and changed.

    With ``only``, these fields alone: what else is in force is not known.
    """
    # Known fields only: what is unknown here is in the request already.
    known, target = hook_request.container_resources, request.linux
    for name in SCALARS:
        value = getattr(known, name)
        if value != getattr(target, name) and (only is None or Field(RESOURCES, name) in only):
            setattr(target, name, value)
    for name, text in known.unified.items():
        if only is None or Field(UNIFIED, name) in only:
            target.unified[name] = text
    if only is None and not target.hugepage_limits and known.hugepage_limits:
        _merge(known, target, "hugepage_limits")
    request.annotations.update(hook_request.container_annotations)


def _copy(source: object, target: object) -> None:
    """A message into one of the other protocol with the same field numbers."""
    target.MergeFromString(source.SerializeToString())  # type: ignore[attr-defined]


def _merge(source: object, target: object, field: str) -> None:
    for limit in getattr(source, field):
        getattr(target, field).add(page_size=limit.page_size, limit=limit.limit)
