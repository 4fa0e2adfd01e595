"""Nodes that reject a pod are those where it does not fit, each with its first plugin's reasons."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.rejected_nodes import rejected_nodes

from tests.conformance.test_scheduler_reasons import class_scores
from tests.support.clusters import random_cluster


@given(st.integers(0, 1 << 32))
def test_every_node_is_feasible_or_has_reasons_of_the_first_plugin_that_rejects_it(
    seed: int,
) -> None:
    scores = class_scores(random_cluster(Random(seed)))
    feasible = scores.feasible()
    found = list(rejected_nodes(scores, feasible))
    by_row = {int(row): one.plugin for one in found for row in one.rows}
    assert by_row == {
        int(row): scores.rejections(int(row))[0]
        for row in np.flatnonzero(scores.nodes.is_node)
        if row not in feasible
    }
    assert sum(len({one.plugin for one in found if row in one.rows}) for row in by_row) == len(
        by_row
    )


@given(st.integers(0, 1 << 32))
def test_room_that_is_kept_is_a_reason(seed: int) -> None:
    scores = class_scores(random_cluster(Random(seed)))
    feasible = scores.feasible()
    held = [one for one in rejected_nodes(scores, feasible[1:]) if not one.plugin]
    assert [one.rows.tolist() for one in held] == [feasible[:1].tolist()][: len(feasible)]
