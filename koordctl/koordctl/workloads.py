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
    for manifest in objects:
        if manifest["kind"] == "Pod":
            pods.append(manifest)
        elif (spec := _spec(manifest)) is not None:
            pods += _pods(manifest, spec, MOST_PODS - len(pods))
        else:
            skipped.append(kind_and_name(manifest))
    return pods, skipped


def _spec(manifest: Manifest) -> Mapping[str, Any] | None:
    """The specification of a workload that has a template of pods."""
    spec = _mapping(manifest, "spec")
    if manifest["kind"] == "CronJob":
        spec = _mapping(_mapping(spec, "jobTemplate"), "spec")
    is_workload = manifest["kind"] in _OWNERS and _mapping(_mapping(spec, "template"), "spec")
    return spec if is_workload else None


def _pods(manifest: Manifest, spec: Mapping[str, Any], most: int) -> Iterator[Manifest]:
    template, count = spec["template"], _count(manifest, spec)
    if count > most:
        raise ValueError(
            f"{kind_and_name(manifest)} has {count} pods; at most {MOST_PODS} are placed"
        )
    metadata, of_pods = _mapping(manifest, "metadata"), _mapping(template, "metadata")
    name, first = metadata.get("name") or "", int(manifest["kind"] != "StatefulSet")
    version, kind = _OWNERS[manifest["kind"]]
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}
    for number in range(first, first + count):
        made = {**of_pods, "name": f"{name}-{number}", "ownerReferences": [owner]}
        if metadata.get("namespace"):
            made["namespace"] = metadata["namespace"]
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": template["spec"]}


def _count(manifest: Manifest, spec: Mapping[str, Any]) -> int:
    """Return the number of pods that run at once."""
    if not manifest["kind"].endswith("Job"):
        return _number(manifest, spec, "replicas")
    parallel = _number(manifest, spec, "parallelism")
    return (
        parallel
        if spec.get("completions") is None
        else min(parallel, _number(manifest, spec, "completions"))
    )


def _number(manifest: Manifest, spec: Mapping[str, Any], name: str) -> int:
    given = spec.get(name)
    if given is None:
        return 1
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ValueError(
            f"{kind_and_name(manifest)}: {name} is {given!r}; expected a number from 0"
        )
    return given


def _mapping(within: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = within.get(name)
    return found if isinstance(found, dict) else {}
