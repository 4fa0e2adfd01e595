"""What prod pods may lend, against Koordinator's own predictors."""

from __future__ import annotations

from typing import Any

from koord_model.priority import priority_class_or_default
from koord_model.qos import KubeQoS
from koord_model.quantity import milli, whole
from koord_prediction.amount import ResourceAmount
from koord_prediction.peak import PeakPolicy, PodDemand, predict

from tests.conformance.vectors import Fields, Object, Vector, replay

NOW = 1_795_168_800.0


def ours(vector: Vector) -> dict[str, Any]:
    given = vector.given
    pods = [_demand(pod, age) for pod, age in zip(given["pods"], given["ages"], strict=True)]
    peaks = {
        uid: ResourceAmount(milli(one["p95"]["cpu"]) / 1000, whole(one["p98"]["memory"]))
        for uid, one in given["models"].items()
    }
    reported = given["node"]["status"].get("allocatable")
    allocatable = (
        ResourceAmount(milli(reported["cpu"]) / 1000, whole(reported["memory"]))
        if reported
        else None
    )
    rules = PeakPolicy(margin=given["margin"], cold_start=given["cold"])
    found = predict(pods, peaks, allocatable, NOW, rules).prod
    if found is None or found.reclaimable is None:
        return {}
    return {"cpu": int(found.reclaimable.cpu * 1000), "memory": int(found.reclaimable.memory)}


def _demand(pod: Object, age: float) -> PodDemand:
    metadata = pod["metadata"]
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    ended = pod["status"]["phase"] in ("Succeeded", "Failed")
    return PodDemand(
        uid=metadata["uid"],
        priority=priority_class_or_default(metadata["labels"], None, KubeQoS.BURSTABLE),
        request=ResourceAmount(milli(requests["cpu"]) / 1000, whole(requests["memory"])),
        started=NOW - age,
        ending="deletionTimestamp" in metadata or ended,
    )


def theirs(recorded: Object) -> dict[str, Any]:
    reported = recorded.get("reclaimable")
    return {"cpu": milli(reported["cpu"]), "memory": whole(reported["memory"])} if reported else {}


def cuts(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """There every peak is cut off to millicores and bytes, here only what is reported."""
    if field not in here or field not in there:
        return False
    return 0 < there[field] - here[field] <= len(vector.given["pods"]) + 2


DIFFERENCES = (cuts,)


def test_what_may_be_lent() -> None:
    replay("prediction", ours, theirs, DIFFERENCES, ())
