from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_kube.protocol.resources import RECOMMENDATIONS
from koord_manager.recommendation.core.target import RecommendationTarget
from koord_manager.resize.core import pods, policy, record
from koord_manager.resize.core.sources import ResizeSource, SourceIndex
from koord_manager.resize.core.view import ResizeView
from koord_manager.resize.webhook.initial import mutated
from koord_model.keys import CPU, LABEL_QOS

NOW = 1000.0
SOURCE = ResizeSource(
    RECOMMENDATIONS,
    "shop",
    "web",
    target=RecommendationTarget("shop", "Deployment", "web"),
    policy=policy.parse('{"mode": "initial", "shadow": false}'),
    recommended={"c": {CPU: 500}},
)


def pod(**labels: str) -> dict[str, Any]:
    owner = {"kind": "ReplicaSet", "name": "web-5", "controller": True}
    labels = {"pod-template-hash": "5", **labels}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    meta = {"generateName": "web-5-", "labels": labels, "ownerReferences": [owner]}
    return {"metadata": meta, "spec": {"containers": [container]}}


def create(given: dict[str, Any], source: ResizeSource) -> tuple[dict[str, Any], list[str]]:
    index, warnings = SourceIndex(), list[str]()
    index.put(source.resource, source.key, source)
    return mutated(given, "shop", ResizeView(index, lambda: NOW), warnings), warnings


def test_a_new_pod_gets_what_is_recommended_and_a_record() -> None:
    found, warnings = create(pod(), SOURCE)
    [container] = found["spec"]["containers"]
    assert container == {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}
    known = record.read(pods.read(found))
    assert known is not None
    assert (known.before["c"].requests, known.at) == ({CPU: 1000}, 0.0)
    assert warnings == []


@pytest.mark.parametrize(
    ("given", "source"),
    [
        (pod(), replace(SOURCE, policy=policy.parse('{"mode": "inPlace", "shadow": false}'))),
        (pod(), replace(SOURCE, recommended={"d": {CPU: 500}})),
        (pod(), replace(SOURCE, updated=NOW - 7200)),
        (pod(**{LABEL_QOS: "BE"}), SOURCE),
        (pod(**{"pod-template-hash": "6"}), SOURCE),
    ],
)
def test_other_pods_stay_as_they_came(given: dict[str, Any], source: ResizeSource) -> None:
    assert create(given, source) == (given, [])


def test_shadow_mode_only_says_it() -> None:
    given = pod()
    found, [warning] = create(given, replace(SOURCE, policy=policy.parse('{"mode": "initial"}')))
    assert found == given
    assert warning == "Recommendation shop/web in shadow mode would set c: cpu 1 → 500m"
