"""How pods without constraints of their own are spread, against kube-scheduler."""

from __future__ import annotations

import json

from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pod import placed_usage
from koord_scheduler.state.pod_class import pod_class

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay
from tests.support.scheduler_profile import default_plugins
from tests.support.workloads import set_workloads


def ours(vector: Vector) -> Fields:
    given, nodes = vector.given, ClusterState(length=1)
    waiting = pod_class(read_pod(json.dumps(given["pod"]).encode()))
    enabled = default_plugins({"PodTopologySpread": given["args"]})
    [plugin] = [one.plugin for one in enabled if one.plugin.name == "PodTopologySpread"]
    scores = ClassScores(waiting, nodes, [EnabledPlugin(plugin, True, 1)])
    for one in given["nodes"]:
        nodes.set(read_node(json.dumps(one).encode()))
    scores.totals(scores.feasible())  # before there are workloads
    set_workloads(nodes, given)
    for one in given["pods"]:
        pod = read_pod(json.dumps(one).encode())
        nodes.add_pod(pod.spec.node_name, placed_usage(pod, nodes))
    rows = scores.feasible()
    names = [nodes.name(int(row)) for row in rows]
    selector = nodes.workloads.selector(waiting.labels, waiting.controller)
    requirements = [(one.key, str(one.operator), one.values) for one in selector.requirements]
    return fields(
        {
            "requirements": requirements,
            "rejected": {one["metadata"]["name"] for one in given["nodes"]} - {*names},
            "scores": dict(zip(names, map(int, scores.totals(rows)), strict=True)),
        }
    )


def fields(recorded: Object) -> Fields:
    rows = [(key, operator, sorted(values)) for key, operator, values in recorded["requirements"]]
    return {
        "requirements": sorted(rows),
        "rejected": sorted(recorded["rejected"]),
        **leaves(recorded["scores"]),
    }


def test_pods_are_spread_by_default_as_kube_scheduler_does() -> None:
    replay("default_spread", ours, fields)
