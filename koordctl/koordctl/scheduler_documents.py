"""Document of the scheduler's page about a pod, as typed values; everything has a default."""

from __future__ import annotations

import msgspec


class PluginRejectionsRow(msgspec.Struct, frozen=True):
    """Number of nodes that a plugin rejects, and of those that no other (``alone``) rejects."""

    plugin: str
    nodes: int = 0
    alone: int = 0


class NearMissRow(msgspec.Struct, frozen=True):
    """A node that almost takes the pod: quantities that it lacks, plugins with other reasons.

    ``notes`` are reasons in numbers.
    """

    node: str
    lacks: dict[str, str] = {}
    plugins: list[str] = []
    notes: list[str] = []


class DiagnosisRow(msgspec.Struct, frozen=True):
    """Reasons why the pod can run on ``feasible`` of ``nodes`` nodes only.

    Each of ``wakes_on`` is a change that may be enough.
    """

    message: str = ""
    nodes: int = 0
    feasible: int = 0
    plugins: list[PluginRejectionsRow] = []
    reasons: dict[str, int] = {}
    nearest: list[NearMissRow] = []
    wakes_on: list[str] = []


class NodeScoresRow(msgspec.Struct, frozen=True):
    """A node's weighted scores; ``rank`` 1 is the best one."""

    node: str
    rank: int = 0
    total: int = 0
    by_plugin: dict[str, int] = {}


class GangRow(msgspec.Struct, frozen=True):
    """State of a pod's gang group: of ``waiting`` pods ``needed`` have to start together.

    ``reason`` says why it cannot be tried; else ``fitted`` of them fit, and ``failed`` does not.
    ``policy`` is what the pod's own gang asks for.
    """

    group: str
    policy: str = ""
    waiting: int = 0
    needed: int = 0
    reason: str = ""
    fitted: int = 0
    failed: str = ""


class QuotaRefusalRow(msgspec.Struct, frozen=True):
    """Refusal by a quota on all nodes: quantities by resource that it has and ``lacks``.

    Of ``resource``, ``holders`` are pods that have most of it, ``borrowers`` quotas beside it
    that use more than their min. ``path`` leads to the pod's own quota.
    """

    quota: str
    path: list[str] = []
    non_preemptible: bool = False
    limit: dict[str, str] = {}
    used: dict[str, str] = {}
    lacks: dict[str, str] = {}
    resource: str = ""
    holders: dict[str, str] = {}
    borrowers: dict[str, str] = {}


class PlacementDocument(msgspec.Struct, frozen=True):
    """A pod of the scheduler's /v1/why, or of a what-if; times are seconds since the epoch.

    ``reason`` says in a line why nothing is explained. ``feasible`` of ``nodes`` nodes would
    take a pod that has a node, if it were placed again; plugins in ``rejected_by`` keep it off
    its own.
    """

    pod: str
    state: str = ""
    reason: str = ""
    at: float = 0.0
    since: float = 0.0
    priority: int = 0
    attempts: int = 0
    retry_seconds: float = 0.0
    gates: list[str] = []
    nominated_node: str = ""
    paused: str = ""
    diagnosis: DiagnosisRow | None = None
    gang: GangRow | None = None
    quota: QuotaRefusalRow | None = None
    extender_failure: str = ""
    held_nodes: int = 0
    node: str = ""
    is_node: bool = True
    nodes: int = 0
    feasible: int = 0
    rejected_by: list[str] = []
    best: list[NodeScoresRow] = []


class WhatIfDocument(msgspec.Struct, frozen=True):
    """Placement of pods.

    ``pending`` pods of the cluster were left out; ``skipped`` are objects that are not pods.
    """

    pods: list[PlacementDocument] = []
    pending: int = 0
    skipped: list[str] = []


class DecisionOutcomeRow(msgspec.Struct, frozen=True):
    """Decision on a pod: placed, unschedulable, preempts or error."""

    pod: str
    result: str
    node: str = ""
    victims: list[str] = []


class ReplayedDecisionRow(msgspec.Struct, frozen=True):
    """A decision then and now; ``at`` is in seconds since the epoch."""

    number: int
    at: float
    same: bool
    recorded: DecisionOutcomeRow | None = None
    replayed: DecisionOutcomeRow | None = None


class MovedPodRow(msgspec.Struct, frozen=True):
    """A pod and its nodes; "" for none."""

    pod: str
    recorded: str = ""
    replayed: str = ""


class ExplainedDecision(PlacementDocument, frozen=True):
    """Explanation of a decision in the replay."""

    number: int = 0


class ReplayDocument(msgspec.Struct, frozen=True):
    """A recording, replayed; ``end`` says why it ended, "" if it was torn."""

    version: str
    started: float
    seconds: float
    end: str = ""
    decisions: list[ReplayedDecisionRow] = []
    moved: list[MovedPodRow] = []
    explained: list[ExplainedDecision] = []
