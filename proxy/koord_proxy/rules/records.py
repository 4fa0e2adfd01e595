"""Records of pods and containers between calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from koord_hooks.protocol import HookRequest

from koord_proxy.rules.merge import SCALARS, ContainerHookRequest, PodHookRequest

_SWAP = "memory_swap_limit_in_bytes"
# Not the OOM score: no runtime updates it, and each has its own.
_IN_FORCE = tuple(name for name in SCALARS if name != "oom_score_adj")

KEPT_MISSED = 16
"""Missed hooks remembered of one pod or container."""


class RecordKind(StrEnum):
    """Kind of a record's subject."""

    POD = "pod"
    CONTAINER = "container"


class MissedHookCall(NamedTuple):
    """A hook that was due and did not happen: the pod went on without it.

    ``at`` is seconds since the epoch.
    """

    stage: str
    server: str
    reason: str
    at: float


class RequestedLimits(NamedTuple):
    """The limits that the kubelet asked for, which it expects to be in force; 0: not named."""

    cpu_period: int = 0
    cpu_quota: int = 0
    cpu_shares: int = 0
    memory_limit_in_bytes: int = 0


NO_LIMITS = RequestedLimits()


def requested_limits(hook_request: HookRequest) -> RequestedLimits:
    """Those of a request that hooks have not changed yet."""
    if not isinstance(hook_request, ContainerHookRequest):
        return NO_LIMITS
    limits = hook_request.container_resources
    return RequestedLimits(*(getattr(limits, name) for name in RequestedLimits._fields))


def hook_request_with_limits(limits: RequestedLimits) -> ContainerHookRequest:
    """A hook request with these limits alone."""
    hook_request = ContainerHookRequest()
    for name, value in limits._asdict().items():
        setattr(hook_request.container_resources, name, value)
    return hook_request


@dataclass(slots=True)
class RuntimeRecord:
    """One pod sandbox or container, under the runtime's id.

    ``hook_request`` is that of the last successful call, hooks merged in; ``sandbox``
    is the id of a container's pod. A hook request is never changed in place. ``requested`` are the
    limits that the kubelet asked for where hooks changed them.
    """

    kind: RecordKind
    id: str
    hook_request: HookRequest
    sandbox: str = ""
    missed: list[MissedHookCall] = field(default_factory=list)
    requested: RequestedLimits | None = None
    updates: int = field(default=0, compare=False)
    """Calls under way that may change it: until they end, the runtime reports the old state."""

    @property
    def last_requested(self) -> RequestedLimits:
        """The limits that the kubelet asked for, whether hooks changed them or not."""
        return requested_limits(self.hook_request) if self.requested is None else self.requested

    def set_hook_request(self, hook_request: HookRequest, requested: RequestedLimits) -> None:
        """Store a new hook request, and the limits that the kubelet asked for."""
        self.hook_request = hook_request
        self.requested = None if requested == requested_limits(hook_request) else requested

    def note(self, missed: Iterable[MissedHookCall]) -> None:
        """Remember hooks that did not happen.

        Of many, those go first that the same server missed again at the same stage: one that is
        gone for good must not push out what another one missed once.
        """
        kept = [*self.missed, *missed]
        while len(kept) > KEPT_MISSED:
            del kept[_most_dispensable(kept)]
        self.missed = kept


def _most_dispensable(missed: list[MissedHookCall]) -> int:
    """The oldest of which there is a newer one, else the oldest."""
    newest = {(call.stage, call.server): place for place, call in enumerate(missed)}
    repeated = (
        place for place, call in enumerate(missed) if newest[call.stage, call.server] != place
    )
    return next(repeated, 0)


def put_into_pod(container: RuntimeRecord, pod: RuntimeRecord) -> None:
    """Give a container's record what is known of its pod."""
    hook_request, known = container.hook_request, pod.hook_request
    if not (isinstance(hook_request, ContainerHookRequest) and isinstance(known, PodHookRequest)):
        raise TypeError(f"{container.kind} in {pod.kind}")
    hook_request.pod_meta.CopyFrom(known.pod_meta)
    hook_request.pod_labels.update(known.labels)
    hook_request.pod_annotations.update(known.annotations)
    hook_request.pod_cgroup_parent = known.cgroup_parent


def with_limits_in_force(
    known: ContainerHookRequest, reported: ContainerHookRequest
) -> ContainerHookRequest:
    """Return a container's hook request with the limits that the runtime reports in force.

    The runtime is believed: whoever talks to it past the proxy changes limits too. What it does
    not tell stays, and so does a swap limit that nobody gave: runtimes derive one from memory,
    and an update of memory alone would be refused beside it.
    """
    hook_request = ContainerHookRequest()
    hook_request.CopyFrom(known)
    source, target = reported.container_resources, hook_request.container_resources
    for name in _IN_FORCE:
        value = getattr(source, name)
        if value and (name != _SWAP or getattr(target, name)):
            setattr(target, name, value)
    for name, text in source.unified.items():
        target.unified[name] = text
    return hook_request


def identity(kind: RecordKind, hook_request: HookRequest, sandbox: str = "") -> str:
    """Key of a new pod or container in the runtime's lists, before it has an id."""
    if isinstance(hook_request, PodHookRequest):
        return pod_identity(hook_request.pod_meta.uid, hook_request.pod_meta.attempt)
    return container_identity(
        sandbox, hook_request.container_meta.name, hook_request.container_meta.attempt
    )


def pod_identity(uid: str, attempt: int) -> str:
    """The identity of a pod sandbox, from the runtime's list."""
    return f"{RecordKind.POD}/{uid}/{attempt}"


def container_identity(sandbox: str, name: str, attempt: int) -> str:
    """The identity of a container, from the runtime's list."""
    return f"{RecordKind.CONTAINER}/{sandbox}/{name}/{attempt}"


def labels_of(hook_request: HookRequest) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Labels and annotations of the pod."""
    if isinstance(hook_request, PodHookRequest):
        return hook_request.labels, hook_request.annotations
    return hook_request.pod_labels, hook_request.pod_annotations


def names_of(hook_request: HookRequest) -> dict[str, str | None]:
    """Pod and container for a log line."""
    pod = f"{hook_request.pod_meta.namespace}/{hook_request.pod_meta.name}"
    container = (
        hook_request.container_meta.name if isinstance(hook_request, ContainerHookRequest) else None
    )
    return {"pod": pod, "container": container}
