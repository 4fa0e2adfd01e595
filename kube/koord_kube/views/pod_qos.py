"""Kubernetes' quality class of a pod, computed from its specification. No IO.

As Kubernetes 1.36 does (``ComputePodQOS``), with the defaults that it puts in before: the class in
the status counts where there is one; a static pod that has just been read has none yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord_model.demand import Amounts, InitContainer, whole_pod
from koord_model.keys import CPU, MEMORY
from koord_model.qos import KubeQoS
from koord_model.quantity import nano

from koord_kube.views.pod import ContainerSpec, PodSpec, Quantities, ResourceRequirements

_COUNTED = (CPU, MEMORY)


def kube_qos_of(status: str, spec: PodSpec) -> KubeQoS:
    """The class that a pod's status names, or else the one that follows from ``spec``."""
    return KubeQoS(status) if status in set(KubeQoS) else compute_kube_qos(spec)


def compute_kube_qos(spec: PodSpec) -> KubeQoS:
    """The class of a pod with this specification.

    What is set for the pod as a whole decides alone. Ephemeral containers cannot ask for anything.
    """
    if spec.resources is not None:
        asked = [_of_pod(spec, spec.resources)]
    else:
        containers = (*(spec.containers or ()), *(spec.init_containers or ()))
        asked = [_defaulted(container.resources) for container in containers]
    requests, limits = _sum(amounts for amounts, _ in asked), _sum(amounts for _, amounts in asked)
    if not requests and not limits:
        return KubeQoS.BEST_EFFORT
    limited = all(limited_resources.keys() >= set(_COUNTED) for _, limited_resources in asked)
    return KubeQoS.GUARANTEED if limited and requests == limits else KubeQoS.BURSTABLE


def _of_pod(spec: PodSpec, resources: ResourceRequirements) -> tuple[Amounts, Amounts]:
    """Requests and limits for the pod as a whole.

    Where there are limits, requests that are missing are the containers', or else the limits.
    """
    requests, limits = _positive(resources.requests), _positive(resources.limits)
    if not resources.limits:
        return requests, limits
    given = {name for name in _COUNTED if name in (resources.requests or {})}
    together = whole_pod(
        (_requests(container) for container in spec.containers or ()),
        [
            InitContainer(_requests(container), container.is_sidecar)
            for container in spec.init_containers or ()
        ],
    )
    missing = {name: amount for name, amount in {**limits, **together}.items() if name not in given}
    return {**missing, **requests}, limits


def _requests(container: ContainerSpec) -> Amounts:
    return _defaulted(container.resources)[0]


def _defaulted(resources: ResourceRequirements | None) -> tuple[Amounts, Amounts]:
    """Requests and limits; a limit is the request too where there is none."""
    if resources is None:
        return {}, {}
    limits = _positive(resources.limits)
    missing = {key: limit for key, limit in limits.items() if key not in (resources.requests or {})}
    return {**missing, **_positive(resources.requests)}, limits


def _positive(quantities: Quantities | None) -> Amounts:
    """CPU and memory above 0, in billionths; what is not a valid quantity is left out."""
    found = {name: _nano((quantities or {}).get(name)) for name in _COUNTED}
    return {name: amount for name, amount in found.items() if amount > 0}


def _nano(quantity: str | int | float | None) -> int:
    try:
        return nano(quantity or 0)
    except ValueError:
        return 0


def _sum(parts: Iterable[Amounts]) -> Mapping[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total
