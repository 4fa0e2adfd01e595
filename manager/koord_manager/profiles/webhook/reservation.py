"""A new Reservation with the ClusterColocationProfiles that are for its labels. No IO.

It is in no namespace, so ``namespaceSelector`` is not looked at; and its resources are not renamed.
"""

from __future__ import annotations

import msgspec
from koord_model.excerpt import excerpt
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)

from koord_manager.profiles.core import applying, matching
from koord_manager.profiles.core.view import ProfileView


class _Metadata(msgspec.Struct):
    name: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(msgspec.Struct):
    metadata: _Metadata | None = None
    spec: dict[str, object] | None = None


class _Spec(msgspec.Struct):
    template: _Template | None = None


class _Reservation(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec | None = None


def mutate_reservation(admission: AdmissionRequest, view: ProfileView) -> AdmissionResponse:
    """The reservation as it should be; refused where a profile for it cannot be applied."""
    kind = (admission.group, admission.resource, admission.subresource, admission.operation)
    if kind != ("scheduling.koordinator.sh", "reservations", "", AdmissionOperation.CREATE):
        return ADMITTED
    try:
        metadata = msgspec.convert(admission.object, _Reservation).metadata
    except msgspec.ValidationError as error:
        return AdmissionResponse(refusal=f"no Reservation: {error}", code=400)
    matches = matching.for_labels(matching.read_all(view.profiles), metadata.labels or {})
    warnings = list(matches.warnings)
    given = admission.object
    try:
        for profile in matches.profiles:
            if matching.drawn(profile, view.chance):
                given = applying.applied(
                    profile, given, applying.RESERVATION, view.priority_classes
                )
                warnings.extend(profile.ignored)
        msgspec.convert(given, _Reservation)
    except ValueError as error:
        about = f"Reservation {excerpt(metadata.name or '')}"
        return AdmissionResponse(refusal=f"{about}: {error}", code=500)
    changed = None if given == admission.object else given
    return AdmissionResponse(object=changed, warnings=tuple(warnings))
