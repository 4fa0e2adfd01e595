"""Owners of a reservation: the pods that it is for. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from koord_kube.views.metadata import OwnerReference
from koord_model import label_selector
from koord_model.label_selector import LabelSelector

from koord_scheduler.plugins.reservation.objects import (
    ControllerOwner,
    ObjectOwner,
    ReservationOwner,
)

_POD_VERSION = "v1"


class PodOwner(NamedTuple):
    """An owner reference of a pod."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None


class OwnedPod(NamedTuple):
    """A pod's data for owners; ``name`` and ``uid`` are "" where no reservation names one."""

    namespace: str
    labels: Mapping[str, str]
    owners: Sequence[PodOwner]
    name: str = ""
    uid: str = ""


def pod_owners(references: Iterable[OwnerReference]) -> tuple[PodOwner, ...]:
    """The owner references of a pod, to be compared."""
    return tuple(
        PodOwner(
            reference.api_version,
            reference.kind,
            reference.name,
            reference.uid,
            reference.controller,
        )
        for reference in references
    )


@dataclass(frozen=True, slots=True)
class OwnerMatcher:
    """Some pods: by their names, what they belong to, and their labels; ``None`` for any."""

    object: ObjectOwner | None = None
    controller: ControllerOwner | None = None
    selector: LabelSelector | None = None

    def matches(self, pod: OwnedPod) -> bool:
        """True if a pod matches."""
        return (
            (self.object is None or _is_object(self.object, pod))
            and (self.controller is None or _belongs_to(self.controller, pod))
            and (self.selector is None or self.selector.matches(pod.labels))
        )

    @property
    def named(self) -> ObjectOwner | None:
        """The pod that it names, if it names one by more than its namespace."""
        one = self.object
        return one if one is not None and (one.name or one.uid) else None


def owner_matchers(owners: Iterable[ReservationOwner]) -> tuple[OwnerMatcher, ...]:
    """Compile a reservation's owners; a pod that matches one of them may use it.

    Raises:
        ValueError: a selector is not one.
    """
    return tuple(
        OwnerMatcher(owner.object, owner.controller, _selector(owner, f"spec.owners[{place}]"))
        for place, owner in enumerate(owners)
    )


def _selector(owner: ReservationOwner, where: str) -> LabelSelector | None:
    if owner.label_selector is None:
        return None
    return label_selector.parse(owner.label_selector, f"{where}.labelSelector")


def _is_object(owner: ObjectOwner, pod: OwnedPod) -> bool:
    # Informers of Koordinator do not keep apiVersions: an owner that says "v1" never matches there.
    return (
        owner.uid in ("", pod.uid)
        and owner.name in ("", pod.name)
        and owner.namespace in ("", pod.namespace)
        and owner.api_version in ("", _POD_VERSION)
    )


def _belongs_to(owner: ControllerOwner, pod: OwnedPod) -> bool:
    if owner.namespace not in ("", pod.namespace):
        return False
    return any(
        (owner.controller is None or owner.controller == one.controller)
        and owner.uid in ("", one.uid)
        and owner.name in ("", one.name)
        and owner.kind in ("", one.kind)
        and owner.api_version in ("", one.api_version)
        for one in pod.owners
    )
