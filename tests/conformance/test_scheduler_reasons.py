"""Why nodes reject a pod and what is said about it, against kube-scheduler's own."""

from __future__ import annotations

import json
from collections import defaultdict

import numpy as np
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.fit_error import (
    NO_VICTIMS,
    failed_preemption,
    fit_error_message,
    preemption_message,
)
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.state.placed_pod import placed_usage
from koord_scheduler.state.pod_class import pod_class

from tests.conformance import test_scheduler
from tests.conformance.vectors import Fields, Object, Vector, replay
from tests.support.prepared import prepared
from tests.support.scheduler_profile import default_plugins
from tests.support.workloads import set_workloads

NO_CLAIMS = "no new claims to deallocate, "
"""What DynamicResources adds, and ours does not."""


def ours(vector: Vector) -> Fields:
    scores = class_scores(vector.given)
    nodes = scores.nodes
    fields = {} if vector.recorded.get("prefilter") else verdicts(scores)
    if "message" not in vector.recorded:
        return fields
    diagnosis = diagnose(scores)
    resolvable = sorted(nodes.name(int(row)) for row in diagnosis.resolvable)
    fields |= {"message": fit_error_message(diagnosis), "resolvable": resolvable}
    if has_no_victims(vector):
        reasons = {NO_VICTIMS: len(resolvable)} if resolvable else {}
        failed = failed_preemption(diagnosis.nodes, len(resolvable), reasons)
        fields["preemption"] = NO_CLAIMS + preemption_message(failed)
    return fields


def class_scores(given: Object) -> ClassScores:
    enabled = default_plugins(given.get("args"))
    nodes = prepared(enabled)
    for one in given["namespaces"]:
        nodes.namespaces.set(one["name"], one["labels"])
    for one in given["nodes"]:
        nodes.set(read_node(json.dumps(one).encode()))
    for one in given["pods"]:
        pod = read_pod(json.dumps(one).encode())
        nodes.add_pod(pod.spec.node_name, placed_usage(pod, nodes))
    set_workloads(nodes, given)
    waiting = pod_class(read_pod(json.dumps(given["pod"]).encode()), nodes.features.values())
    return ClassScores(waiting, nodes, enabled)


def verdicts(scores: ClassScores) -> Object:
    """Of each node and plugin that rejects it: whether preemption cannot help, and the reasons."""
    rows = np.flatnonzero(scores.nodes.is_node)
    found: Object = defaultdict(lambda: [False, []])
    for plugin, reasons, _ in scores.reasons(rows):
        for reason in reasons:
            for row in rows[reason.rows]:
                one = found[f"{scores.nodes.name(int(row))} {plugin}"]
                one[0] |= not reason.resolvable
                one[1] = sorted([*one[1], reason.text])
    return dict(found)


def theirs(recorded: Object) -> Fields:
    fields: Object = {
        f"{node} {plugin}": [one["code"] == "UnschedulableAndUnresolvable", one["reasons"]]
        for node, by_plugin in recorded["nodes"].items()
        for plugin, one in by_plugin.items()
    }
    names = "message", "resolvable", "preemption"
    return fields | {name: recorded[name] for name in names if name in recorded}


def has_no_victims(vector: Vector) -> bool:
    """Whether preemption fails on all nodes where it may help, as these have no lesser pods."""
    priority = vector.given["pod"]["spec"].get("priority", 0)
    lesser = {
        one["spec"]["nodeName"]
        for one in vector.given["pods"]
        if one["spec"].get("priority", 0) < priority
    }
    return not vector.recorded["prefilter"] and lesser.isdisjoint(vector.recorded["resolvable"])


def victims(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """What becomes of victims is not a matter of reasons."""
    return field == "preemption" and field not in here and not has_no_victims(vector)


def namespaces_by_absence(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """kube-scheduler takes a namespaceSelector that holds without labels (NotIn) for any one."""
    return test_scheduler.namespaces_by_absence(vector, "rejected", here, there)


def test_the_reasons_are_those_of_kube_scheduler() -> None:
    replay("scheduler_reasons", ours, theirs, (victims, namespaces_by_absence))
