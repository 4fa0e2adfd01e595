"""Hook requests from create and update bodies of the Docker Engine API, and hooks' changes back.

A body is changed field by field; all other values go on byte for byte, in their order.
Hooks do not see values that docker would refuse: docker will report them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated

import msgspec
from koord_hooks.protocol import HookRequest
from koord_model.resources import RESOURCE_FIELDS
from msgspec import Raw

from koord_proxy.docker.json_objects import JsonObject, decoded, raw
from koord_proxy.docker.naming import (
    ANNOTATION_PREFIX,
    OWN_LABELS,
    SANDBOX_LABEL,
    Name,
    docker_parent,
    expanded_parent,
    kind_of,
    parse_name,
    split_labels,
)
from koord_proxy.rules.merge import (
    ANNOTATIONS,
    CGROUP_PARENT,
    ENV,
    LABELS,
    RESOURCES,
    UNIFIED,
    ContainerHookRequest,
    Field,
    PodHookRequest,
    read,
)
from koord_proxy.rules.records import RecordKind

LIMITS = {field.cri: field.docker for field in RESOURCE_FIELDS}
"""Docker's names of the limits hooks know."""

MEMORY, SWAP = (
    Field(RESOURCES, "memory_limit_in_bytes"),
    Field(RESOURCES, "memory_swap_limit_in_bytes"),
)

_TEXTS = frozenset(field.cri for field in RESOURCE_FIELDS if field.text)
_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class ContainerBody:
    """A container of Kubernetes', as a request or an answer of docker's describes it.

    ``config`` has its labels and environment, ``host`` its limits.
    """

    def __init__(
        self,
        kind: RecordKind,
        name: Name,
        labels: Mapping[str, str],
        config: JsonObject,
        host: JsonObject,
    ) -> None:
        self.kind = kind
        self.name = name
        self.sandbox = labels.get(SANDBOX_LABEL, "") if kind is RecordKind.CONTAINER else ""
        self._labels, self._annotations = split_labels(labels)
        self._env = _variables(config)
        self._parent = expanded_parent(host.text("CgroupParent"))
        self._runtime = host.text("Runtime")
        self._limits = _limits(host)

    @classmethod
    def read(cls, name: str, config: JsonObject, host: JsonObject) -> ContainerBody | None:
        """Read one; None if it is nothing of Kubernetes'."""
        parsed = parse_name(name)
        labels = _labels(config)
        kind = kind_of(labels)
        if parsed is None or kind is None:
            return None
        return cls(kind, parsed, labels, config, host)

    def pod_hook_request(self) -> PodHookRequest:
        """Hook request about the pod, from its sandbox's container.

        Its limits are those of the sandbox alone, so the pod's are left empty.
        """
        hook_request = PodHookRequest(
            runtime_handler=self._runtime,
            labels=self._labels,
            annotations=self._annotations,
            cgroup_parent=self._parent,
        )
        hook_request.pod_meta.attempt = self.name.attempt
        self._name_pod(hook_request)
        return hook_request

    def container_hook_request(self, pod: PodHookRequest | None) -> ContainerHookRequest:
        """Hook request about the container, in a pod that may be known."""
        hook_request = ContainerHookRequest(
            container_annotations=self._annotations,
            container_envs=self._env,
            pod_cgroup_parent=self._parent,
        )
        hook_request.container_meta.name = self.name.container
        hook_request.container_meta.attempt = self.name.attempt
        hook_request.container_resources.SetInParent()
        for name, value in self._limits.items():
            setattr(hook_request.container_resources, name, value)
        if pod is None:
            self._name_pod(hook_request)
            return hook_request
        hook_request.pod_meta.CopyFrom(pod.pod_meta)
        hook_request.pod_labels.update(pod.labels)
        hook_request.pod_annotations.update(pod.annotations)
        hook_request.pod_cgroup_parent = self._parent or pod.cgroup_parent
        if pod.HasField("resources"):
            hook_request.pod_resources.CopyFrom(pod.resources)
        return hook_request

    def _name_pod(self, hook_request: HookRequest) -> None:
        hook_request.pod_meta.name = self.name.pod
        hook_request.pod_meta.namespace = self.name.namespace
        hook_request.pod_meta.uid = self.name.uid


class CreateBody:
    """A request to create a container of Kubernetes'."""

    def __init__(self, body: bytes, container: ContainerBody) -> None:
        self._body = body
        self.container = container

    @classmethod
    def read(cls, body: bytes, name: str) -> CreateBody | None:
        """Read one that asks for this name; None if it is nothing of Kubernetes'.

        Raises:
            ValueError: the body is not a JSON object, or one of its sections is not what it
                should be; the message is one line.
        """
        if parse_name(name) is None:
            return None
        root = JsonObject(body, "the create body")
        container = ContainerBody.read(name, root, root.object("HostConfig"))
        return None if container is None else cls(body, container)

    def written(self, hook_request: HookRequest, claims: Collection[Field]) -> bytes:
        """The body with what hooks changed, and nothing else; the environment keeps its order."""
        root = JsonObject(self._body, "the create body")
        host, labels = root.object("HostConfig"), root.object("Labels").members
        env: dict[str, str] = {}
        left_out = self.left_out(hook_request, claims)
        for field in claims:
            if field in left_out:
                continue
            value = read(hook_request, field)
            if field.group == RESOURCES:
                host.put(LIMITS[field.name], value)
            elif field.group == CGROUP_PARENT:
                parent = docker_parent(str(value), host.text("CgroupParent"))
                host.put("CgroupParent", parent)
            elif field.group == ENV:
                env[field.name] = str(value)
            else:
                prefix = ANNOTATION_PREFIX if field.group == ANNOTATIONS else ""
                labels[prefix + field.name] = raw(value)
        variables = _with_variables(root.array("Env"), env)
        for name, section in (("HostConfig", host.members), ("Labels", labels), ("Env", variables)):
            if section:
                root.put(name, section)
        return root.encoded()

    def left_out(self, hook_request: HookRequest, claims: Collection[Field]) -> tuple[Field, ...]:
        """Fields that hooks set and docker has no place for, or cri-dockerd decides itself."""
        return tuple(field for field in claims if not _has_place(field))


class UpdateBody:
    """A request to update a container's limits; docker leaves alone what is 0, empty or absent."""

    def __init__(self, body: bytes) -> None:
        """Read one.

        Raises:
            ValueError: the body is not a JSON object; the message is one line.
        """
        self._body = body
        self._limits = _limits(JsonObject(body, "the update body"))
        # Docker cannot update this limit.
        self._limits.pop("oom_score_adj", None)

    def updated_hook_request(self, stored: ContainerHookRequest) -> ContainerHookRequest:
        """The stored hook request, overlaid with the values of this request."""
        hook_request = ContainerHookRequest()
        hook_request.CopyFrom(stored)
        for name, value in self._limits.items():
            if value:
                setattr(hook_request.container_resources, name, value)
        return hook_request

    def written(self, hook_request: ContainerHookRequest, claims: Collection[Field]) -> bytes:
        """The body with what hooks changed, and nothing else."""
        root = JsonObject(self._body, "the update body")
        left_out = self.left_out(hook_request, claims)
        for field in claims:
            if field not in left_out:
                root.put(LIMITS[field.name], read(hook_request, field))
        return root.encoded()

    def left_out(
        self, hook_request: ContainerHookRequest, claims: Collection[Field]
    ) -> tuple[Field, ...]:
        """Fields that hooks set and an update cannot change: all but limits, and cleared ones."""
        return tuple(
            field
            for field in claims
            if field.group != RESOURCES
            or field.name == "oom_score_adj"
            or not read(hook_request, field)
        )


def tie_swap(
    before: ContainerHookRequest, hook_request: ContainerHookRequest, claims: Mapping[Field, str]
) -> dict[Field, str]:
    """The claims, with a swap limit that goes along with the memory limit hooks changed.

    Docker's counts memory and swap together. cri-dockerd sets both alike, so that containers
    swap nothing; changing one alone, docker would refuse a memory limit above the other, and
    for a container without limits allow as much swap as memory. Limits that were not alike
    before the hooks stay apart, unless docker would refuse them.
    """
    known, desired = before.container_resources, hook_request.container_resources
    swap = known.memory_swap_limit_in_bytes
    alike = swap == known.memory_limit_in_bytes
    refused = 0 < swap < desired.memory_limit_in_bytes
    if MEMORY not in claims or SWAP in claims or not (alike or refused):
        return dict(claims)
    desired.memory_swap_limit_in_bytes = desired.memory_limit_in_bytes
    return {**claims, SWAP: claims[MEMORY]}


def _labels(config: JsonObject) -> dict[str, str]:
    labels = config.object("Labels").members
    texts = ((name, decoded(value, str)) for name, value in labels.items())
    return {name: text for name, text in texts if text is not None}


def _variables(config: JsonObject) -> dict[str, str]:
    """Those that have a name and a value; others stay in the body, and hooks do not see them."""
    return {name: value for name, value in map(_split, config.array("Env")) if name}


def _split(variable: Raw) -> tuple[str, str]:
    """The name and value of a variable; no name if it has no value."""
    name, equals, value = (decoded(variable, str) or "").partition("=")
    return (name if equals else ""), value


def _limits(host: JsonObject) -> dict[str, str | int]:
    return {
        name: host.text(field) if name in _TEXTS else decoded(host.get(field), _Int64) or 0
        for name, field in LIMITS.items()
    }


def _has_place(field: Field) -> bool:
    if field.group == ENV:
        # "A=B" with the value "c" would be A with the value "B=c".
        return bool(field.name) and "=" not in field.name
    return field.group != UNIFIED and not (field.group == LABELS and field.name in OWN_LABELS)


def _with_variables(env: list[Raw], desired: Mapping[str, str]) -> list[Raw]:
    """The environment with these values; of a variable given twice both are changed."""
    texts = {name: raw(f"{name}={value}") for name, value in sorted(desired.items())}
    names = [_split(variable)[0] for variable in env]
    changed = [texts.get(name, variable) for name, variable in zip(names, env, strict=True)]
    return changed + [text for name, text in texts.items() if name not in names]
