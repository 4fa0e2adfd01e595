import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from koord_manager.noderesource.webhook.resource_amplification import mutate_node_status
from koord_manager.webhooks.cluster_view import ClusterView
from koord_model.demand import amounts
from koord_model.keys import ANNOTATION_AMPLIFICATION_RATIO, ANNOTATION_RAW_ALLOCATABLE, BATCH_CPU
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)

Node = dict[str, Any]


def node(
    allocatable: Any, ratios: str | None = None, raw: str | None = None, **annotations: str
) -> Node:
    ours = {ANNOTATION_AMPLIFICATION_RATIO: ratios, ANNOTATION_RAW_ALLOCATABLE: raw}
    annotations |= {key: value for key, value in ours.items() if value is not None}
    return {
        "metadata": {"name": "n1", "annotations": annotations},
        "status": {"capacity": {"cpu": "4"}, "allocatable": allocatable},
    }


def asked(
    new: Any, old: Any, operation: AdmissionOperation = AdmissionOperation.UPDATE
) -> AdmissionResponse:
    question = AdmissionRequest(
        "u", operation, "nodes", subresource="status", name="n1", object=new, old=old
    )
    return mutate_node_status(question, ClusterView())


def written(new: Node, old: Node) -> Node:
    """What is kept of a write."""
    before = json.dumps(new)
    verdict = asked(new, old)
    assert not verdict.refusal
    assert json.dumps(new) == before
    return verdict.object if verdict.object is not None else new


def by_kubelet(kept: Node, **allocatable: str) -> Node:
    """A kubelet's write: the amounts that it has itself."""
    return {**kept, "status": {**kept["status"], "allocatable": dict(allocatable)}}


def shown(of: Node) -> dict[str, int]:
    return dict(amounts(of["status"]["allocatable"]))


def raw(of: Node) -> Any:
    return json.loads(of["metadata"]["annotations"][ANNOTATION_RAW_ALLOCATABLE])


RAW = {"cpu": "4", "memory": "16Gi"}
BOTH = '{"cpu":1.50,"memory":2.00}'


def amplified() -> Node:
    return written(node(RAW, BOTH), node(RAW, BOTH))


def test_allocatable_is_raw_times_ratio_and_raw_is_kept() -> None:
    found = amplified()
    assert found["status"]["allocatable"] == {"cpu": "6000m", "memory": str(32 << 30)}
    assert raw(found) == RAW
    assert found["status"]["capacity"] == {"cpu": "4"}


def test_only_cpu_and_memory_above_a_ratio_of_one() -> None:
    has = {**RAW, "pods": "110", BATCH_CPU: "1000"}
    ratios = json.dumps({"cpu": 1.0, "memory": 1.5, "pods": 2.0, BATCH_CPU: 2.0})
    found = written(node(has, ratios), node(has, ratios))
    assert found["status"]["allocatable"] == {**has, "memory": str(24 << 30)}
    assert raw(found) == RAW


def test_what_is_amplified_of_an_odd_amount_is_rounded_down() -> None:
    has = {"cpu": "3333m", "memory": "1001"}
    found = written(node(has, '{"cpu":1.01,"memory":1.01}'), node(has))
    assert shown(found) == {"cpu": 3366, "memory": 1011}


@pytest.mark.parametrize(
    ("new", "operation"),
    [
        (node(RAW), AdmissionOperation.UPDATE),
        (node(RAW, BOTH), AdmissionOperation.CREATE),
        (node({}, BOTH), AdmissionOperation.UPDATE),
        (node({"pods": "110"}, BOTH), AdmissionOperation.UPDATE),
    ],
)
def test_nothing_to_amplify(new: Node, operation: AdmissionOperation) -> None:
    assert asked(new, new, operation) == ADMITTED


@pytest.mark.parametrize("ratios", ["{", "[]", '{"cpu":"2","memory":0.5}', '{"cpu":1e99}'])
def test_ratios_that_cannot_be_used_amplify_nothing_and_refuse_nothing(ratios: str) -> None:
    bad = node(amplified()["status"]["allocatable"], ratios, json.dumps(RAW))
    verdict = asked(bad, bad)
    assert not verdict.refusal
    assert verdict.warnings
    assert all(ANNOTATION_AMPLIFICATION_RATIO in line for line in verdict.warnings)
    assert verdict.object is not None
    assert shown(verdict.object) == shown(node(RAW))
    assert raw(verdict.object) == RAW


def test_a_bad_ratio_or_amount_costs_only_itself() -> None:
    has = node(RAW, '{"cpu":"2","memory":2.0}')
    verdict = asked(has, has)
    assert verdict.object is not None
    assert shown(verdict.object) == {"cpu": 4000, "memory": 32 << 30}
    assert len(verdict.warnings) == 1
    odd = node({"cpu": "many", "memory": "16Gi"}, BOTH)
    found = written(odd, odd)["status"]["allocatable"]
    assert found == {"cpu": "many", "memory": str(32 << 30)}


@pytest.mark.parametrize("kept", ["{", "[]", '{"cpu": 4}'])
def test_raw_amounts_that_cannot_be_read_wait_for_the_kubelet(kept: str) -> None:
    now = amplified()["status"]["allocatable"]
    lost = node(now, BOTH, kept)
    verdict = asked(lost, lost)
    assert verdict.object is None
    assert ANNOTATION_RAW_ALLOCATABLE in verdict.warnings[0]
    found = written(by_kubelet(lost, **RAW), lost)
    assert shown(found) == shown(amplified())
    assert raw(found) == RAW


CPUS = st.integers(1, 200_000).map(lambda number: f"{number}m")
BYTES = st.integers(1, 1 << 44).map(str) | st.integers(1, 1 << 20).map(lambda n: f"{n}Mi")
ALLOCATABLE = st.fixed_dictionaries({"cpu": CPUS, "memory": BYTES})
RATIO = st.integers(100, 10_000).map(lambda number: number / 100)
RATIOS = st.fixed_dictionaries({}, optional={"cpu": RATIO, "memory": RATIO}).map(json.dumps)


@given(ALLOCATABLE, RATIOS, st.lists(ALLOCATABLE, max_size=3))
def test_amplified_is_at_least_raw_and_once_is_enough(
    first: Any, ratios: str, later: list[Any]
) -> None:
    before = node(first, ratios)
    for has in (first, *later):
        new = by_kubelet(before, **has)
        # Amounts that the kubelet has by chance as they are shown cannot be known from ours.
        assume(shown(new) != shown(before) or has == first)
        kept = written(new, before)
        assert amounts(raw(kept)) == amounts(has)
        assert all(shown(kept)[name] >= amount for name, amount in amounts(has).items())
        # Asked again about what it has made of this write, and about one that changes nothing.
        assert written(kept, before) == kept
        assert written(kept, kept) == kept
        before = kept
    metadata = {"annotations": {ANNOTATION_RAW_ALLOCATABLE: json.dumps(raw(before))}}
    off = {**before, "metadata": metadata}
    assert shown(written(off, off)) == amounts(has)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=5,
)
SAID = JSON | JSON.map(json.dumps) | st.just(BOTH)


def anything() -> st.SearchStrategy[Any]:
    annotations = st.fixed_dictionaries(
        {}, optional={ANNOTATION_AMPLIFICATION_RATIO: SAID, ANNOTATION_RAW_ALLOCATABLE: SAID}
    )
    allocatable = st.fixed_dictionaries({}, optional={"cpu": JSON | CPUS, "memory": JSON | BYTES})
    return st.fixed_dictionaries(
        {},
        optional={
            "metadata": JSON | st.fixed_dictionaries({"annotations": JSON | annotations}),
            "status": JSON | st.fixed_dictionaries({"allocatable": JSON | allocatable}),
        },
    )


@given(anything(), anything(), st.sampled_from(AdmissionOperation))
def test_nothing_that_a_node_says_is_refused(
    new: Any, old: Any, operation: AdmissionOperation
) -> None:
    assert not asked(new, old, operation).refusal
