"""Specification of a gang, from its PodGroup or one of its pods. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from koord_model import gang_annotations
from koord_model.keys import (
    ANNOTATION_GANG_GROUPS,
    ANNOTATION_GANG_MATCH_POLICY,
    ANNOTATION_GANG_MIN_AVAILABLE,
    ANNOTATION_GANG_MODE,
    ANNOTATION_GANG_NETWORK_TOPOLOGY,
    ANNOTATION_GANG_TOTAL_NUMBER,
    ANNOTATION_GANG_WAITING_TIME,
    ANNOTATION_OLD_GANG_MATCH_POLICY,
)

from koord_scheduler.gangs.quorum import Quorum
from koord_scheduler.objects.annotations import read_annotations
from koord_scheduler.objects.pod import PodResourceClaim

WAIT_SECONDS = 600.0


class GangMode(StrEnum):
    """Effect of one member that fits nowhere on the others."""

    STRICT = "Strict"
    NON_STRICT = "NonStrict"


class MatchPolicy(StrEnum):
    """Members that count towards the minimum."""

    ONLY_WAITING = "only-waiting"
    WAITING_AND_RUNNING = "waiting-and-running"
    ONCE_SATISFIED = "once-satisfied"


read_annotations(
    ANNOTATION_GANG_GROUPS,
    ANNOTATION_GANG_MATCH_POLICY,
    ANNOTATION_GANG_MIN_AVAILABLE,
    ANNOTATION_GANG_MODE,
    ANNOTATION_GANG_NETWORK_TOPOLOGY,
    ANNOTATION_GANG_TOTAL_NUMBER,
    ANNOTATION_GANG_WAITING_TIME,
    ANNOTATION_OLD_GANG_MATCH_POLICY,
)


class GangSource(StrEnum):
    """Source of a gang's description: Koordinator's words, and Kubernetes' own PodGroup."""

    POD_GROUP = "GangFromPodGroupCrd"
    KUBERNETES = "PodGroup"
    POD = "GangFromPodAnnotation"


@dataclass(frozen=True)
class GangDefaults:
    """Defaults for gangs without settings of their own.

    With ``preempts`` they may take the place of less important pods.
    """

    wait_seconds: float = WAIT_SECONDS
    match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED
    preempts: bool = False


class DomainRule(NamedTuple):
    """All pods of some ``gangs``, by their keys, are on nodes with one value of a ``label``."""

    label: str
    gangs: tuple[str, ...]


class GangSpec(NamedTuple):
    """A gang by its ``key``, namespace/name; ``group`` has the keys of all gangs of its group.

    ``min_member`` of its pods start together or not at all; ``total`` is how many there are to be.
    ``wait_seconds`` is for how long room is held for it. ``created`` is in seconds since the epoch.
    ``gather_spec`` is the annotation about the network, "" without one. With a ``problem`` it
    cannot be placed.
    ``ignored`` says what counts as not given, since it is not valid.

    Its pods have the ``priority``, where it is not ``None``. It may take the place of other pods if
    it ``preempts``; ``None``: as configured. The gangs of ``disrupted_with``, itself included, lose
    all their pods or none; empty: each by itself. ``domains`` are from the widest to the narrowest.
    ``quorum`` says how many gangs of the group have to start together; ``None``: all. Its pods
    share those of their resource claims that are among its ``claims``.
    """

    key: str
    min_member: int
    total: int
    mode: GangMode = GangMode.STRICT
    match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED
    wait_seconds: float = WAIT_SECONDS
    group: tuple[str, ...] = ()
    created: float = 0.0
    source: GangSource = GangSource.POD
    gather_spec: str = ""
    problem: str = ""
    ignored: tuple[str, ...] = ()
    priority: int | None = None
    preempts: bool | None = None
    disrupted_with: tuple[str, ...] = ()
    domains: tuple[DomainRule, ...] = ()
    quorum: Quorum | None = None
    claims: tuple[PodResourceClaim, ...] = ()

    @property
    def group_id(self) -> str:
        """The name of its group."""
        return ",".join(self.group)


def gang_of_pod(
    key: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    created: float,
    defaults: GangDefaults,
) -> GangSpec | None:
    """The gang that a pod describes; ``None`` without a valid minimum."""
    minimum = gang_annotations.int32(gang_annotations.minimum(labels, annotations)[1])
    if minimum is None:
        return None
    text = annotations.get(ANNOTATION_GANG_WAITING_TIME, "")
    wait = gang_annotations.wait_seconds(text) or defaults.wait_seconds
    return _spec(key, minimum, annotations, wait, created, GangSource.POD, defaults)


def gang_of_pod_group(
    key: str,
    minimum: int,
    timeout_seconds: int | None,
    annotations: Mapping[str, str],
    created: float,
    defaults: GangDefaults,
) -> GangSpec:
    """The gang that a PodGroup describes."""
    wait = timeout_seconds if timeout_seconds and timeout_seconds > 0 else defaults.wait_seconds
    return _spec(key, minimum, annotations, wait, created, GangSource.POD_GROUP, defaults)


def _spec(
    key: str,
    minimum: int,
    annotations: Mapping[str, str],
    wait_seconds: float,
    created: float,
    source: GangSource,
    defaults: GangDefaults,
) -> GangSpec:
    mode = annotations.get(ANNOTATION_GANG_MODE)
    policy = annotations.get(ANNOTATION_GANG_MATCH_POLICY)
    policy = policy or annotations.get(ANNOTATION_OLD_GANG_MATCH_POLICY)
    total = gang_annotations.int32(annotations.get(ANNOTATION_GANG_TOTAL_NUMBER)) or minimum
    return GangSpec(
        key,
        minimum,
        max(total, minimum),
        GangMode.NON_STRICT if mode == GangMode.NON_STRICT else GangMode.STRICT,
        MatchPolicy(policy) if policy in list(MatchPolicy) else defaults.match_policy,
        float(wait_seconds),
        gang_annotations.group(annotations.get(ANNOTATION_GANG_GROUPS, "")) or (key,),
        created,
        source,
        annotations.get(ANNOTATION_GANG_NETWORK_TOPOLOGY, ""),
        ignored=tuple(_invalid(minimum, annotations)),
    )


def _invalid(minimum: int, annotations: Mapping[str, str]) -> Iterator[str]:
    if minimum < 0:
        yield f"the minimum of members is {minimum}; expected a number from 0"
    yield from gang_annotations.invalid(annotations)
