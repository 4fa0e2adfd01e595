"""A pod's demands on reservations. No IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from koord_model.keys import (
    ANNOTATION_EXACT_MATCH_RESERVATION,
    ANNOTATION_RESERVATION_AFFINITY,
    ANNOTATION_RESERVATION_ALLOCATED,
    LABEL_RESERVATION_IGNORED,
)

from koord_scheduler.objects.node import UNSCHEDULABLE
from koord_scheduler.objects.node_selector import (
    NodeRequirement,
    NodeSelectorTerm,
    node_selector_terms,
)
from koord_scheduler.objects.pod import Toleration
from koord_scheduler.objects.tolerations import tolerates
from koord_scheduler.plugins.reservation.owners import PodOwner
from koord_scheduler.plugins.reservation.reservation import Reservation


class ReservationAffinity(NamedTuple):
    """The reservations of which a pod has to use one: by ``name``, or by their labels.

    ``terms`` are alternatives, ``None`` where there are none to choose from.
    """

    name: str = ""
    selector: tuple[NodeRequirement, ...] = ()
    terms: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()

    @property
    def tolerates_unschedulable(self) -> bool:
        """True if it may use a reservation that is not for new pods."""
        return any(tolerates(toleration, UNSCHEDULABLE) for toleration in self.tolerations)

    def means(self, name: str, labels: Mapping[str, str]) -> bool:
        """True if a reservation with these labels, its node's included, is one of them."""
        if not all(one.allows(labels.get(one.key)) for one in self.selector):
            return False
        return self.terms is None or any(_means(term, name, labels) for term in self.terms)


class ReserveNeeds(NamedTuple):
    """Demands of a reservation without node: its allocate policy, and a ``node``, "" for any.

    ``takes_over`` is the reservation itself, in what decides, if it may take pods over.
    """

    policy: str = ""
    node: str = ""
    takes_over: Reservation | None = None

    def __hash__(self) -> int:
        taker = self.takes_over  # has mappings
        return hash((self.policy, self.node, None if taker is None else (taker.name, taker.uid)))


class ReservationNeeds(NamedTuple):
    """Demands that decide which reservations pods of a class may use.

    With ``ignores`` they use the room of all of them and own none. ``exact`` are resources of which
    a reservation has to have what a pod asks for. ``name`` and ``uid`` are those of a pod that a
    reservation names. ``has_allocation``: a reservation was written that it got before.
    ``problem``, in a line, is why it can be placed nowhere. ``reserve`` is what the pod of a
    reservation needs, which uses no other reservation.
    """

    affinity: ReservationAffinity | None = None
    exact: tuple[str, ...] = ()
    ignores: bool = False
    owners: tuple[PodOwner, ...] = ()
    name: str = ""
    uid: str = ""
    has_allocation: bool = False
    problem: str = ""
    reserve: ReserveNeeds | None = None


NO_RESERVATION_NEEDS = ReservationNeeds()


class _Required(msgspec.Struct, frozen=True, rename="camel"):
    reservation_selector_terms: list[dict[str, Any]] | None = None


class _Affinity(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    required: _Required | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    reservation_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class _ExactMatch(msgspec.Struct, frozen=True, rename="camel"):
    resource_names: list[str] | None = None


class _Allocated(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


_AFFINITY = msgspec.json.Decoder(_Affinity | None)
_EXACT = msgspec.json.Decoder(_ExactMatch | None)
_ALLOCATED = msgspec.json.Decoder(_Allocated | None)


def reservation_needs(
    annotations: Mapping[str, str], labels: Mapping[str, str], owners: Sequence[PodOwner]
) -> ReservationNeeds:
    """Read a pod's demands; what cannot be read is a ``problem``."""
    affinity: ReservationAffinity | None = None
    exact: tuple[str, ...] = ()
    problem = ""
    try:
        affinity = _affinity(annotations)
        exact = _exact(annotations)
    except ValueError as error:
        problem = str(error)
    return ReservationNeeds(
        affinity,
        exact,
        labels.get(LABEL_RESERVATION_IGNORED) == "true",
        tuple(owners),
        has_allocation=ANNOTATION_RESERVATION_ALLOCATED in annotations,
        problem=problem,
    )


def allocated_reservation(annotations: Mapping[str, str]) -> str:
    """The uid of the reservation that a pod got, "" if it has none or that cannot be read."""
    text = annotations.get(ANNOTATION_RESERVATION_ALLOCATED)
    if not text:
        return ""
    try:
        found = _ALLOCATED.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""
    return found.uid if found is not None else ""


def allocation_annotation(name: str, uid: str) -> str:
    """The value of the annotation that says which reservation a pod got."""
    return msgspec.json.encode({"name": name, "uid": uid}).decode()


def _affinity(annotations: Mapping[str, str]) -> ReservationAffinity | None:
    text = annotations.get(ANNOTATION_RESERVATION_AFFINITY)
    if text is None:
        return None
    given = _decoded(_AFFINITY, ANNOTATION_RESERVATION_AFFINITY, text) or _Affinity()
    terms = None
    if given.required is not None:
        found = given.required.reservation_selector_terms or ()
        terms = node_selector_terms({"nodeSelectorTerms": found})
    selector = sorted((given.reservation_selector or {}).items())
    return ReservationAffinity(
        given.name,
        tuple(NodeRequirement(key, "In", (value,)) for key, value in selector),
        terms,
        tuple(given.tolerations or ()),
    )


def _exact(annotations: Mapping[str, str]) -> tuple[str, ...]:
    text = annotations.get(ANNOTATION_EXACT_MATCH_RESERVATION)
    if not text:
        return ()
    given = _decoded(_EXACT, ANNOTATION_EXACT_MATCH_RESERVATION, text)
    return tuple(given.resource_names or ()) if given is not None else ()


def _decoded(decoder: msgspec.json.Decoder[Any], key: str, text: str) -> Any:
    if not text:
        return None
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(
            f"the annotation {key} cannot be read ({error}); correct or remove it"
        ) from None


def _means(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not term.labels and not term.names:
        return False
    return all(label.allows(labels.get(label.key)) for label in term.labels) and all(
        one.allows(name) for one in term.names
    )
