"""The report of a placement names the nodes that a pod would go to, one after the other."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.placement_report import best_nodes

from tests.conformance.test_scheduler_reasons import class_scores
from tests.support.clusters import random_cluster


@given(st.integers(0, 1 << 32))
def test_the_best_nodes_come_first_with_their_scores(seed: int) -> None:
    scores = class_scores(random_cluster(Random(seed)))
    report, rows = best_nodes(scores), scores.feasible()
    totals = sorted(scores.totals(rows), reverse=True)
    assert [one.total for one in report] == totals[:3]
    assert [one.total for one in report] == [sum(one.by_plugin.values()) for one in report]
    best = scores.best(rows)
    assert [one.node for one in report[:1]] == ([] if best is None else [scores.nodes.name(best)])
    assert len({one.node for one in report}) == len(report)
