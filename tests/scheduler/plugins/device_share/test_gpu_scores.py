"""Where a pod is placed best: on all nodes at once as on each card of each node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.plugins.device_share.gpu_nodes import GpuNodes, GpuRequest, fits
from koord_scheduler.plugins.device_share.gpu_scores import (
    FIRST_CARDS,
    GpuPolicy,
    as_scores,
    fragmentation_policy,
    place,
    value_policy,
)
from koord_scheduler.plugins.device_share.typical_workload import typical_workload

from tests.scheduler.plugins.device_share.gpu_cases import (
    MODELS,
    one_node,
    some_nodes,
    some_requests,
)

_WORKLOAD = typical_workload(
    [
        GpuRequest(3000, 100, 1, 750),
        GpuRequest(1000, 100, 1, 250),
        GpuRequest(8000, 400, 1, 1000),
        GpuRequest(8000, 100, 2, 1000, frozenset({1})),
        GpuRequest(3000, 100),
    ],
    MODELS,
)
_FGD, _VALUE = fragmentation_policy(_WORKLOAD), value_policy(_WORKLOAD)


def _one_by_one(
    request: GpuRequest, nodes: GpuNodes, row: int, policy: GpuPolicy
) -> tuple[float, int]:
    """Tries each card; several whole ones are taken in order."""
    node = nodes.rows(np.array([row]))
    if not fits(request, node)[0]:
        return -np.inf, FIRST_CARDS
    room = [card for card, free in enumerate(node.cards[0]) if free >= request.share]
    choices = [(card,) for card in room] if request.is_shared else [tuple(room[: request.cards])]
    best = (-np.inf, FIRST_CARDS)
    for choice in choices:
        cards = node.cards.copy()
        cards[0, list(choice)] -= request.share
        after = GpuNodes(node.cpu - request.cpu, node.memory - request.memory, cards, node.model)
        grade = float(policy.grade(policy.measure(node), policy.measure(after))[0])
        if grade > best[0]:
            best = grade, choice[0] if request.is_shared else FIRST_CARDS
    return best


@pytest.mark.parametrize("policy", [_FGD, _VALUE], ids=["fragmentation", "value"])
@given(nodes=some_nodes(), request_=some_requests())
def test_of_all_nodes_at_once_as_of_each(
    policy: GpuPolicy, nodes: GpuNodes, request_: GpuRequest
) -> None:
    found = place(request_, nodes, policy)
    expected = [_one_by_one(request_, nodes, row, policy) for row in range(len(nodes.cpu))]
    assert found.grade.tolist() == [grade for grade, _ in expected]
    assert found.card.tolist() == [card for _, card in expected]


def test_a_part_of_a_card_goes_where_it_spoils_least() -> None:
    found = place(GpuRequest(1000, 100, 1, 300), one_node((1000.0, 400.0)), _VALUE)
    assert found.card.tolist() == [1]


def test_a_pod_without_gpus_goes_where_gpus_can_do_without_its_cpu() -> None:
    idle, busy = one_node((1000.0, 1000.0), cpu=9000.0), one_node((0.0, 0.0), cpu=9000.0)
    grade = [place(GpuRequest(3000, 100), node, _VALUE).grade[0] for node in (idle, busy)]
    assert grade[0] < grade[1] == 0


@given(st.lists(st.floats(-3000, 100), min_size=1))
def test_only_the_best_have_all_points(grades: list[float]) -> None:
    grade = np.array(grades)
    scores = as_scores(grade)
    assert ((scores == 100) == (grade == grade.max())).all()
    assert (scores == np.round(scores)).all()
    assert scores.min() >= 0
    order = np.argsort(grade)
    assert (np.diff(scores[order]) >= 0).all()


def test_a_point_is_a_hundredth_of_a_card() -> None:
    assert as_scores(np.array([0.0, -10.0, -11.0, -5000.0])).tolist() == [100, 99, 98, 0]
    assert as_scores(np.zeros(0)).tolist() == []
