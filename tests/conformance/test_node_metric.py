"""The status of a NodeMetric, against what Koordinator collects from the same samples."""

from __future__ import annotations

import itertools
from typing import Any

from koord_model.demand import Demand
from koord_model.keys import GPU_MEMORY
from koord_model.node_info import GPUs, SchedulableDevice
from koord_model.node_slo import HostApplication
from koord_model.pod import Pod
from koord_model.qos import QoSClass
from koord_model.quantity import milli, whole
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metric_cache.ring_cache import RingCache
from koordlet.metrics_reporter.documents.metric_policy import policy
from koordlet.metrics_reporter.documents.node_metric import NodeMetricInputs, build
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay

GPU_BYTES = 16 << 30

PARENTS = {"Guaranteed": "/kubepods/pod1", "Burstable": "/kubepods/burstable/pod1"}
BEST_EFFORT = "/kubepods/besteffort/pod1"


def ours(vector: Vector) -> dict[str, Any]:
    given = vector.given
    found, _ = policy(given["metric"])
    reclaimable = given.get("reclaimable")
    known = NodeMetricInputs(
        pods=tuple(map(_record, given["pods"])),
        host_applications=tuple(map(_application, given["slo"]["spec"]["hostApplications"])),
        gpus=GPUs(tuple(map(_gpu, given["gpus"]))),
        reclaimable=reclaimable
        and {"cpu": milli(reclaimable["cpu"]), "memory": whole(reclaimable["memory"])},
    )
    status = build(_cache(given["series"]), given["now"], found, known).status
    return flat(status or {})


def _cache(listed: list[Object]) -> RingCache:
    cache = RingCache(None, 0, print)
    samples = sorted(
        (one["from"] + place * one["step"], number, value)
        for number, one in enumerate(listed)
        for place, value in enumerate(one["values"])
        if value is not None
    )
    for at, group in itertools.groupby(samples, lambda one: one[0]):
        kept = [(listed[number], value) for _, number, value in group]
        cache.append(at, [Sample(Series(one["kind"], tuple(one["labels"])), v) for one, v in kept])
    assert cache.state().refused == 0
    return cache


def _record(pod: Object) -> PodRecord:
    meta = pod["metadata"]
    parent = PARENTS.get(pod["status"]["qosClass"], BEST_EFFORT)
    reported = Pod(
        meta["name"], meta["namespace"], meta["uid"], labels=meta["labels"], cgroup_parent=parent
    )
    return PodRecord(reported, demand=Demand(priority=pod["spec"].get("priority")))


def _application(app: Object) -> HostApplication:
    return HostApplication(app["name"], QoSClass(app["qos"]), app.get("priority", ""))


def _gpu(gpu: Object) -> SchedulableDevice:
    return SchedulableDevice("gpu", gpu["id"], gpu["minor"], {GPU_MEMORY: GPU_BYTES})


def flat(status: Object) -> dict[str, Any]:
    """The ends but for the time; amounts by value, in thousandths; pods and windows by name."""
    node = status.get("nodeMetric", {})
    pods, applications = (status.get(one) or () for one in ("podsMetric", "hostApplicationMetric"))
    reported = {
        **status,
        "nodeMetric": {
            name: {one["duration"]: one for one in part} if isinstance(part, list) else part
            for name, part in node.items()
        },
        "podsMetric": {f"{one['namespace']}/{one['name']}": one for one in pods},
        "hostApplicationMetric": {one["name"]: one for one in applications},
        "updateTime": "",
    }
    return {
        path: _end(path, end) for path, end in leaves(reported).items() if end not in ("", None)
    }


def _end(path: str, end: Any) -> Any:
    return milli(end) if ".resources." in path else end


def rounded(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Amounts are rounded, not cut off: samples of 32 bits may be a little below what was seen."""
    del vector
    if ".resources." not in field or field not in here or field not in there:
        return False
    return bool(here[field] - there[field] == (1 if field.endswith(".cpu") else 1000))


def health(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Devices say their health."""
    del vector
    return field.endswith(".health") and (here.get(field), there.get(field)) == (True, False)


def nothing_yet(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Before samples of the node and of its system there is no status."""
    del vector, field
    measured = ("nodeUsage", "systemUsage")
    return not here and not all(f"nodeMetric.{one}.resources.cpu" in there for one in measured)


DIFFERENCES = (rounded, health, nothing_yet)
DECISIONS = {
    "without page cache": "Where memory with page cache is not measured, it is reported without."
}
"""How inputs read otherwise; what Koordinator made of them, so read, is recorded too."""


def test_statuses() -> None:
    replay("node_metric", ours, flat, DIFFERENCES, DECISIONS)
