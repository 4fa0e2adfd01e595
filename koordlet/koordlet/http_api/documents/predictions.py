"""Predictions and their models: of each pod, and of parts of the node. No IO."""

from __future__ import annotations

from collections.abc import Mapping

from koord_model.priority import PriorityClass
from koord_prediction.amount import ResourceAmount
from koord_prediction.models import NODE, SYS, item_uid
from koord_prediction.peak import PredictedPeak

from koordlet.http_api.documents.node import Document, DocumentSources, cores, whole
from koordlet.http_api.documents.top import asked_cpu, asked_memory, class_of
from koordlet.prediction.training_result import TrainingResult
from koordlet.states_informer.state.pod_inventory import Demand, PodRecord

_ITEMS = {
    NODE: "node",
    SYS: "sys",
    **{item_uid(priority): priority or "none" for priority in PriorityClass},
}
"""The node's models by UID; "none" are the pods without a priority class."""


def prediction_document(observed: DocumentSources) -> Document:
    """The predictors' answers, and the models' percentiles as of the last training."""
    training = observed.training()
    return {
        "node": observed.node,
        "at": observed.clock(),
        "trained_at": training.at or None,
        "predictors": {
            name: _said(prediction) for name, prediction in observed.predictions().items()
        },
        "models": [
            {"item": item, **_percentiles(training.models[uid])}
            for uid, item in _ITEMS.items()
            if uid in training.models
        ],
        "pods": [_pod(record, training) for record in observed.pods()],
    }


def _said(predicted: PredictedPeak) -> Document:
    spare = predicted.reclaimable
    return {
        "peak": _amount(predicted.peak),
        "reclaimable": None if spare is None else _amount(spare),
    }


def _pod(record: PodRecord, training: TrainingResult) -> Document:
    pod, demand = record.pod, record.demand or Demand()
    return {
        "uid": pod.uid,
        "name": pod.name,
        "namespace": pod.namespace,
        "qos": class_of(pod).value,
        "cold": pod.uid in training.cold,
        "cpu_request": asked_cpu(demand.requests),
        "memory_request": asked_memory(demand.requests),
        **_percentiles(training.models.get(pod.uid, {})),
    }


def _percentiles(model: Mapping[str, ResourceAmount]) -> Document:
    """By resource and name ("p60" to "max"); empty without a model."""
    return {
        "cpu": {name: cores(amount.cpu) for name, amount in model.items()},
        "memory": {name: whole(amount.memory) for name, amount in model.items()},
    }


def _amount(amount: ResourceAmount) -> Document:
    return {"cpu": cores(amount.cpu), "memory": whole(amount.memory)}
