"""The upstream descheduler's plugins, against upstream's: who is evicted, and who may be."""

from __future__ import annotations

import numpy as np
from koord_descheduler.config.plugin_catalogue import own_plugins
from koord_descheduler.framework.balancing.pool_loads import Audience
from koord_descheduler.plugin import DeschedulerPlugin
from koord_descheduler.plugins.high_node_utilization import HighNodeUtilization
from koord_descheduler.plugins.low_node_utilization import LowNodeUtilization
from koord_scheduler.arguments.problems import SchedulerConfigError, convert, refuse_if

from tests.conformance.descheduling import AskedRound
from tests.conformance.vectors import Fields, Object, Vector, replay

REFUSED: Fields = {"refused": True}
ENDED = ("Failed", "Succeeded")
SYSTEM_CRITICAL = 2_000_000_000


def made(name: str, args: Object) -> DeschedulerPlugin:
    kind = own_plugins()[name]
    converted = convert(args, kind.Args)
    refuse_if(converted.problems(""))
    return kind(converted)


def evicted(vector: Vector) -> Fields:
    given = vector.given
    try:
        evictor = made("DefaultEvictor", given.get("evictor", {}))
        plugin = made(given["plugin"], given["args"])
    except SchedulerConfigError:
        return REFUSED
    cluster = AskedRound(given, [evictor])
    cluster.deschedule(plugin)
    return dict.fromkeys(cluster.asked, True)


def recorded_evictions(recorded: Object) -> Fields:
    if "refused" in recorded:
        return REFUSED
    [pods] = recorded["outcomes"]
    return dict.fromkeys(pods, True)


def pod_of(vector: Vector, key: str) -> Object:
    namespace, _, name = key.partition("/")
    for pod in vector.given["pods"]:
        if (pod["metadata"]["namespace"], pod["metadata"]["name"]) == (namespace, name):
            return dict(pod)
    return {}


def pods_that_nothing_evicts_stay(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Upstream evicts them if an argument, or the annotation ``evict``, asks for it."""
    pod = pod_of(vector, field)
    if not pod or here.get(field):
        return False
    metadata = pod["metadata"]
    annotations = metadata.get("annotations", {})
    return (
        "kubernetes.io/config.mirror" in annotations
        or annotations.get("kubernetes.io/config.source", "api") != "api"
        or "deletionTimestamp" in metadata
        or any(owner["kind"] == "DaemonSet" for owner in metadata.get("ownerReferences", ()))
        or pod["spec"].get("priority", 0) >= SYSTEM_CRITICAL
    )


def pods_that_ended_are_no_replicas(
    vector: Vector, field: str, here: Fields, there: Fields
) -> bool:
    """Upstream counts them for ``minReplicas``."""
    pod, least = pod_of(vector, field), vector.given.get("evictor", {}).get("minReplicas", 0)
    if not pod or here.get(field):
        return False
    owners = pod["metadata"].get("ownerReferences", ())
    copies = [
        one for one in vector.given["pods"] if one["metadata"].get("ownerReferences") == owners
    ]
    live = [one for one in copies if one["status"]["phase"] not in ENDED]
    return bool(owners) and len(live) < least <= len(copies)


def pods_that_ended_need_no_place(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """With ``nodeFit`` upstream leaves them where they are."""
    pod = pod_of(vector, field)
    return (
        bool(pod and here.get(field))
        and pod["status"]["phase"] in ENDED
        and "nodeFit" in vector.given["evictor"]
    )


def node_fit_is_the_schedulers(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Upstream looks at fewer reasons that keep a pod off a node: at no volumes and claims."""
    pod = pod_of(vector, field)
    needs = bool(pod) and ("volumes" in pod["spec"] or "resourceClaims" in pod["spec"])
    return needs and not here.get(field) and "nodeFit" in vector.given.get("evictor", {})


def test_the_same_pods_are_evicted() -> None:
    replay(
        "descheduler_pods",
        evicted,
        recorded_evictions,
        (
            pods_that_nothing_evicts_stay,
            pods_that_ended_are_no_replicas,
            pods_that_ended_need_no_place,
            node_fit_is_the_schedulers,
        ),
    )


def node_classes(vector: Vector) -> Fields:
    given = vector.given
    try:
        made("DefaultEvictor", given.get("evictor", {}))
        plugin = made(given["plugin"], given["args"])
    except SchedulerConfigError:
        return REFUSED
    assert isinstance(plugin, (LowNodeUtilization, HighNodeUtilization))
    loads = plugin.loads(AskedRound(given))
    low, high = loads.low(Audience.NODE), loads.schedulable & ~loads.low(Audience.NODE)
    if isinstance(plugin, LowNodeUtilization):
        classes = loads.classes()
        low, high = classes.targets[Audience.NODE], classes.sources[Audience.NODE]
    found = {loads.names[row]: "overutilized" for row in np.flatnonzero(high)}
    return found | {loads.names[row]: "underutilized" for row in np.flatnonzero(low)}


def recorded_classes(recorded: Object) -> Fields:
    return REFUSED if "refused" in recorded else dict(recorded.get("classes", {}))


def test_nodes_have_the_same_classes() -> None:
    replay("descheduler_node_utilization", node_classes, recorded_classes)
