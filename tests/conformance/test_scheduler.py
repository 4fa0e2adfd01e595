"""Plugins of the scheduler, against kube-scheduler's own."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.objects.pod_affinity import pod_affinity
from koord_scheduler.plugins.volumes.columns import VolumeColumns
from koord_scheduler.state.placed_pod import placed_usage
from koord_scheduler.state.pod_class import pod_class

from tests.conformance.vectors import Fields, Object, Vector, replay
from tests.support.prepared import prepared
from tests.support.scheduler_profile import default_plugins
from tests.support.storage_kinds import storage_objects
from tests.support.workloads import set_workloads

VOLUME_PLUGINS = {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}
PLUGINS = {one.plugin.name for one in default_plugins()}
"""The plugins that there are."""


def ours(vector: Vector) -> Fields:
    given = vector.given
    plugins = default_plugins(given.get("args"))
    nodes = prepared(plugins, length=1)
    for one in given["namespaces"]:
        nodes.namespaces.set(one["name"], one["labels"])
    for one in storage_objects(given):
        nodes.use(VolumeColumns).objects.set(one)
    placed = [read_pod(json.dumps(one).encode()) for one in given["pods"]]
    for pod in placed[::2]:
        nodes.add_pod(pod.spec.node_name, placed_usage(pod, nodes))
    for one in given["nodes"]:
        nodes.set(read_node(json.dumps(one).encode()))
    waiting = pod_class(read_pod(json.dumps(given["pod"]).encode()), nodes.features.values())
    scores = ClassScores(waiting, nodes, plugins)
    scores.feasible()  # so that what is kept has to be brought up to date
    set_workloads(nodes, given)
    for pod in placed[1::2]:
        nodes.add_pod(pod.spec.node_name, placed_usage(pod, nodes))
    rows = {one["metadata"]["name"]: nodes.row(one["metadata"]["name"]) for one in given["nodes"]}
    if before := vector.recorded["prefilter"]:
        of_all = set.intersection(*(set(scores.rejections(row)) for row in rows.values()))
        if before["plugin"] not in PLUGINS:
            return {}
        if before["plugin"] not in VOLUME_PLUGINS:
            return before_filters({before["plugin"]} & of_all)
        first, why = next(
            (name, one.rejection) for name, one in scores.pre_filter() if one.rejection
        )
        assert first in of_all
        return before_filters({first}, [why])
    found: Object = {f"{name} rejected": scores.rejections(row) for name, row in rows.items()}
    left = {name: row for name, row in rows.items() if "total" in vector.recorded["nodes"][name]}
    at = np.array(list(left.values()), np.intp)
    by_plugin = scores.scores(at)
    for plugin in by_plugin:
        found |= {
            f"{name} {plugin}": int(one) for name, one in zip(left, by_plugin[plugin], strict=True)
        }
    fits = set(scores.feasible())
    assert fits == {row for name, row in rows.items() if not found[f"{name} rejected"]}
    if len(at):
        assert sum(by_plugin.values()).tolist() == scores.totals(at).tolist()
    return compared(found)


def theirs(recorded: Object) -> Fields:
    if before := recorded["prefilter"]:
        why = before["reasons"] if before["plugin"] in VOLUME_PLUGINS else []
        return before_filters({before["plugin"]}, why) if before["plugin"] in PLUGINS else {}
    found: Object = {}
    for name, node in recorded["nodes"].items():
        found[f"{name} rejected"] = list(node.get("rejected", ()))
        found |= {f"{name} {plugin}": score for plugin, score in node.get("scores", {}).items()}
    return compared(found)


def before_filters(rejecting: set[str], why: Sequence[str] = ()) -> Fields:
    """Where a plugin rejects the pod without looking at nodes, it rejects each of them here.

    Of others nothing is recorded then.
    """
    return {"every node rejected": sorted(rejecting), "why": list(why)}


def compared(found: Object) -> Fields:
    """Rejections by the plugins that there are, and their scores other than 0."""
    fields: Object = {}
    for name, one in found.items():
        if name.endswith("rejected"):
            fields[name] = sorted(set(one) & PLUGINS)
        elif one and name.split()[1] in PLUGINS:
            fields[name] = one
    return fields


def score_of_whole_pod(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler forgets pod-level requests where it scores how full nodes get."""
    of_pod = vector.given["pod"]["spec"].get("resources", {}).get("requests")
    return bool(of_pod) and field.endswith("NodeResourcesFit") and field in here


def namespaces_by_absence(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler takes a namespaceSelector that holds without labels (NotIn) for any one."""
    is_so = selects_namespaces_by_absence(vector.given["pod"])
    return is_so and field.endswith(("InterPodAffinity", "rejected"))


def selects_namespaces_by_absence(pod: Object) -> bool:
    affinity = pod_affinity("default", pod["spec"].get("affinity"))
    terms = (*affinity.required, *affinity.anti, *(term for _, term in affinity.preferred))
    selectors = [one.namespace_selector for one in terms if one.namespace_selector is not None]
    return any(one.requirements and one.matches({}) for one in selectors)


def test_the_plugins_decide_as_those_of_kube_scheduler() -> None:
    replay("scheduler", ours, theirs, (score_of_whole_pod, namespaces_by_absence))
