"""The wishes of a DrainNode, read. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from koord_model import duration, label_selector
from koord_model.label_selector import LabelSelector
from koord_model.never_evicted import SYSTEM_CRITICAL


class ConfirmState(StrEnum):
    """The word of the one who decides; nothing moves before ``CONFIRMED``."""

    WAIT = "WaitForConfirm"
    CONFIRMED = "Confirmed"
    REJECTED = "Rejected"
    ABORTED = "Aborted"


class DrainBehavior(StrEnum):
    """The way in which a pod is drained."""

    DRAIN = "Drain"
    EVICT = "Evict"
    """It is evicted, as budgets allow: no place has to be found for it."""
    SKIP = "Skip"
    WAIT = "WaitCompleted"


class JobMode(StrEnum):
    """The proof of a place: a Reservation that was made, or a simulation."""

    RESERVE = "ReservationFirst"
    DIRECT = "EvictDirectly"


class DrainWave(NamedTuple):
    """Pods of at least this priority; the last wave that applies counts."""

    name: str
    priority: int


DEFAULT_WAVES = (DrainWave("plain", -(1 << 31)), DrainWave("critical", SYSTEM_CRITICAL))


class PodRule(NamedTuple):
    """The behaviour of some pods; no ``namespaces``: those of all, no ``order``: by priority."""

    selector: LabelSelector
    namespaces: frozenset[str]
    behavior: DrainBehavior
    order: int | None

    def applies(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """True if it is about such a pod."""
        in_namespace = not self.namespaces or namespace in self.namespaces
        return in_namespace and self.selector.matches(labels)


class DrainSpec(NamedTuple):
    """All that is asked; ``deadline`` and ``ttl`` are in seconds, ``None``: none."""

    node: str
    confirm: ConfirmState = ConfirmState.WAIT
    is_dry_run: bool = False
    deadline: float | None = None
    deletes_at_deadline: bool = False
    waves: tuple[DrainWave, ...] = DEFAULT_WAVES
    rules: tuple[PodRule, ...] = ()
    mode: JobMode = JobMode.RESERVE
    ttl: str = "5m"
    reason: str = ""

    @property
    def is_confirmed(self) -> bool:
        """True if pods may move."""
        return self.confirm is ConfirmState.CONFIRMED and not self.is_dry_run

    @property
    def is_cancelled(self) -> bool:
        """True if all of it is to be undone."""
        return self.confirm in (ConfirmState.REJECTED, ConfirmState.ABORTED)


class _Deadline(msgspec.Struct):
    duration: str = ""
    then: str = "Stop"


class _Wave(msgspec.Struct):
    name: str
    priority: int = -(1 << 31)


class _Rule(msgspec.Struct):
    behavior: DrainBehavior
    namespaces: list[str] | None = None
    selector: dict[str, Any] | None = None
    order: int | None = None


class _Migration(msgspec.Struct, rename={"mode": "jobMode"}):
    mode: JobMode = JobMode.RESERVE
    ttl: str = "5m"


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str
    confirm_state: ConfirmState = ConfirmState.WAIT
    dry_run: bool = False
    deadline: _Deadline | None = None
    waves: list[_Wave] | None = None
    pod_rules: list[_Rule] | None = None
    migration_policy: _Migration = msgspec.field(default_factory=_Migration)
    reason: str = ""


def read_drain_spec(given: Any) -> DrainSpec:
    """The spec in a document.

    Raises:
        ValueError: it is not one; a line with the field and its value.
    """
    try:
        spec = msgspec.convert(given, _Spec)
    except msgspec.ValidationError as error:
        raise ValueError(f"spec: {error}") from None
    limit = spec.deadline
    waves = tuple(DrainWave(wave.name, wave.priority) for wave in spec.waves or ())
    return DrainSpec(
        spec.node_name,
        spec.confirm_state,
        spec.dry_run,
        duration.seconds(limit.duration) if limit is not None else None,
        limit is not None and limit.then == "Delete",
        waves or DEFAULT_WAVES,
        tuple(_rule(rule, f"spec.podRules[{n}]") for n, rule in enumerate(spec.pod_rules or ())),
        spec.migration_policy.mode,
        spec.migration_policy.ttl,
        spec.reason,
    )


def _rule(given: _Rule, where: str) -> PodRule:
    selector = label_selector.parse(given.selector or {}, f"{where}.selector")
    return PodRule(selector, frozenset(given.namespaces or ()), given.behavior, given.order)
