"""Preemption, against kube-scheduler's own DefaultPreemption."""

from __future__ import annotations

import numpy as np
from koord_scheduler.framework.preemption import Candidates, find_candidates, may_preempt
from koord_scheduler.framework.profile import EnabledPlugin

from tests.conformance.test_scheduler import WEIGHTS, plugins
from tests.conformance.vectors import Fields, Object, Vector, replay
from tests.support.full_cluster import FullCluster

PLUGINS = [EnabledPlugin(one, True, WEIGHTS[one.name]) for one in plugins({})]


def ours(vector: Vector) -> Fields:
    cluster = FullCluster(vector.given, PLUGINS)
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
    found["best"] = sorted(equally_good(candidates, len(nodes)))
    if not vector.recorded.get("feasible") and not vector.recorded.get("prefilter"):
        found["without victims"] = candidates.without_victims
        found["rejected"] = candidates.rejected
        found["unhelpful"] = candidates.unhelpful
    return found


def equally_good(candidates: Candidates, rows: int) -> set[str]:
    """The nodes that are the best if ties go to them."""
    best = map(candidates.best, np.identity(rows))
    return {one.node for one in best if one is not None}


def theirs(recorded: Object) -> Fields:
    found: Object = {"eligible": recorded["eligible"], "best": recorded.get("best", [])}
    for name, one in recorded.get("candidates", {}).items():
        found[f"{name} victims"], found[f"{name} violations"] = one["victims"], one["violations"]
    if not recorded.get("feasible") and not recorded.get("prefilter"):
        found["without victims"] = len(recorded.get("without", ()))
        found["rejected"] = len(recorded.get("rejected", ()))
        found["unhelpful"] = len(recorded.get("unhelpful", ()))
    return found


def test_preemption_is_that_of_kube_scheduler() -> None:
    replay("scheduler_preemption", ours, theirs)
