"""LoadAwareScheduling, against Koordinator's own: which nodes, why not, scores and estimates."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from koord_scheduler.arguments.problems import SchedulerConfigError, convert, refuse_if
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugins.load_aware.args import LoadAwareSchedulingArgs
from koord_scheduler.plugins.load_aware.columns import NodeLoads
from koord_scheduler.plugins.load_aware.node_metric import read_node_metric
from koord_scheduler.plugins.load_aware.plugin import LoadAwareScheduling
from koord_scheduler.plugins.load_aware.pod_load import LOAD
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods
from koord_scheduler.state.pod_class import pod_class
from koord_scheduler.state.pod_reader import PodReader
from koord_scheduler.state.pod_usage import PlacedPod

from tests.conformance.vectors import Fields, Object, Vector, replay

REFUSED: Fields = {"refused": True}


def ours(vector: Vector) -> Fields:
    given = vector.given
    try:
        args = convert(given["args"], LoadAwareSchedulingArgs)
        refuse_if(args.problems(""))
    except SchedulerConfigError:
        return REFUSED
    settings = args.settings()
    plugin, nodes = LoadAwareScheduling(settings), ClusterState(length=1)
    plugin.prepare(nodes)
    fill(nodes, given)
    found: Object = {}
    for place, document in enumerate(given["pods"]):
        waiting = pod_class(read_pod(as_json(document)), nodes.features.values())
        estimate = nodes.use(NodeLoads).table(settings).estimator.usage(waiting.of(LOAD))
        by_name = zip(settings.resources, estimate, strict=True)
        found |= {f"{place} {name}": amount for name, amount in by_name if amount}
        rows = np.array([nodes.row(one["metadata"]["name"]) for one in given["nodes"]])
        can_run, score = plugin.filter(waiting, nodes), plugin.score(waiting, nodes)
        fits = can_run(rows) if can_run is not None else np.ones(len(rows), np.bool_)
        reasons = plugin.reasons(waiting, nodes, rows)
        assert score is not None
        for at, row in enumerate(rows):
            [why] = [one.text for one in reasons if one.rows[at]] or [""]
            assert fits[at] == (not why)
            found[f"{place} {nodes.name(row)} reject"] = why
            found[f"{place} {nodes.name(row)} score"] = float(score(rows)[at])
    return found


def fill(nodes: ClusterState, given: Object) -> None:
    """A cluster, of which half is known before the rest."""
    loads, placed, reader = nodes.use(NodeLoads), PlacedPods(nodes), PodReader(nodes)

    def place(documents: list[Any]) -> None:
        for document in documents:
            one = reader.read(as_json(document))
            placed.set(
                PlacedPod(
                    one.key, one.uid, one.node, one.priority, None, one.usage, times=one.times
                )
            )

    loads.set_epoch(float(given["now"]) - 1000)
    for document in given["nodes"][::2]:
        nodes.set(read_node(as_json(document)))
    place(given["assigned"][::2])
    for document in given["metrics"]:
        loads.set_report(document["metadata"]["name"], read_node_metric(as_json(document)))
    for document in given["nodes"]:
        nodes.set(read_node(as_json(document)))
    place(given["assigned"][1::2])
    loads.set_epoch(float(given["now"]))


def as_json(document: Any) -> bytes:
    return msgspec.json.encode(document)


def theirs(recorded: Object) -> Fields:
    if "pods" not in recorded:
        return REFUSED
    found: Object = {}
    for place, nodes in enumerate(recorded["pods"]):
        estimate = recorded["estimated"][place]
        found |= {f"{place} {name}": amount for name, amount in estimate.items() if amount}
        for name, one in nodes.items():
            reject = one.get("reject", "").removeprefix("Unschedulable: ")
            found[f"{place} {name} reject"] = reject
            found[f"{place} {name} score"] = one["score"]
    return found


def test_nodes_are_chosen_as_koordinator_does() -> None:
    replay("load_aware_scheduling", ours, theirs, (other_estimators, negative_prod_thresholds))


def other_estimators(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Koordinator takes its own one where it does not know the name."""
    return here == REFUSED and vector.given["args"].get("estimator", "") != ""


def negative_prod_thresholds(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """With Koordinator no production pod fits anywhere then."""
    per_cent = vector.given["args"].get("prodUsageThresholds", {})
    return here == REFUSED and min(per_cent.values(), default=0) < 0
