from __future__ import annotations

from typing import Any

import pytest
from koord_manager.recommendation.core.pods import RecommendationPod
from koord_manager.recommendation.core.target import TargetCandidates, parse

POD = RecommendationPod(
    "shop", "web-1", {"app": "web"}, "n1", (("ReplicaSet", "web-7d"), ("Deployment", "web"))
)


def document(**target: Any) -> dict[str, Any]:
    return {"spec": {"target": target}}


@pytest.mark.parametrize(
    ("target", "matches"),
    [
        ({"type": "workload", "workload": {"kind": "Deployment", "name": "web"}}, True),
        ({"type": "workload", "workload": {"kind": "ReplicaSet", "name": "web-7d"}}, True),
        ({"type": "workload", "workload": {"kind": "StatefulSet", "name": "web"}}, False),
        ({"type": "workload", "workload": {"kind": "Deployment", "name": "we"}}, False),
        ({"type": "podSelector", "podSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"type": "podSelector", "podSelector": {"matchLabels": {"app": "db"}}}, False),
    ],
)
def test_which_pods_are_meant(target: dict[str, Any], matches: bool) -> None:
    other = RecommendationPod("shop", "db-1")
    found = TargetCandidates([other, POD]).matching(parse(document(**target), "shop"))
    assert found == ([POD] if matches else [])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "spec is missing; expected an object"),
        ({"spec": {}}, "spec.target is missing; expected an object"),
        (document(type="pods"), 'spec.target.type is "pods"; expected "workload" or "podSelector"'),
        (document(type="workload"), "spec.target.workload is missing; expected an object"),
        (
            document(type="workload", workload={"kind": "Deployment"}),
            "spec.target.workload.name is missing; expected text",
        ),
        (
            document(type="podSelector", podSelector={"labels": {}}),
            "spec.target.podSelector.labels is unknown",
        ),
    ],
)
def test_what_cannot_be_read(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=r"^spec") as caught:
        parse(given, "shop")
    assert said in str(caught.value)
