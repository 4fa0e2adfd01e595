"""DefaultEvictor, against the upstream descheduler's own."""

from __future__ import annotations

from typing import Any

import msgspec
from koord_descheduler.plugins.default_evictor.args import DefaultEvictorArgs
from koord_descheduler.plugins.default_evictor.plugin import DefaultEvictor

from tests.conformance.descheduling import AskedRound
from tests.conformance.vectors import Fields, Object, Vector, replay


def ours(vector: Vector) -> Fields:
    try:
        args = msgspec.convert(vector.given["evictor"], DefaultEvictorArgs)
    except msgspec.ValidationError:
        return {"refused": True}
    if [*args.problems("args")]:
        return {"refused": True}
    evictor = DefaultEvictor(args)
    asked = AskedRound(vector.given, [evictor])
    found: Object = {}
    for key, pod in asked.cluster.pods.items():
        found[f"{key} filter"] = not asked.obstacle(pod.view)[1]
        mark = asked.virtual.mark()
        asked.virtual.take(pod)
        found[f"{key} preEviction"] = not evictor.pre_eviction_filter(pod.view, asked)
        asked.virtual.undo(mark)
    return found


def theirs(recorded: Object) -> Fields:
    if "refused" in recorded:
        return {"refused": True}
    points = ("filter", "preEviction")
    return {f"{pod} {point}": may for point in points for pod, may in recorded[point].items()}


def document(vector: Vector, field: str) -> Any:
    """The pod that a field is about."""
    namespace, _, name = field.partition(" ")[0].partition("/")
    pods = {
        (pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in vector.given["pods"]
    }
    return pods.get((namespace, name), {"metadata": {}, "status": {"phase": ""}})


def refused_by_name(vector: Vector, _field: str, here: Fields, there: Fields) -> bool:
    """Nothing evicts system-critical pods and those of DaemonSets; classes are not known at load.

    Those are PriorityClasses of priorityThreshold, and protectedStorageClasses.
    """
    return "refused" in here and "refused" not in there


def never_evicted(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Nothing evicts such a pod; upstream's annotation makes it."""
    metadata = document(vector, field)["metadata"]
    asks = "descheduler.alpha.kubernetes.io/evict" in metadata.get("annotations", {})
    return asks and field.endswith(" filter") and here.get(field) is False


def running_replicas(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Pods that ended are no replicas."""
    is_replicas = "minReplicas" in vector.given["evictor"] and field.endswith(" filter")
    return is_replicas and here.get(field) is False


def the_schedulers_fit(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A pod has to fit as the scheduler sees it: volumes, claims, the anti-affinity of others.

    One that tolerates it fits on a cordoned node.
    """
    is_fit = "nodeFit" in vector.given["evictor"] and field.endswith(" preEviction")
    tolerations = document(vector, field).get("spec", {}).get("tolerations", ())
    return is_fit and (here.get(field) is False or {"operator": "Exists"} in tolerations)


def ended_pods_need_no_node(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A pod that ended is removed, wherever others fit."""
    has_ended = document(vector, field)["status"]["phase"] in ("Failed", "Succeeded")
    return has_ended and field.endswith(" preEviction") and here.get(field) is True


def one_controller(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Of the owners of a pod the first that controls it counts; the API allows no other."""
    several = len(document(vector, field)["metadata"].get("ownerReferences", ())) > 1
    return several and field.endswith(" filter") and here.get(field) is True


def test_pods_may_go_as_upstream_says() -> None:
    differences = (
        refused_by_name,
        never_evicted,
        running_replicas,
        the_schedulers_fit,
        ended_pods_need_no_node,
        one_controller,
    )
    replay("descheduler_default_evictor", ours, theirs, differences)
