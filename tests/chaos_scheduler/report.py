"""What a run came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Feature:
    """What became of the pods of one."""

    created: int = 0
    bound: int = 0
    ended: int = 0
    waiting: int = 0
    """At the end; of quotas, and of gangs in them, some do."""


@dataclass
class ChurnReport:
    """What is found afterwards; durations are in seconds."""

    bindings: int = 0
    lost_bindings: int = 0
    kills: int = 0
    ended_pods: int = 0
    changed_nodes: int = 0
    waiting: int = 0
    audits: int = 0
    forgotten: list[str] = field(default_factory=list)
    """Pods, gangs and reservations that wait though there is room for them."""
    violations: list[str] = field(default_factory=list)
    features: dict[str, Feature] = field(default_factory=dict)
    pauses: list[Pause] = field(default_factory=list)
    late_bindings: list[float] = field(default_factory=list)
    after_expiry: list[float] = field(default_factory=list)
    """From the moment at which the Lease may be taken until another one holds it."""
    after_release: list[float] = field(default_factory=list)
    ready_again: list[float] = field(default_factory=list)
    """From the start of one that was killed until it knows the cluster."""
    status: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass
class Pause:
    """A time without the API server, and how long after it a new pod had its node."""

    how: str
    seconds: float
    until_decided: float
