"""What a gang asks for, as its PodGroup or one of its pods has it. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import msgspec
from koord_model import duration
from koord_model.keys import (
    ANNOTATION_GANG_GROUPS,
    ANNOTATION_GANG_MATCH_POLICY,
    ANNOTATION_GANG_MIN_AVAILABLE,
    ANNOTATION_GANG_MODE,
    ANNOTATION_GANG_NETWORK_TOPOLOGY,
    ANNOTATION_GANG_TOTAL_NUMBER,
    ANNOTATION_GANG_WAITING_TIME,
    ANNOTATION_OLD_GANG_MATCH_POLICY,
    LABEL_GANG_MIN_AVAILABLE,
)

WAIT_SECONDS = 600.0
_INT32 = range(-(2**31), 2**31)
_DECODE_NAMES = msgspec.json.Decoder(list[str]).decode


class GangMode(StrEnum):
    """What one member that fits nowhere means for the others."""

    STRICT = "Strict"
    NON_STRICT = "NonStrict"


class MatchPolicy(StrEnum):
    """Which members count towards the minimum."""

    ONLY_WAITING = "only-waiting"
    WAITING_AND_RUNNING = "waiting-and-running"
    ONCE_SATISFIED = "once-satisfied"


class GangSource(StrEnum):
    """Where a gang is described: Koordinator's words, and Kubernetes' own PodGroup."""

    POD_GROUP = "GangFromPodGroupCrd"
    KUBERNETES = "PodGroup"
    POD = "GangFromPodAnnotation"


@dataclass(frozen=True)
class GangDefaults:
    """What counts for gangs that do not say it themselves.

    With ``preempts`` they may take the place of less important pods.
    """

    wait_seconds: float = WAIT_SECONDS
    match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED
    preempts: bool = False


class GangSpec(NamedTuple):
    """A gang by its ``key``, namespace/name; ``group`` has the keys of all gangs of its group.

    ``min_member`` of its pods start together or not at all; ``total`` is how many there are to be.
    ``wait_seconds`` is for how long room is held for it. ``created`` is in seconds since the epoch.
    ``network_topology`` is the annotation, "" without one. With a ``problem`` it cannot be placed.
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
    network_topology: str = ""
    problem: str = ""

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
    given = labels.get(LABEL_GANG_MIN_AVAILABLE) or annotations.get(ANNOTATION_GANG_MIN_AVAILABLE)
    minimum = _int32(given)
    if minimum is None:
        return None
    wait = _wait_seconds(annotations.get(ANNOTATION_GANG_WAITING_TIME, "")) or defaults.wait_seconds
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
    """What is not valid counts as not given, as for Koordinator."""
    mode = annotations.get(ANNOTATION_GANG_MODE)
    policy = annotations.get(ANNOTATION_GANG_MATCH_POLICY)
    policy = policy or annotations.get(ANNOTATION_OLD_GANG_MATCH_POLICY)
    total = _int32(annotations.get(ANNOTATION_GANG_TOTAL_NUMBER)) or minimum
    return GangSpec(
        key,
        minimum,
        max(total, minimum),
        GangMode.NON_STRICT if mode == GangMode.NON_STRICT else GangMode.STRICT,
        MatchPolicy(policy) if policy in list(MatchPolicy) else defaults.match_policy,
        float(wait_seconds),
        _group(annotations.get(ANNOTATION_GANG_GROUPS, "")) or (key,),
        created,
        source,
        annotations.get(ANNOTATION_GANG_NETWORK_TOPOLOGY, ""),
    )


def _int32(text: str | None) -> int | None:
    """As Go's ``ParseInt`` of 32 bits."""
    digits = (text or "").removeprefix("-").removeprefix("+") if text != "-+" else ""
    if not digits.isascii() or not digits.isdigit():
        return None
    number = int(text or "")
    return number if number in _INT32 else None


def _wait_seconds(text: str) -> float:
    try:
        return duration.seconds(text)
    except ValueError:
        return 0.0


def _group(text: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(_DECODE_NAMES(text)))
    except msgspec.MsgspecError:
        return ()
