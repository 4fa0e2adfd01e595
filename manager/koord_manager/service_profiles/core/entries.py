"""Profiles as NodeSLOs have them, and as many as one has room for. No IO."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from koord_model.service_profile import MOST_PROFILES

from koord_manager.service_profiles.core.baseline import baseline
from koord_manager.service_profiles.core.document import ProfileDocument
from koord_manager.service_profiles.core.objects import ProfiledWorkload, ServicePod

Entry = Mapping[str, Any]
"""A profile as a NodeSLO has it."""

MOST_BYTES = 64 << 10
"""JSON of all profiles of one node: a NodeSLO has to stay small in etcd."""


def entries_by_node(
    document: ProfileDocument, workload: ProfiledWorkload, pods: Collection[ServicePod]
) -> dict[str, Entry]:
    """A service's entry on each node where it has pods; none if it sets nothing."""
    settings = _settings(document)
    if not settings:
        return {}
    shared = {
        "name": document.key,
        "namespace": document.namespace,
        "selector": workload.written,
        **settings,
    }
    left_alone = {
        "baseline": baseline(pods, document.baseline_percent),
        "memoryBaseline": baseline(pods, document.extended.memory_percent),
        "weightBaseline": baseline(pods, document.extended.weight_percent),
    }
    names: dict[str, list[str]] = {}
    for pod in pods:
        if pod.node:
            names.setdefault(pod.node, []).append(pod.name)
    entries: dict[str, Entry] = {}
    for node, here in names.items():
        own = {
            field: sorted(found)
            for field, all_names in left_alone.items()
            if (found := all_names.intersection(here))
        }
        entries[node] = shared | own if own else shared  # most nodes have the same one
    return entries


def _settings(document: ProfileDocument) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if document.targets:
        found["targets"] = {word.value: value for word, value in document.targets.items()}
    if document.extended.memory_offload is not None:
        found["memoryOffload"] = document.extended.memory_offload
    if document.extended.weight_cores is not None:
        found["weightCores"] = document.extended.weight_cores
    return found


def bounded(entries: Sequence[Entry]) -> tuple[list[Entry], list[str]]:
    """Those that a NodeSLO has room for, in order, and the names of the others."""
    fitting: list[Entry] = []
    left_out: list[str] = []
    room = MOST_BYTES
    for entry in entries:
        size = len(msgspec.json.encode(entry))
        if size > room or len(fitting) == MOST_PROFILES:
            left_out.append(str(entry["name"]))
        else:
            fitting.append(entry)
            room -= size
    return fitting, left_out
