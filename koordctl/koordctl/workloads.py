"""The pods that workloads of a file would have: Deployments, StatefulSets, Jobs and such. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from koordctl.manifests import Manifest, kind_and_name

MOST_PODS = 10_000
"""Pods of all workloads of a file together."""
_OWNERS = {
    "Deployment": ("apps/v1", "ReplicaSet"),
    "ReplicaSet": ("apps/v1", "ReplicaSet"),
    "StatefulSet": ("apps/v1", "StatefulSet"),
    "ReplicationController": ("v1", "ReplicationController"),
    "Job": ("batch/v1", "Job"),
    "CronJob": ("batch/v1", "Job"),
}
"""Owners of a workload's pods, by its kind."""


def expand(objects: Iterable[Manifest]) -> tuple[list[Manifest], list[str]]:
    """All pods, and what has none that could be placed.

    Raises:
        ValueError: a number of pods is not one, or there are too many pods.
    """
    pods: list[Manifest] = []
    skipped = []
    for one in objects:
        if one["kind"] == "Pod":
            pods.append(one)
        elif (spec := _spec(one)) is not None:
            pods += _pods(one, spec, MOST_PODS - len(pods))
        else:
            skipped.append(kind_and_name(one))
    return pods, skipped


def _spec(one: Manifest) -> Mapping[str, Any] | None:
    """The specification of a workload that has a template of pods."""
    spec = _mapping(one, "spec")
    if one["kind"] == "CronJob":
        spec = _mapping(_mapping(spec, "jobTemplate"), "spec")
    is_workload = one["kind"] in _OWNERS and _mapping(_mapping(spec, "template"), "spec")
    return spec if is_workload else None


def _pods(one: Manifest, spec: Mapping[str, Any], most: int) -> Iterator[Manifest]:
    template, count = spec["template"], _count(one, spec)
    if count > most:
        raise ValueError(f"{kind_and_name(one)} has {count} pods; at most {MOST_PODS} are placed")
    metadata, of_pods = _mapping(one, "metadata"), _mapping(template, "metadata")
    name, first = metadata.get("name") or "", int(one["kind"] != "StatefulSet")
    version, kind = _OWNERS[one["kind"]]
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}
    for number in range(first, first + count):
        made = {**of_pods, "name": f"{name}-{number}", "ownerReferences": [owner]}
        if metadata.get("namespace"):
            made["namespace"] = metadata["namespace"]
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": template["spec"]}


def _count(one: Manifest, spec: Mapping[str, Any]) -> int:
    """How many pods run at once."""
    if not one["kind"].endswith("Job"):
        return _number(one, spec, "replicas")
    parallel = _number(one, spec, "parallelism")
    return (
        parallel
        if spec.get("completions") is None
        else min(parallel, _number(one, spec, "completions"))
    )


def _number(one: Manifest, spec: Mapping[str, Any], name: str) -> int:
    given = spec.get(name)
    if given is None:
        return 1
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ValueError(f"{kind_and_name(one)}: {name} is {given!r}; expected a number from 0")
    return given


def _mapping(within: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = within.get(name)
    return found if isinstance(found, dict) else {}
