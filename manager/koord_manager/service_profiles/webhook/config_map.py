"""Refuses a ConfigMap of which a part cannot be a profile of a service. No IO."""

from __future__ import annotations

from koord_serving.admission.core.admission import (
    AdmissionRequest,
    AdmissionResponse,
    Object,
)

from koord_manager.service_profiles.core import document
from koord_manager.service_profiles.core.document import (
    NO_PROFILE,
    TYPE_LABEL,
    ProfileDocument,
    ProfileSource,
)

_INVALID = 422


def validate_profile(admission: AdmissionRequest, _view: object) -> AdmissionResponse:
    """Only errors that a change adds are judged; what nothing acts on is a warning."""
    now, before = _profile(admission.object), _profile(admission.old)
    errors = [line for line in now.errors if line not in before.errors]
    if errors:
        more = f" (and {len(errors) - 1} more)" if errors[1:] else ""
        return AdmissionResponse(refusal=f"{errors[0]}{more}", code=_INVALID)
    return AdmissionResponse(warnings=now.unused)


def _profile(config_map: Object) -> ProfileDocument:
    metadata = config_map.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    key, value = TYPE_LABEL
    if not isinstance(labels, dict) or labels.get(key) != value:
        return NO_PROFILE
    return document.read(config_map, ProfileSource.CONFIG_MAP)
