"""Baseline of a service: pods that are left alone, for others to be compared with. No IO.

As in Katalyst (``pkg/controller/spd/spd_baseline.go``, ``pkg/util/spd_baseline.go``): pods are in
the order of their creation, then of their names; the sentinel is pod floor((n - 1) × percent / 100)
of n, and the baseline all pods up to it.
"""

from __future__ import annotations

from collections.abc import Iterable

from koord_manager.service_profiles.core.objects import ServicePod

ALL, NONE = 100, 0


def baseline(pods: Iterable[ServicePod], percent: int | None) -> frozenset[str]:
    """The names of the pods of one namespace that are left alone; ``None``: no pod is."""
    if percent is None or percent <= NONE:
        return frozenset()
    if percent >= ALL:
        return frozenset(pod.name for pod in pods)
    ordered = sorted(pods, key=lambda pod: (pod.created, pod.name))
    last = (len(ordered) - 1) * percent // 100
    return frozenset(pod.name for pod in ordered[: last + 1])
