"""Hook responses merged into the hook request, field by field, and which server set what.

The rules are Koordinator's, with the differences that docs/compatibility/proxy.md
lists. The one that needs care: in protobuf, a response with an empty cpuset or a
zero ``oom_score_adj`` may mean "clear it" or "I said nothing about it". A server
that echoes the request (as the Go koordlet does) means the first, one that sends
only what it changes means the second. ``echoes`` distinguishes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import NamedTuple, cast

from koord_hooks.protocol import HookRequest, HookResponse
from koord_proto import hook_pb2 as pb

PodHookRequest = pb.PodSandboxHookRequest
ContainerHookRequest = pb.ContainerResourceHookRequest
Value = str | int


class Field(NamedTuple):
    """One thing that can be changed: a scalar of a group, or a key of a map."""

    group: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.group}[{self.name}]" if self.name else self.group


# Groups of fields.
LABELS, ANNOTATIONS, ENV = "labels", "annotations", "env"
CGROUP_PARENT, RESOURCES, UNIFIED = "cgroup_parent", "resources", "unified"

_POSITIVE = ("cpu_period", "cpu_shares", "memory_limit_in_bytes", "memory_swap_limit_in_bytes")
_CLEARABLE = ("oom_score_adj", "cpuset_cpus", "cpuset_mems")
SCALARS = (*_POSITIVE, "cpu_quota", *_CLEARABLE)

# Where a group of fields is found in the hook requests of a pod and of a container.
_POD_MAPS = {LABELS: "labels", ANNOTATIONS: "annotations"}
_CONTAINER_MAPS = {ANNOTATIONS: "container_annotations", ENV: "container_envs"}


class HookConflict(NamedTuple):
    """A field that two servers set differently; the first one's value stands."""

    field: Field
    kept: str
    overruled: str


class Merge:
    """A hook request with the changes of all servers called so far.

    ``claims`` has the server that set each field. The request is changed in place, so
    that the next server sees the changes of those before it.
    """

    def __init__(self, hook_request: HookRequest) -> None:
        self.hook_request = hook_request
        self.claims: dict[Field, str] = {}
        self._before: dict[Field, Value | None] = {}
        self.conflicts: list[HookConflict] = []

    def add(self, server: str, response: HookResponse) -> bool:
        """Merge a server's response into the request; return True if it changed anything."""
        changed = False
        for field, value in list(desired_values(self.hook_request, response)):
            first = self.claims.setdefault(field, server)
            if first != server:
                self.conflicts.append(HookConflict(field, first, server))
                continue
            self._before.setdefault(field, _there(self.hook_request, field))
            write(self.hook_request, field, value)
            changed = True
        return changed

    def undo(self, fields: Iterable[Field]) -> None:
        """Restore claimed fields: the runtime cannot set them, so they are not recorded."""
        for field in fields:
            before = self._before[field]
            if before is None:
                del _map(self.hook_request, field)[field.name]
            else:
                write(self.hook_request, field, before)
            del self.claims[field]


def desired_values(
    hook_request: HookRequest, response: HookResponse
) -> Iterator[tuple[Field, Value]]:
    """The fields in which a response differs from the request.

    Request and response are both of a pod or both of a container.
    """
    if isinstance(response, pb.PodSandboxHookResponse):
        pod = cast("PodHookRequest", hook_request)
        yield from _map_values(LABELS, pod.labels, response.labels)
        yield from _map_values(ANNOTATIONS, pod.annotations, response.annotations)
        parent, desired = pod.cgroup_parent, response.cgroup_parent
    else:
        hook_request = cast("ContainerHookRequest", hook_request)
        yield from _map_values(
            ANNOTATIONS, hook_request.container_annotations, response.container_annotations
        )
        yield from _map_values(ENV, hook_request.container_envs, response.container_envs)
        if response.HasField("container_resources"):
            yield from _resource_values(hook_request, response)
        parent, desired = hook_request.pod_cgroup_parent, response.pod_cgroup_parent
    if desired and desired != parent:
        yield Field(CGROUP_PARENT), desired


def _map_values(
    group: str, known: Mapping[str, str], desired: Mapping[str, str]
) -> Iterator[tuple[Field, Value]]:
    for name, value in desired.items():
        if known.get(name) != value:
            yield Field(group, name), value


def _resource_values(
    hook_request: ContainerHookRequest, response: pb.ContainerResourceHookResponse
) -> Iterator[tuple[Field, Value]]:
    known, desired = hook_request.container_resources, response.container_resources
    for name in _POSITIVE:
        value = getattr(desired, name)
        if value > 0 and value != getattr(known, name):
            yield Field(RESOURCES, name), value
    if desired.cpu_quota not in (0, known.cpu_quota):
        yield Field(RESOURCES, "cpu_quota"), desired.cpu_quota
    for name in _CLEARABLE:
        value = getattr(desired, name)
        if value == getattr(known, name) or (not value and not echoes(hook_request, response)):
            continue
        if name == "oom_score_adj" and not -1000 <= value <= 1000:
            continue
        yield Field(RESOURCES, name), value
    yield from _map_values(UNIFIED, known.unified, desired.unified)


def echoes(hook_request: ContainerHookRequest, response: pb.ContainerResourceHookResponse) -> bool:
    """True if a server answers with the request, its changes merged into it.

    It does if everything the request had comes back set: every annotation and
    environment key, the pod's cgroup parent, every resource number and every
    ``unified`` key, whatever their values; the fields in question (cpuset and
    ``oom_score_adj``) are not counted. A request without any of these cannot be
    echoed, and nothing is cleared then.
    """
    known, desired = hook_request.container_resources, response.container_resources
    numbers = [name for name in (*_POSITIVE, "cpu_quota") if getattr(known, name)]
    has_something = bool(
        numbers
        or known.unified
        or hook_request.container_annotations
        or hook_request.container_envs
        or hook_request.pod_cgroup_parent
    )
    return (
        has_something
        and all(getattr(desired, name) for name in numbers)
        and all(name in desired.unified for name in known.unified)
        and all(
            name in response.container_annotations for name in hook_request.container_annotations
        )
        and all(name in response.container_envs for name in hook_request.container_envs)
        and bool(response.pod_cgroup_parent or not hook_request.pod_cgroup_parent)
    )


def write(hook_request: HookRequest, field: Field, value: Value) -> None:
    """Set one field of a hook request."""
    pod = isinstance(hook_request, PodHookRequest)
    if field.group == CGROUP_PARENT:
        setattr(hook_request, "cgroup_parent" if pod else "pod_cgroup_parent", value)
    elif field.group == RESOURCES:
        setattr(hook_request.container_resources, field.name, value)  # type: ignore[union-attr]
    else:
        _map(hook_request, field)[field.name] = str(value)


def read(hook_request: HookRequest, field: Field) -> Value:
    """The current value of a hook request's field."""
    pod = isinstance(hook_request, PodHookRequest)
    if field.group == CGROUP_PARENT:
        value: Value = getattr(hook_request, "cgroup_parent" if pod else "pod_cgroup_parent")
    elif field.group == RESOURCES:
        value = getattr(hook_request.container_resources, field.name)  # type: ignore[union-attr]
    else:
        value = _map(hook_request, field)[field.name]
    return value


def _there(hook_request: HookRequest, field: Field) -> Value | None:
    """The value of a hook request's field; None for a missing key of a map."""
    if field.group in (CGROUP_PARENT, RESOURCES):
        return read(hook_request, field)
    return _map(hook_request, field).get(field.name)


def _map(hook_request: HookRequest, field: Field) -> MutableMapping[str, str]:
    """The map that a field is a key of."""
    found: MutableMapping[str, str]
    if field.group == UNIFIED:
        found = hook_request.container_resources.unified  # type: ignore[union-attr]
    else:
        maps = _POD_MAPS if isinstance(hook_request, PodHookRequest) else _CONTAINER_MAPS
        found = getattr(hook_request, maps[field.group])
    return found
