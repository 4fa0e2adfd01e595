"""Requests that write what became of one pod. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord_model.times import rfc3339

from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import PODS


def status_patch(key: str, uid: str, status: Mapping[str, Any]) -> Request:
    """Change the status of a pod; with a ``uid`` of the pod with that uid alone."""
    namespace, _, name = key.partition("/")
    body = {"metadata": {"uid": uid} if uid else {}, "status": status}
    return Request("PATCH", PODS, name, namespace, "status", body, is_strategic=True)


def annotations_patch(
    key: str,
    uid: str,
    annotations: Mapping[str, str | None],
    labels: Mapping[str, str] | None = None,
) -> Request:
    """Set annotations and labels of the pod with this uid alone; ``None`` removes one."""
    namespace, _, name = key.partition("/")
    metadata: dict[str, Any] = {"uid": uid, "annotations": annotations}
    if labels:
        metadata["labels"] = labels
    return Request("PATCH", PODS, name, namespace, body={"metadata": metadata})


def condition_patch(
    key: str, uid: str, condition: Mapping[str, Any], at: float | None = None
) -> Request:
    """Set a condition, which is so since ``at`` (seconds since the epoch) if it was another one."""
    since = {}
    if at is not None:
        since = {"lastTransitionTime": rfc3339(at)}
    return status_patch(key, uid, {"conditions": [{**condition, **since}]})
