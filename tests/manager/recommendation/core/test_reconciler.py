from __future__ import annotations

import json
from typing import Any

import pytest
from koord_manager.recommendation.core.recommender import (
    ContainerRecommendation,
    RecommendationPolicy,
    Recommender,
)
from koord_manager.recommendation.core.reconciler import (
    CONDITION,
    RecommendationResult,
    encode_checkpoints,
    read,
    status,
    status_before,
)
from koord_model.decision import Decision
from koord_model.keys import ANNOTATION_RECOMMENDATION_CHECKPOINT
from koord_prediction.amount import ResourceAmount

NOW = 1_795_168_800.0
MIB = 1 << 20
ADVICE = ContainerRecommendation(
    "web",
    ResourceAmount(0.25, 300 * MIB),
    ResourceAmount(1.5, 512 * MIB),
    (Decision("CPU 0.25 cores"),),
)


def condition(document: dict[str, Any]) -> dict[str, Any]:
    (found,) = document["conditions"]
    assert found["type"] == CONDITION
    return dict(found)


def test_requests_and_limits_by_container() -> None:
    found = status(RecommendationResult([ADVICE], pods=3), {}, NOW)
    assert found["podStatus"]["containerStatuses"] == [
        {
            "containerName": "web",
            "resources": {
                "cpu": "250m",
                "memory": "300Mi",
                "limits.cpu": "1500m",
                "limits.memory": "512Mi",
            },
        }
    ]
    assert condition(found) == {
        "type": CONDITION,
        "status": "True",
        "reason": "Recommended",
        "message": "of 3 pods; web: CPU 0.25 cores",
        "lastTransitionTime": found["updateTime"],
    }


@pytest.mark.parametrize(
    ("finding", "reason", "message"),
    [
        (RecommendationResult(problem="spec is missing"), "TargetUnusable", "spec is missing"),
        (RecommendationResult(), "NoPods", "no pod of the target is known"),
        (
            RecommendationResult(pods=2),
            "NoUsage",
            "no usage of its 2 pods' containers has been reported",
        ),
        (
            RecommendationResult(pods=2, history=5400, needed=86400),
            "TooLittleHistory",
            "usage of 1.5 h is known of 24 h",
        ),
    ],
)
def test_why_nothing_is_recommended(
    finding: RecommendationResult, reason: str, message: str
) -> None:
    said = condition(status(finding, {}, NOW))
    assert (said["status"], said["reason"], said["message"]) == ("False", reason, message)


def test_what_was_recommended_stays_and_so_does_the_time() -> None:
    first = status(RecommendationResult([ADVICE], pods=3), {}, NOW)
    second = status(RecommendationResult([ADVICE], pods=4), first, NOW + 60)
    assert condition(second)["lastTransitionTime"] == first["updateTime"] != second["updateTime"]
    third = status(RecommendationResult(), second, NOW + 120)
    assert third["podStatus"] == first["podStatus"]
    assert condition(third)["lastTransitionTime"] == third["updateTime"]


def test_what_was_learnt_is_kept_in_an_annotation() -> None:
    made = Recommender(RecommendationPolicy(least_history=0))
    for minute in range(50):
        made.learn(
            [("w", "web", ResourceAmount(1, MIB)), ("w", "side", ResourceAmount(2, MIB))],
            NOW + 60 * minute,
        )
    text = encode_checkpoints(made.checkpoints("w"))
    assert len(text) < 2000
    document = {"metadata": {"annotations": {ANNOTATION_RECOMMENDATION_CHECKPOINT: text}}}
    again = Recommender(RecommendationPolicy(least_history=0))
    for name, (learning, model) in read(document).items():
        again.restore("w", name, learning, model, NOW + 3600)
    asked = ("w", NOW + 3600, ["web", "side"])
    assert again.advise(*asked) == made.advise(*asked)
    assert read({"metadata": {}}) == {}


@pytest.mark.parametrize("text", ["{", '{"a": {}}', '{"a": 7}', "[" * 5000])
def test_an_annotation_that_cannot_be_read(text: str) -> None:
    document = {"metadata": {"annotations": {ANNOTATION_RECOMMENDATION_CHECKPOINT: text}}}
    with pytest.raises(ValueError, match=r"pykoord-checkpoint: .* \(learnt anew\)"):
        read(document)


@pytest.mark.parametrize("name", ["since", "samples", "floor", "killed"])
@pytest.mark.parametrize("value", [-1, 1e30])
def test_what_nobody_can_have_learnt_is_not_believed(name: str, value: float) -> None:
    made = Recommender(RecommendationPolicy(least_history=0))
    made.learn([("w", "web", ResourceAmount(1, MIB))], NOW)
    document = json.loads(encode_checkpoints(made.checkpoints("w")))
    document["web"][name] = value
    annotations = {ANNOTATION_RECOMMENDATION_CHECKPOINT: json.dumps(document)}
    again = Recommender(RecommendationPolicy(least_history=0))
    try:
        (learning, model) = read({"metadata": {"annotations": annotations}})["web"]
        again.restore("w", "web", learning, model, NOW)
    except ValueError:
        return
    assert again.advise("w", NOW, ["web"]) == made.advise("w", NOW, ["web"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        *((odd, {}) for odd in (7, "x", [], True, None)),
        *(({"conditions": odd}, {}) for odd in (7, [7], [None])),
        *((good, good) for good in ({}, {"podStatus": {}}, {"conditions": [{"type": "x"}]})),
    ],
)
def test_a_status_of_another_shape_is_written_anew(given: Any, expected: Any) -> None:
    assert status_before({"status": given}) == expected
    assert status_before({}) == {}
