"""A new pod with the ClusterColocationProfiles that are for it. No IO."""

from __future__ import annotations

from koord_model.json_objects import inside
from koord_serving.admission.core.admission import Object

from koord_manager.pod_webhook import colocated_resources, document
from koord_manager.pod_webhook.view import PodWebhookView
from koord_manager.profiles.core import applying, matching

_SKIP_GATE = "ColocationProfileSkipMutatingResources"


def mutated(given: Object, namespace: str, view: PodWebhookView, warnings: list[str]) -> Object:
    """Apply all profiles that match the pod as it came, each with its probability.

    Then rename resources, if a profile was applied and none of those forbids it.

    Raises:
        ValueError: a profile cannot be applied; one line says which and why.
    """
    if not view.profiles:
        return given
    found = view.namespaces.get(namespace)
    matches = matching.for_pod(
        matching.read_all(view.profiles),
        document.read(given).labels,
        namespace,
        None if found is None else inside(found, "metadata", "labels"),
    )
    warnings.extend(matches.warnings)
    profiles = [profile for profile in matches.profiles if matching.drawn(profile, view.chance)]
    if not profiles:
        return given
    for profile in profiles:
        given = applying.applied(profile, given, applying.POD, view.priority_classes)
        warnings.extend(profile.ignored)
    try:
        pod = document.read(given)
    except ValueError as error:
        names = ", ".join(profile.name for profile in profiles)
        raise ValueError(f"the patches of profiles {names} make it {error}") from None
    if view.gates.get(_SKIP_GATE) or any(profile.skips_resources for profile in profiles):
        return given
    return colocated_resources.renamed(given, pod, warnings)
