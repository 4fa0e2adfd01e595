"""What our decisions say that an input means: told that, Koordinator comes to what we come to.

Each decision that is about how a part of the input is read rewrites that part here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from koord_manager.noderesource.core.pods import PodSummary, read_pod_summary

Object = dict[str, Any]

_NO_CLASS = ("", "other")


def _pods(given: Object) -> dict[tuple[str, str], PodSummary]:
    """Those that count, by namespace and name."""
    found = {}
    for pod in given["pods"]:
        facts = read_pod_summary(json.dumps(pod).encode())
        if facts.active and facts.high:
            found[pod["metadata"]["namespace"], pod["metadata"]["name"]] = facts
    return found


def pods_without_a_metric(given: Object) -> None:
    """They count as using what they ask for, mid pods by their ``mid-cpu``, in all policies."""
    measured = {(one["namespace"], one["name"]) for one in given["metric"]["podsMetric"]}
    for (namespace, name), facts in _pods(given).items():
        if (namespace, name) not in measured:
            given["metric"]["podsMetric"].append(
                {"namespace": namespace, "name": name, "podUsage": {"resources": _asked(facts)}}
            )


def half_a_metric(given: Object) -> None:
    """What is not measured of a pod counts as what it asks for."""
    pods = _pods(given)
    for one in given["metric"]["podsMetric"]:
        facts = pods.get((one["namespace"], one["name"]))
        if facts:
            one["podUsage"]["resources"] = _asked(facts) | one["podUsage"]["resources"]


def _asked(facts: PodSummary) -> Object:
    return {"cpu": f"{facts.unseen_cpu}m", "memory": str(facts.unseen_memory)}


def applications_without_a_class(given: Object) -> None:
    """They count by their quality class, else as prod."""
    for one in given["metric"].get("hostApplicationMetric", ()):
        if one["priority"] in _NO_CLASS:
            one["priority"] = "koord-batch" if one["qos"] == "BE" else "koord-prod"


def negative_usage(given: Object) -> None:
    """It counts as nothing."""
    for one in given["metric"]["podsMetric"]:
        used = one["podUsage"]["resources"]
        for name in used.keys() & {"cpu", "memory"}:
            used[name] = "0" if used[name].startswith("-") else used[name]


def half_of_the_node_s_use(given: Object) -> None:
    """What is missing of it is not known, the other half counts."""
    node = given["metric"]["nodeMetric"]
    used = node.setdefault("nodeUsage", {}).setdefault("resources", {})
    if used.keys() & {"cpu", "memory"}:
        capacity = given["node"]["status"]["capacity"]
        for name in capacity.keys() - used.keys():
            used[name] = capacity[name]


def ratios_of_labels(given: Object) -> None:
    """They are rounded to percent; one that is not from 0 to 1 is passed over."""
    labels = given["node"]["metadata"]["labels"]
    for key in [key for key in labels if key.endswith("-ratio")]:
        try:
            ratio = float(labels[key])
        except ValueError:
            continue
        if 0 <= ratio <= 1:
            labels[key] = str((round(ratio * 100) + 0.5) / 100)
        else:
            del labels[key]


DECISIONS: dict[str, Callable[[Object], None]] = {
    "pods without a metric": pods_without_a_metric,
    "half a metric": half_a_metric,
    "applications without a class": applications_without_a_class,
    "negative usage": negative_usage,
    "half of the node's use": half_of_the_node_s_use,
    "ratios of labels": ratios_of_labels,
}
