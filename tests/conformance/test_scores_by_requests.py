"""NodeResourcesFitPlus and ScarceResourceAvoidance, against Koordinator's own."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from koord_scheduler.config.builders import BUILDERS
from koord_scheduler.config.plugin_args import AllPluginArgs
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pod import placed_usage
from koord_scheduler.state.pod_class import pod_class

from tests.conformance.vectors import Fields, Object, Vector, replay

NAMES = ("NodeResourcesFitPlus", "ScarceResourceAvoidance")


def ours(vector: Vector) -> Fields:
    given, nodes = vector.given, ClusterState(length=1)
    for document in given["nodes"]:
        nodes.set(read_node(as_json(document)))
    for document in given["assigned"]:
        pod = read_pod(as_json(document))
        nodes.add_pod(pod.spec.node_name, placed_usage(pod, nodes))
    both = dict(zip(NAMES, (given["fitPlus"], given["scarce"]), strict=True))
    args = msgspec.convert(both, AllPluginArgs)
    rows = np.array([nodes.row(one["metadata"]["name"]) for one in given["nodes"]])
    found: Object = {}
    for place, document in enumerate(given["pods"]):
        waiting = pod_class(read_pod(as_json(document)))
        for name in NAMES:
            score = BUILDERS[name](args).score(waiting, nodes)
            assert score is not None
            for row, one in zip(rows, score(rows), strict=True):
                found[f"{place} {nodes.name(row)} {name}"] = float(one)
    return found


def as_json(document: Any) -> bytes:
    return msgspec.json.encode(document)


def theirs(recorded: Object) -> Fields:
    return {
        f"{place} {node} {name}": score
        for place, nodes in enumerate(recorded["pods"])
        for node, scores in nodes.items()
        for name, score in zip(NAMES, scores, strict=True)
    }


def requests_of_whole_pods(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Koordinator adds up init containers in their order, and forgets requests of a whole pod."""
    spec = vector.given["pods"][0]["spec"]
    is_special = "initContainers" in spec or "resources" in spec
    return is_special and field.endswith("NodeResourcesFitPlus") and field in here


def test_scores_are_those_of_koordinator() -> None:
    replay("scores_by_requests", ours, theirs, (requests_of_whole_pods,))
