"""Pods and workloads: of each as much as profiles use. No IO."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from koord_kube.protocol.resources import Resource
from koord_kube.views.labels import shared_labels
from koord_kube.views.pod import ClusterPodDocument, decode_pod
from koord_model import label_selector
from koord_model.fields import shown
from koord_model.label_selector import LabelSelector

_ENDED = ("Succeeded", "Failed")


class ServicePod(msgspec.Struct, frozen=True, gc=False):
    """A pod that has not ended; ``node`` is "" until it has one.

    ``created`` is as Kubernetes writes times, to the second and in UTC: it sorts as text.
    """

    namespace: str
    name: str
    node: str = ""
    created: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    active: bool = True


def read_pod(raw: bytes) -> ServicePod:
    """Decode a pod.

    Raises:
        ValueError: it is not a pod.
    """
    return service_pod(decode_pod(raw))


def service_pod(pod: ClusterPodDocument) -> ServicePod:
    """A pod as profiles need it."""
    meta = pod.metadata
    return ServicePod(
        sys.intern(meta.namespace),
        meta.name,
        sys.intern(pod.spec.node),
        sys.intern(meta.created),
        shared_labels(meta.labels),
        pod.status.phase not in _ENDED and meta.deleted is None,
    )


class WorkloadKind(NamedTuple):
    """Kind of workloads, as a profile names it: ``apps/v1`` and ``Deployment``."""

    api_version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"

    @property
    def resource(self) -> Resource:
        """Its objects; the plural is guessed as Kubernetes and Katalyst do."""
        group, _, version = self.api_version.rpartition("/")
        name = self.kind.lower()
        plural = f"{name}es" if name.endswith("s") else f"{name}s"
        if name.endswith("y"):
            plural = f"{name[:-1]}ies"
        return Resource(group, version, plural, self.kind, namespaced=True)


@dataclass(frozen=True, slots=True)
class ProfiledWorkload:
    """A workload's label selector, as written and to match with; ``problem``: why it has none."""

    written: Mapping[str, Any] = field(default_factory=dict)
    selector: LabelSelector = field(default_factory=LabelSelector)
    problem: str = ""


class _Spec(msgspec.Struct):
    selector: Any = None


class _Workload(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_WORKLOAD = msgspec.json.Decoder(_Workload)


def read_workload(raw: bytes) -> ProfiledWorkload:
    """Decode a workload.

    Raises:
        msgspec.MsgspecError: it is not an object with a spec.
    """
    given = _WORKLOAD.decode(raw).spec.selector
    try:
        selector = label_selector.parse(given, "spec.selector")
    except ValueError as error:
        return ProfiledWorkload(problem=str(error))
    if not selector.requirements:
        return ProfiledWorkload(problem=f"spec.selector is {shown(given)}; expected matchLabels")
    return ProfiledWorkload(given, selector)
