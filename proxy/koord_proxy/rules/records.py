"""What is remembered of pods and containers between calls."""

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
    """What a record is about."""

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


def requested_limits(facts: HookRequest) -> RequestedLimits:
    """Those of a request that hooks have not changed yet."""
    if not isinstance(facts, ContainerHookRequest):
        return NO_LIMITS
    limits = facts.container_resources
    return RequestedLimits(*(getattr(limits, name) for name in RequestedLimits._fields))


def facts_requesting(limits: RequestedLimits) -> ContainerHookRequest:
    """Facts with these limits alone."""
    facts = ContainerHookRequest()
    for name, value in limits._asdict().items():
        setattr(facts.container_resources, name, value)
    return facts


@dataclass(slots=True)
class RuntimeRecord:
    """One pod sandbox or container, under the runtime's id.

    ``facts`` are those of the last successful call, hooks merged in; ``sandbox``
    is the id of a container's pod. Facts are never changed in place. ``requested`` are the
    limits that the kubelet asked for where hooks changed them.
    """

    kind: RecordKind
    id: str
    facts: HookRequest
    sandbox: str = ""
    missed: list[MissedHookCall] = field(default_factory=list)
    requested: RequestedLimits | None = None
    updates: int = field(default=0, compare=False)
    """Calls under way that may change it: until they end, the runtime tells what was before."""

    @property
    def last_requested(self) -> RequestedLimits:
        """The limits that the kubelet asked for, whether hooks changed them or not."""
        return requested_limits(self.facts) if self.requested is None else self.requested

    def set_facts(self, facts: HookRequest, requested: RequestedLimits) -> None:
        """Note new facts, and what the kubelet asked for."""
        self.facts = facts
        self.requested = None if requested == requested_limits(facts) else requested

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
    newest = {(one.stage, one.server): place for place, one in enumerate(missed)}
    repeated = (place for place, one in enumerate(missed) if newest[one.stage, one.server] != place)
    return next(repeated, 0)


def put_into_pod(container: RuntimeRecord, pod: RuntimeRecord) -> None:
    """Give a container's record what is known of its pod."""
    facts, known = container.facts, pod.facts
    if not (isinstance(facts, ContainerHookRequest) and isinstance(known, PodHookRequest)):
        raise TypeError(f"{container.kind} in {pod.kind}")
    facts.pod_meta.CopyFrom(known.pod_meta)
    facts.pod_labels.update(known.labels)
    facts.pod_annotations.update(known.annotations)
    facts.pod_cgroup_parent = known.cgroup_parent


def with_limits_in_force(
    known: ContainerHookRequest, told: ContainerHookRequest
) -> ContainerHookRequest:
    """What is known of a container, with the limits that the runtime says it has.

    The runtime is believed: whoever talks to it past the proxy changes limits too. What it does
    not tell stays, and so does a swap limit that nobody gave: runtimes derive one from memory,
    and an update of memory alone would be refused beside it.
    """
    facts = ContainerHookRequest()
    facts.CopyFrom(known)
    source, target = told.container_resources, facts.container_resources
    for name in _IN_FORCE:
        value = getattr(source, name)
        if value and (name != _SWAP or getattr(target, name)):
            setattr(target, name, value)
    for name, text in source.unified.items():
        target.unified[name] = text
    return facts


def identity(kind: RecordKind, facts: HookRequest, sandbox: str = "") -> str:
    """What the runtime's lists know a new pod or container by, before it has an id."""
    if isinstance(facts, PodHookRequest):
        return pod_identity(facts.pod_meta.uid, facts.pod_meta.attempt)
    return container_identity(sandbox, facts.container_meta.name, facts.container_meta.attempt)


def pod_identity(uid: str, attempt: int) -> str:
    """The identity of a pod sandbox, from the runtime's list."""
    return f"{RecordKind.POD}/{uid}/{attempt}"


def container_identity(sandbox: str, name: str, attempt: int) -> str:
    """The identity of a container, from the runtime's list."""
    return f"{RecordKind.CONTAINER}/{sandbox}/{name}/{attempt}"


def labels_of(facts: HookRequest) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Labels and annotations of the pod."""
    if isinstance(facts, PodHookRequest):
        return facts.labels, facts.annotations
    return facts.pod_labels, facts.pod_annotations


def names_of(facts: HookRequest) -> dict[str, str | None]:
    """Pod and container for a log line."""
    pod = f"{facts.pod_meta.namespace}/{facts.pod_meta.name}"
    container = facts.container_meta.name if isinstance(facts, ContainerHookRequest) else None
    return {"pod": pod, "container": container}
