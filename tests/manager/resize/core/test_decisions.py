from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from koord_kube.protocol.resources import RECOMMENDATIONS
from koord_manager.recommendation.core.target import RecommendationTarget
from koord_manager.resize.core import (
    decisions,
    documents,
    floors,
    policy,
    record,
    rollout_state,
    sources,
)
from koord_manager.resize.core.decisions import ResizeAction, decide, paced
from koord_manager.resize.core.desired import ResizableResources
from koord_manager.resize.core.pods import ContainerFailure, ResizePod
from koord_manager.resize.core.record import ResizeRecord
from koord_manager.resize.core.sources import ResizeSource, SourceIndex
from koord_model.keys import CPU, MEMORY

GIB = 1 << 30
NOW = 1_795_168_800.0
BEFORE = ResizableResources({CPU: 1000, MEMORY: GIB}, {MEMORY: 2 * GIB})
AFTER = ResizableResources({CPU: 500, MEMORY: GIB // 2}, {MEMORY: GIB})
WEB = (("ReplicaSet", "web-1"), ("Deployment", "web"))
POD = ResizePod("shop", "web-0", workloads=WEB, containers={"c": BEFORE})
TARGET = RecommendationTarget("shop", "Deployment", "web")
LIVE = policy.parse('{"mode": "inPlace", "shadow": false}')
SOURCE = ResizeSource(
    *(RECOMMENDATIONS, "shop", "web", "u", TARGET, LIVE),
    recommended={"c": {CPU: 500, MEMORY: GIB // 2}},
    updated=NOW - 60,
)
DONE = ResizeRecord({"c": BEFORE}, {"c": AFTER}, NOW - 60)


def resized(**more: Any) -> ResizePod:
    return replace(POD, containers={"c": AFTER}, record=record.encode(DONE), **more)


@pytest.mark.parametrize(
    ("pod", "source", "action", "reason"),
    [
        (POD, SOURCE, "resize", "by Recommendation shop/web"),
        (replace(POD, record=record.encode(DONE)), SOURCE, "resize", "by"),  # its leader was killed
        (POD, replace(SOURCE, policy=replace(LIVE, shadow=True)), "shadow", "shadow"),
        (POD, replace(SOURCE, policy=policy.parse('{"mode": "initial"}')), "shadow", "created"),
        (POD, replace(SOURCE, policy=policy.parse('{"mode": "off"}')), "none", "its mode is off"),
        (POD, replace(SOURCE, updated=NOW - 7200), "none", "its recommendation is 2.0 h old"),
        (POD, replace(SOURCE, recommended={}), "none", "nothing is recommended yet"),
        (POD, replace(SOURCE, problem="it is bad"), "none", "it is bad"),
        (replace(POD, refusal="it is LSR"), SOURCE, "none", "it is LSR"),
        (replace(POD, pending="it starts"), SOURCE, "wait", "it starts"),
        (replace(POD, restarts=frozenset({("c", CPU)})), SOURCE, "none", "c would restart"),
        (resized(), SOURCE, "none", "what is recommended"),
        (
            resized(failures=(ContainerFailure("c", NOW - 1, ran_out_of_memory=True),)),
            replace(SOURCE, problem="it is bad"),
            "undo",
            "c ran out of memory 59 s after it got less",
        ),
    ],
)
def test_what_becomes_of_a_pod(
    pod: ResizePod, source: ResizeSource, action: str, reason: str
) -> None:
    decision = decide(pod, source, NOW)
    assert decision.action.value == action
    assert reason in decision.reason
    memory_back = replace(BEFORE, requests={**BEFORE.requests, CPU: 500})
    expected = {"resize": AFTER, "shadow": AFTER, "wait": AFTER, "undo": memory_back}
    if action != "none":
        assert decision.resources == {"c": expected[action]}


def test_what_is_undone_is_not_lowered_again_for_a_day() -> None:
    pod = resized(failures=(ContainerFailure("c", NOW - 1, ran_out_of_memory=True),))
    undone = decisions.undone(decide(pod, SOURCE, NOW))
    assert undone == {"c": {MEMORY: GIB, "limits.memory": 2 * GIB}}
    held = floors.read(floors.encode(floors.with_undone({}, undone, NOW)))
    again = replace(SOURCE, floors=held)
    assert decide(POD, again, NOW).resources["c"].requests == {CPU: 500, MEMORY: GIB}
    later = NOW + floors.FLOOR_SECONDS
    assert decide(POD, replace(again, updated=later), later).resources == {"c": AFTER}


def test_one_pod_first_and_then_a_tenth() -> None:
    def acting(pods: list[ResizePod]) -> list[bool]:
        found = paced([decide(pod, SOURCE, NOW) for pod in pods], NOW)
        return [decision.action is ResizeAction.RESIZE for decision in found]

    assert acting([POD] * 3) == [True, False, False]
    assert acting([resized(), POD, POD]) == [False] * 3
    assert sum(acting([POD] * 40)) == 4


def test_an_event_names_the_change() -> None:
    line = str(decide(POD, SOURCE, NOW))
    change = "c: cpu 1 → 500m, memory 1Gi → 512Mi, limit of memory 2Gi → 1Gi"
    assert line == f"{change}: by Recommendation shop/web"


def test_a_document_keeps_what_is_not_resized() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}
    pod = {"spec": {"containers": [container, {"name": "d"}]}}
    found = documents.with_resources(pod, {"c": ResizableResources({CPU: 500})})
    assert found["spec"]["containers"] == [
        {"name": "c", "resources": {"requests": {"cpu": "500m", "example.com/gpu": "1"}}},
        {"name": "d"},
    ]


@pytest.mark.parametrize(
    ("kind", "spec", "status", "reason"),
    [
        ("Deployment", {"replicas": 2}, "1 2 2 2", ""),
        ("Deployment", {"replicas": 2}, "0 2 2 2", "newest specification"),
        ("Deployment", {"replicas": 2}, "1 3 1 2", "1 of 2 pods are updated"),
        ("Deployment", {"replicas": 2}, "1 3 2 2", "1 pods of before"),
        ("Deployment", {}, "1 1 1 0", "0 of 1 pods are available"),
    ],
)
def test_rollouts_of_deployments(kind: str, spec: dict[str, Any], status: str, reason: str) -> None:
    names = ("observedGeneration", "replicas", "updatedReplicas", "availableReplicas")
    numbers = dict(zip(names, map(int, status.split()), strict=True))
    found = rollout_state.rollout(
        kind, {"metadata": {"generation": 1}, "spec": spec, "status": numbers}
    )
    assert reason in found
    assert bool(reason) == bool(found)


def test_a_stateful_set_with_a_partition_is_being_rolled_out() -> None:
    status = {"readyReplicas": 3, "currentRevision": "a", "updateRevision": "b"}
    document = {"spec": {"replicas": 3}, "status": {**status, "updatedReplicas": 1}}
    assert rollout_state.rollout("StatefulSet", document) == "1 of 3 pods are updated"
    settled = {"spec": {"replicas": 3}, "status": {**status, "updateRevision": "a"}}
    assert rollout_state.rollout("StatefulSet", settled) == ""


def test_objects_with_the_annotation() -> None:
    meta = {"name": "web", "namespace": "shop"}
    annotated = {**meta, "annotations": {policy.ANNOTATION: '{"mode": "inPlace"}'}}
    reference = {"kind": "Deployment", "name": "web"}
    off = {"updateMode": "Off"}
    ours = {"targetRef": reference, "updatePolicy": off, "recommenders": [{"name": "pykoord"}]}
    target = {"containerName": "c", "target": {"cpu": "500m", "memory": "512Mi"}}
    status = {"recommendation": {"containerRecommendations": [target]}}
    vpa = sources.read_vpa(
        msgspec.json.encode({"metadata": annotated, "spec": ours, "status": status})
    )
    assert vpa is not None
    assert vpa.problem == ""
    assert vpa.recommended == SOURCE.recommended
    workload = {"type": "workload", "workload": reference}
    plain = msgspec.json.encode({"metadata": meta, "spec": {"target": workload}})
    assert sources.read_recommendation(plain) is None
    bad = sources.read_recommendation(
        msgspec.json.encode({"metadata": annotated, "spec": {"target": {"type": "all"}}})
    )
    assert bad is not None
    assert 'spec.target.type is "all"' in bad.problem
    index = SourceIndex()
    for source in (vpa, SOURCE):
        index.put(source.resource, source.key, source)
    assert index.of(POD) is SOURCE  # of several the first
    index.put(RECOMMENDATIONS, "shop/web", None)
    assert index.of(POD) is vpa
    assert index.of(replace(POD, workloads=())) is None
