"""Typical workloads are learned from the pods that got nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.objects.node_selector import RequiredNodes, required_nodes
from koord_scheduler.plugins.device_share.gpu_nodes import GpuNodes, GpuRequest
from koord_scheduler.plugins.device_share.learned_workload import (
    GPUScores,
    LearnedWorkload,
    accepted_models,
    gpu_request,
)

from tests.scheduler.plugins.device_share.device_cases import (
    CORE,
    MEMORY,
    RATIO,
    RDMA,
    SHARED,
    K,
    has_gpu,
    needs,
    state,
)

OURS = [GPUScores.FRAGMENTATION, GPUScores.VALUE]
HALF, WHOLE = GpuRequest(1000, 10, 1, 500), GpuRequest(1000, 10, 1, 1000)


def nodes(*cards: tuple[float, ...]) -> GpuNodes:
    plenty = np.full(len(cards), 1e6)
    return GpuNodes(plenty, plenty, np.array(cards), np.zeros(len(cards), np.intp))


@pytest.mark.parametrize(
    ("requests", "cards", "share"),
    [
        ({f"{K}gpu": 50}, 1, 500),
        ({f"{K}gpu": 300}, 3, 1000),
        ({CORE: 20, RATIO: 70}, 1, 700),
        ({RDMA: 1}, 0, 0),
        ({}, 0, 0),
    ],
)
def test_requests_are_in_thousandths_of_cards(
    requests: dict[str, int], cards: int, share: int
) -> None:
    amounts = {"cpu": 2000, "memory": 30, **requests}
    assert gpu_request(amounts, needs(amounts)) == GpuRequest(2000, 30, cards, share)


def required(selector: dict[str, str], *terms: dict[str, list[str]]) -> RequiredNodes:
    expressions = [
        [{"key": key, "operator": "In", "values": values} for key, values in term.items()]
        for term in terms
    ]
    node_affinity = {"nodeSelectorTerms": [{"matchExpressions": one} for one in expressions]}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return required_nodes(selector, {"nodeAffinity": {key: node_affinity}} if terms else None)


MODEL = "node.koordinator.sh/gpu-model"


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        (required({"zone": "a"}), None),
        (required({MODEL: "A100"}), {"A100"}),
        (required({}, {MODEL: ["A100", "T4"]}), {"A100", "T4"}),
        (required({}, {MODEL: ["A100"]}, {MODEL: ["T4"]}), {"A100", "T4"}),
        (required({}, {MODEL: ["A100"]}, {"zone": ["a"]}), None),
        (required({MODEL: "A100"}, {MODEL: ["A100", "T4"]}), {"A100"}),
        (required({MODEL: "A100"}, {"zone": ["a"]}), {"A100"}),
    ],
)
def test_models_are_those_that_selectors_list(
    given_: RequiredNodes, expected: set[str] | None
) -> None:
    assert accepted_models(given_) == expected


@pytest.mark.parametrize("scores", OURS)
def test_cards_of_sought_models_are_left_to_those_who_need_them(scores: GPUScores) -> None:
    workload = LearnedWorkload(scores, first=8)
    for _ in range(4):
        workload.count(WHOLE, "T4")
        workload.count(WHOLE, "A100", frozenset({"A100"}))
    codes = [workload.model_code(one) for one in ("T4", "A100", "new")]
    assert codes == [1, 2, 0]
    both = nodes((1000, 1000), (1000, 1000))._replace(model=np.array(codes[:2]))
    raw = workload.raw_scores(WHOLE, both)
    assert raw is not None
    assert raw[0] > raw[1]


def test_bytes_and_parts_of_several_cards_have_no_share() -> None:
    for requests in ({MEMORY: 5}, {SHARED: 2, RATIO: 50}):
        assert gpu_request(requests, needs(requests)) is None


def test_free_cards_have_core_and_memory() -> None:
    used = [has_gpu(0, 30), has_gpu(1, 100)._replace(resources=((CORE, 10), (RATIO, 60)))]
    assert state(None, *used).free_cards[:3] == (700, 400, 1000)


@pytest.mark.parametrize("scores", OURS)
def test_it_is_learned_anew_as_the_number_of_pods_doubles(scores: GPUScores) -> None:
    workload = LearnedWorkload(scores, first=4)
    versions = []
    for _ in range(17):
        versions.append(workload.version)
        workload.count(HALF)
    assert versions == [*[0] * 4, *[1] * 4, *[2] * 8, 3]
    assert workload.policy is not None


def test_without_gpus_nothing_is_learned() -> None:
    workload = LearnedWorkload(GPUScores.VALUE, first=2)
    for _ in range(3):
        workload.count(GpuRequest(1000, 10))
    assert workload.policy is None
    assert workload.raw_scores(HALF, nodes((1000,))) is None
    assert workload.card(HALF, nodes((1000,))) is None


@pytest.mark.parametrize("scores", OURS)
def test_parts_of_cards_go_where_something_is_taken_already(scores: GPUScores) -> None:
    workload = LearnedWorkload(scores, first=16)
    for one in (HALF, *[WHOLE] * 15):
        workload.count(one)
    raw = workload.raw_scores(HALF, nodes((1000, 1000), (1000, 500)))
    assert raw is not None
    assert raw[1] > raw[0]
    assert workload.card(HALF, nodes((1000, 500))) == 1
    assert workload.card(WHOLE, nodes((1000, 500))) is None


@pytest.mark.parametrize("scores", OURS)
@given(st.lists(st.tuples(*[st.sampled_from([0.0, 300.0, 500.0, 1000.0])] * 2), min_size=1))
def test_nodes_are_scored_one_by_one(scores: GPUScores, cards: list[tuple[float, ...]]) -> None:
    workload = LearnedWorkload(scores, first=4)
    for one in (HALF, HALF, HALF, WHOLE):
        workload.count(one)
    raw = workload.raw_scores(HALF, nodes(*cards))
    assert raw is not None
    alone = [workload.raw_scores(HALF, nodes(one)) for one in cards]
    assert raw.tolist() == [one[0] for one in alone if one is not None]
    whole = workload.whole_scores(raw)
    assert whole is None or ((whole >= 0) & (whole <= 100)).all()
    assert whole is None or whole.max() == 100
