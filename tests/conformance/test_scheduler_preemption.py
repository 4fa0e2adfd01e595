"""Preemption, against kube-scheduler's own DefaultPreemption."""

from __future__ import annotations

import numpy as np
from koord_scheduler.framework.preemption import (
    Candidates,
    find_candidates,
    least_harmful,
    may_preempt,
)

from tests.conformance.test_scheduler import selects_namespaces_by_absence
from tests.conformance.vectors import Fields, Object, Vector, replay
from tests.support.full_cluster import FullCluster
from tests.support.scheduler_profile import default_plugins


def ours(vector: Vector) -> Fields:
    cluster = FullCluster(vector.given, default_plugins())
    scores, nodes, priority = cluster.scores, cluster.nodes, cluster.pod.priority
    may = may_preempt(scores, priority, cluster.waiting.nominated, nodes, cluster.placed)
    candidates = find_candidates(
        scores, priority, nodes, cluster.placed, cluster.budgets, cluster.nominated
    )
    found: Object = {"eligible": cluster.waiting.preempts and may}
    for one in candidates:
        names = [pod.key.partition("/")[2] for pod in one.victims]
        found[f"{one.node} victims"] = names
        found[f"{one.node} violations"] = one.pdb_violations
    best = equally_good(candidates, len(nodes))
    chosen = least_harmful(candidates, lambda _: 0.0)  # where extenders had a say
    found["best"] = sorted(best if chosen is None or chosen.node in best else {chosen.node})
    if has_numbers(vector):
        numbers = candidates.without_victims, candidates.rejected, candidates.unhelpful
    else:
        numbers = numbers_of(vector.recorded)
    return {**found, "without, rejected, unhelpful": numbers}


def has_numbers(vector: Vector) -> bool:
    """Whether it is clear which nodes are counted as what.

    Of several reasons kube-scheduler takes the first one, be it for a nominated pod. If the pod
    fits somewhere, there is no preemption at all.
    """
    of_nodes = vector.recorded.get("feasible") or vector.recorded.get("prefilter")
    return not (of_nodes or vector.given["nominated"])


def equally_good(candidates: Candidates, rows: int) -> set[str]:
    """The nodes that are the best if ties go to them."""
    best = map(candidates.best, np.identity(rows))
    return {one.node for one in best if one is not None}


def theirs(recorded: Object) -> Fields:
    found: Object = {"eligible": recorded["eligible"], "best": recorded.get("best", [])}
    for name, one in recorded.get("candidates", {}).items():
        found[f"{name} victims"], found[f"{name} violations"] = one["victims"], one["violations"]
    return {**found, "without, rejected, unhelpful": numbers_of(recorded)}


def numbers_of(recorded: Object) -> tuple[int, int, int]:
    without, rejected = recorded.get("without", ()), recorded.get("rejected", ())
    return len(without), len(rejected), len(recorded.get("unhelpful", ()))


def hard_constraints(vector: Vector) -> list[Object]:
    rows = vector.given["pod"]["spec"].get("topologySpreadConstraints", [])
    return [row for row in rows if row["whenUnsatisfiable"] == "DoNotSchedule"]


def leaving_pods_unspread(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler never counts terminating pods for spread constraints, and yet takes them off.

    In a dry run a domain so has fewer pods than none.
    """
    namespace = vector.given["pod"]["metadata"]["namespace"]
    own = [one["metadata"] for one in vector.given["pods"]]
    leaving = [one for one in own if one["namespace"] == namespace and "deletionTimestamp" in one]
    return bool(leaving and hard_constraints(vector))


def nominated_by_any_selector(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler counts no pods for a spread constraint without requirements, but nominated."""
    selectors = [row.get("labelSelector") for row in hard_constraints(vector)]
    return {} in selectors and bool(vector.given["nominated"])


def nominated_keep_off(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler looks at the anti-affinity of nominated pods only if other pods have some."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinities = [one["spec"].get("affinity", {}) for one in vector.given["nominated"]]
    own = vector.given["pod"]["spec"].get("affinity", {})
    kinds = own.get("podAffinity", {}), own.get("podAntiAffinity", {})
    return any(required in one.get("podAntiAffinity", {}) for one in affinities) and not any(
        required in one for one in kinds
    )


def namespaces_by_absence(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler takes a namespaceSelector that holds without labels (NotIn) for any one."""
    return selects_namespaces_by_absence(vector.given["pod"])


def test_preemption_is_that_of_kube_scheduler() -> None:
    differences = (
        namespaces_by_absence,
        leaving_pods_unspread,
        nominated_by_any_selector,
        nominated_keep_off,
    )
    replay("scheduler_preemption", ours, theirs, differences)
