"""What is shown of predictions and their models."""

from __future__ import annotations

import json

from koord_prediction.amount import ResourceAmount
from koord_prediction.peak import PredictedPeak
from koordlet.http_api.documents.predictions import prediction_document
from koordlet.prediction.training_result import TrainingResult

from tests.support.observed import GIB, NOW, PODS, ObservedNode, busy_node


def test_predictors_and_the_nodes_models() -> None:
    found = prediction_document(busy_node(0).observed())
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["trained_at"] == NOW - 40
    assert found["predictors"]["minPredictor"] == {
        "peak": {"cpu": 11.2, "memory": 24 * GIB},
        "reclaimable": {"cpu": 1.5, "memory": 2 * GIB},
    }
    assert [one["item"] for one in found["models"]] == [
        *("node", "sys", "koord-prod", "koord-mid", "koord-batch", "koord-free", "none")
    ]
    percentiles = {"p60": 8.4, "p90": 12.6, "p95": 13.3, "p98": 13.72, "max": 14.0}
    assert found["models"][0]["cpu"] == percentiles
    assert found["models"][0]["memory"]["max"] == 14 * GIB


def test_pods() -> None:
    pods = {one["name"]: one for one in prediction_document(busy_node(0).observed())["pods"]}
    assert pods.keys() == {one.pod.name for one in PODS}
    spark = pods["spark-exec-17"]
    assert (spark["namespace"], spark["qos"], spark["cold"]) == ("batch", "BE", False)
    assert (spark["cpu_request"], spark["memory_request"]) == (3.0, 4 * GIB)
    assert spark["cpu"]["max"] == 5.0
    assert pods["web-7c9d8b5f4-x2x9k"]["cold"]
    assert pods["web-7c9d8b5f4-x2x9k"]["cpu"], "one that is too young has a model all the same"
    assert (pods["node-exporter-j4x8w"]["cold"], pods["node-exporter-j4x8w"]["cpu"]) == (True, {})


def test_before_anything_is_learnt_and_who_is_gone() -> None:
    found = prediction_document(ObservedNode(pods=PODS[:1]).observed())
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["at"], found["trained_at"]) == (NOW, None)
    assert (found["predictors"], found["models"]) == ({}, [])
    [pod] = found["pods"]
    assert (pod["cpu"], pod["memory"], pod["cold"]) == ({}, {}, False)
    assert (pod["cpu_request"], pod["memory_request"]) == (2.0, 3 * GIB)
    peak = PredictedPeak(ResourceAmount(1.00004, 2.4), None)
    gone = {"uid-gone": {"p95": ResourceAmount(1, 1)}}
    training = TrainingResult(NOW, gone, frozenset({"uid-gone"}))
    node = ObservedNode(predictions={"minPredictor": peak}, training=training)
    found = prediction_document(node.observed())
    shown = {"peak": {"cpu": 1.0, "memory": 2}, "reclaimable": None}
    assert found["predictors"] == {"minPredictor": shown}
    assert (found["models"], found["pods"]) == ([], [])
