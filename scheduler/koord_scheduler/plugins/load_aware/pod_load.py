"""A pod's part in estimates: its expected usage, and until when it counts. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from koord_kube.views.pod import ResourceRequirements
from koord_model.keys import (
    ANNOTATION_LOAD_AFTER_INITIALIZED,
    ANNOTATION_LOAD_AFTER_SCHEDULED,
    ANNOTATION_LOAD_FACTORS,
    CPU,
    MEMORY,
)
from koord_model.priority import PriorityClass, priority_class_or_default
from koord_model.qos import KubeQoS
from koord_model.quantity import nano

from koord_scheduler.objects.annotations import NO_ANNOTATIONS, read_annotations
from koord_scheduler.objects.pod import PodInfo
from koord_scheduler.objects.requests import PodRequests, pending_requests, pod_limits
from koord_scheduler.state.pod_parts import PodPart

_FACTORS = msgspec.json.Decoder(dict[str, int] | None)
_DAEMON_SET = "DaemonSet"


class AskedAmount(NamedTuple):
    """A pod's request of a resource, and its limit; CPU in millicores, all else whole."""

    resource: str
    request: int
    limit: int


class PodLoad(NamedTuple):
    """Equal for copies. ``is_daemon``: a DaemonSet made the pod.

    The rest after ``amounts`` is what its annotations say; ``None``: nothing that can be used.
    """

    priority_class: PriorityClass
    amounts: tuple[AskedAmount, ...]
    is_daemon: bool = False
    factors: tuple[tuple[str, int], ...] | None = None
    after_scheduled: int | None = None
    after_initialized: int | None = None

    @property
    def is_prod(self) -> bool:
        """True if it is a production pod."""
        return self.priority_class is PriorityClass.PROD


NO_LOAD = PodLoad(PriorityClass.NONE, ())


LOAD: PodPart[PodLoad] = PodPart("load", NO_LOAD)
read_annotations(
    ANNOTATION_LOAD_FACTORS, ANNOTATION_LOAD_AFTER_SCHEDULED, ANNOTATION_LOAD_AFTER_INITIALIZED
)


def pod_load(pod: PodInfo, pending: PodRequests | None = None) -> PodLoad:
    """The load of a pod, with a node or without; its ``pending`` requests may be known already.

    Raises:
        ValueError: a quantity is not one.
    """
    requests, limits = (pending or pending_requests(pod)).amounts, pod_limits(pod)
    names = sorted(requests.keys() | limits.keys())
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or NO_ANNOTATIONS
    return PodLoad(
        priority_class_or_default(labels, pod.spec.priority, _kube_qos(pod)),
        tuple(AskedAmount(name, requests.get(name, 0), limits.get(name, 0)) for name in names),
        has_daemon_owner(pod),
        _factors(annotations.get(ANNOTATION_LOAD_FACTORS, "")),
        _seconds(annotations.get(ANNOTATION_LOAD_AFTER_SCHEDULED, "")),
        _seconds(annotations.get(ANNOTATION_LOAD_AFTER_INITIALIZED, "")),
    )


def has_daemon_owner(pod: PodInfo) -> bool:
    """True if a DaemonSet made the pod."""
    return any(one.kind == _DAEMON_SET for one in pod.metadata.owner_references or ())


def _kube_qos(pod: PodInfo) -> KubeQoS:
    """Only whether it is best effort makes a difference."""
    whole = pod.spec.resources
    each = [*(pod.spec.containers or ()), *(pod.spec.init_containers or ())]
    asking = [whole] if whole is not None else [one.resources for one in each]
    return KubeQoS.BURSTABLE if any(map(_asks, asking)) else KubeQoS.BEST_EFFORT


def _asks(resources: ResourceRequirements | None) -> bool:
    both = (resources.requests, resources.limits) if resources is not None else ()
    return any(
        nano(given) > 0
        for one in both
        for name, given in (one or {}).items()
        if name in (CPU, MEMORY) and given is not None
    )


def _factors(text: str) -> tuple[tuple[str, int], ...] | None:
    """Text that cannot be used is as none."""
    try:
        factors = _FACTORS.decode(text) if text else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return tuple(sorted(factors.items())) if factors else None


def _seconds(text: str) -> int | None:
    """Less than 0, and text that is no number, is as none."""
    digits = text.removeprefix("+")
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 19
    return int(digits) if is_number else None


def asked(amounts: Iterable[AskedAmount], resource: str) -> AskedAmount:
    """Return a pod's request of one resource."""
    none = AskedAmount(resource, 0, 0)
    return next((amount for amount in amounts if amount.resource == resource), none)
