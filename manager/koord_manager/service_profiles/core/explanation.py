"""Explanation of a profile for people: what is in it, and where it has an effect. No IO."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from koord_manager.service_profiles.core.baseline import baseline
from koord_manager.service_profiles.core.document import TYPE_LABEL, ProfileDocument, ProfileSource
from koord_manager.service_profiles.core.objects import ServicePod

Explanation = dict[str, Any]

_MOST_NAMES = 10


def answer(
    service: str, profiles: Sequence[Explanation], reason: str = "", no_room: Iterable[str] = ()
) -> Explanation:
    """Return the page of one service; ``reason`` is why it has no profiles.

    ``no_room`` are nodes whose NodeSLOs have no room for it.
    """
    return {
        "service": service,
        "reason": reason,
        "profiles": list(profiles),
        "no_room": sorted(no_room),
    }


def unknown(service: str, others: Iterable[ProfileDocument]) -> str:
    """Return the reason of a service without a profile; ``others`` are all profiles."""
    namespace = service.partition("/")[0]
    names = {
        f"{other.name} ({other.kind.kind} {other.workload})"
        for other in others
        if other.namespace == namespace
    }
    there = sorted(names)
    if there:
        more = ", …" if there[_MOST_NAMES:] else ""
        return f"there is no profile {service}; there are {', '.join(there[:_MOST_NAMES])}{more}"
    label = ": ".join(TYPE_LABEL)
    return (
        f"there are no profiles in namespace {namespace}; expected a "
        f"{ProfileSource.DESCRIPTOR}, or a ConfigMap with label {label}"
    )


def explain(document: ProfileDocument, reason: str, pods: Collection[ServicePod]) -> Explanation:
    """Describe a profile; ``reason`` is why it has no effect, "" if it has on its ``pods``."""
    return {
        "source": document.source.value,
        "workload": f"{document.kind.kind} {document.workload}".strip(),
        "in_force": not reason,
        "reason": reason,
        "targets": {word.value: value for word, value in document.targets.items()},
        "baseline_percent": document.baseline_percent,
        **asdict(document.extended),
        "ignored": [*document.refused, *document.unused],
        "nodes": _counts(pods),
        "baseline": sorted(baseline(pods, document.baseline_percent)),
        "memory_baseline": sorted(baseline(pods, document.extended.memory_percent)),
        "weight_baseline": sorted(baseline(pods, document.extended.weight_percent)),
    }


def _counts(pods: Iterable[ServicePod]) -> dict[str, int]:
    """Count the pods on each node; those without one are under ""."""
    found: dict[str, int] = {}
    for pod in sorted(pods, key=lambda pod: pod.node):
        found[pod.node] = found.get(pod.node, 0) + 1
    return found
