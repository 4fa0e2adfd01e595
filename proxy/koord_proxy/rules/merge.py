"""Hook responses laid over the facts, field by field, and who wanted what.

The rules are Koordinator's, with the differences that docs/compatibility.md
lists. The one that needs care: in protobuf, a response with an empty cpuset or a
zero ``oom_score_adj`` may mean "clear it" or "I said nothing about it". A server
that echoes the request (as the Go koordlet does) means the first, one that sends
only its wishes means the second. ``echoes`` tells which it is.
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

# Where a group of fields is found in the facts of a pod and of a container.
_POD_MAPS = {LABELS: "labels", ANNOTATIONS: "annotations"}
_CONTAINER_MAPS = {ANNOTATIONS: "container_annotations", ENV: "container_envs"}


class HookConflict(NamedTuple):
    """A field that a second server wanted different; the first one's value stands."""

    field: Field
    kept: str
    overruled: str


class Merge:
    """Facts, as all servers asked so far want them.

    ``claims`` has who wanted which field, and what. The facts given are changed
    in place, so that the next server sees what the ones before it want.
    """

    def __init__(self, facts: HookRequest) -> None:
        self.facts = facts
        self.claims: dict[Field, str] = {}
        self._before: dict[Field, Value | None] = {}
        self.conflicts: list[HookConflict] = []

    def add(self, server: str, response: HookResponse) -> bool:
        """Lay a server's response over the facts; True if it changed anything."""
        changed = False
        for field, value in list(wishes(self.facts, response)):
            first = self.claims.setdefault(field, server)
            if first != server:
                self.conflicts.append(HookConflict(field, first, server))
                continue
            self._before.setdefault(field, _there(self.facts, field))
            write(self.facts, field, value)
            changed = True
        return changed

    def undo(self, fields: Iterable[Field]) -> None:
        """Put claimed fields back as they were: they cannot be had, and are not remembered."""
        for field in fields:
            before = self._before[field]
            if before is None:
                del _map(self.facts, field)[field.name]
            else:
                write(self.facts, field, before)
            del self.claims[field]


def wishes(facts: HookRequest, response: HookResponse) -> Iterator[tuple[Field, Value]]:
    """The fields a response wants to be different from the facts.

    Facts and response are both of a pod or both of a container.
    """
    if isinstance(response, pb.PodSandboxHookResponse):
        pod = cast("PodHookRequest", facts)
        yield from _map_wishes(LABELS, pod.labels, response.labels)
        yield from _map_wishes(ANNOTATIONS, pod.annotations, response.annotations)
        parent, wanted = pod.cgroup_parent, response.cgroup_parent
    else:
        facts = cast("ContainerHookRequest", facts)
        yield from _map_wishes(
            ANNOTATIONS, facts.container_annotations, response.container_annotations
        )
        yield from _map_wishes(ENV, facts.container_envs, response.container_envs)
        if response.HasField("container_resources"):
            yield from _resource_wishes(facts, response)
        parent, wanted = facts.pod_cgroup_parent, response.pod_cgroup_parent
    if wanted and wanted != parent:
        yield Field(CGROUP_PARENT), wanted


def _map_wishes(
    group: str, known: Mapping[str, str], wanted: Mapping[str, str]
) -> Iterator[tuple[Field, Value]]:
    for name, value in wanted.items():
        if known.get(name) != value:
            yield Field(group, name), value


def _resource_wishes(
    facts: ContainerHookRequest, response: pb.ContainerResourceHookResponse
) -> Iterator[tuple[Field, Value]]:
    known, wanted = facts.container_resources, response.container_resources
    for name in _POSITIVE:
        value = getattr(wanted, name)
        if value > 0 and value != getattr(known, name):
            yield Field(RESOURCES, name), value
    if wanted.cpu_quota not in (0, known.cpu_quota):
        yield Field(RESOURCES, "cpu_quota"), wanted.cpu_quota
    for name in _CLEARABLE:
        value = getattr(wanted, name)
        if value == getattr(known, name) or (not value and not echoes(facts, response)):
            continue
        if name == "oom_score_adj" and not -1000 <= value <= 1000:
            continue
        yield Field(RESOURCES, name), value
    yield from _map_wishes(UNIFIED, known.unified, wanted.unified)


def echoes(facts: ContainerHookRequest, response: pb.ContainerResourceHookResponse) -> bool:
    """Whether a server answers with the request, its wishes laid over it.

    It does if everything the request had comes back set: every annotation and
    environment key, the pod's cgroup parent, every resource number and every
    ``unified`` key, whatever their values; the fields in question (cpuset and
    ``oom_score_adj``) are not counted. A request without any of these cannot be
    echoed, and nothing is cleared then.
    """
    known, wanted = facts.container_resources, response.container_resources
    numbers = [name for name in (*_POSITIVE, "cpu_quota") if getattr(known, name)]
    has_something = bool(
        numbers
        or known.unified
        or facts.container_annotations
        or facts.container_envs
        or facts.pod_cgroup_parent
    )
    return (
        has_something
        and all(getattr(wanted, name) for name in numbers)
        and all(name in wanted.unified for name in known.unified)
        and all(name in response.container_annotations for name in facts.container_annotations)
        and all(name in response.container_envs for name in facts.container_envs)
        and bool(response.pod_cgroup_parent or not facts.pod_cgroup_parent)
    )


def write(facts: HookRequest, field: Field, value: Value) -> None:
    """Set one field of the facts."""
    pod = isinstance(facts, PodHookRequest)
    if field.group == CGROUP_PARENT:
        setattr(facts, "cgroup_parent" if pod else "pod_cgroup_parent", value)
    elif field.group == RESOURCES:
        setattr(facts.container_resources, field.name, value)  # type: ignore[union-attr]
    else:
        _map(facts, field)[field.name] = str(value)


def read(facts: HookRequest, field: Field) -> Value:
    """One field of the facts, as it stands."""
    pod = isinstance(facts, PodHookRequest)
    if field.group == CGROUP_PARENT:
        value: Value = getattr(facts, "cgroup_parent" if pod else "pod_cgroup_parent")
    elif field.group == RESOURCES:
        value = getattr(facts.container_resources, field.name)  # type: ignore[union-attr]
    else:
        value = _map(facts, field)[field.name]
    return value


def _there(facts: HookRequest, field: Field) -> Value | None:
    """One field of the facts; None for a key of a map that is not there."""
    if field.group in (CGROUP_PARENT, RESOURCES):
        return read(facts, field)
    return _map(facts, field).get(field.name)


def _map(facts: HookRequest, field: Field) -> MutableMapping[str, str]:
    """The map that a field is a key of."""
    found: MutableMapping[str, str]
    if field.group == UNIFIED:
        found = facts.container_resources.unified  # type: ignore[union-attr]
    else:
        maps = _POD_MAPS if isinstance(facts, PodHookRequest) else _CONTAINER_MAPS
        found = getattr(facts, maps[field.group])
    return found
