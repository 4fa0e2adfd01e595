"""Mutates new pods: profiles, recommendations, annotations for nodes, quota trees, devices.

No IO.

Of a pod that is there already nothing that matters here can be changed, so an update is admitted
as it is. (Koordinator has a webhook for it, by label, that does nothing either.)
"""

from __future__ import annotations

from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
    Object,
)

from koord_manager.pod_webhook import (
    annotation_rules,
    device_spec,
    document,
    extended_resource_spec,
    katalyst_words,
    profiled,
    scope,
)
from koord_manager.pod_webhook.view import PodWebhookView
from koord_manager.quota.webhook import pod_affinity
from koord_manager.resize.webhook import initial


def _in_quota_tree(
    given: Object, namespace: str, view: PodWebhookView, warnings: list[str]
) -> Object:
    if not view.gates.get(pod_affinity.GATE):
        return given
    labels = document.read(given).labels
    return pod_affinity.mutated(given, labels, namespace, view, warnings)


_STEPS = (
    katalyst_words.mutated,
    profiled.mutated,
    initial.mutated,
    extended_resource_spec.mutated,
    _in_quota_tree,
    device_spec.mutated,
)
"""Each takes the pod, its namespace, the cluster, and lines to add to.

After the first, which translates, they are in Koordinator's order; recommendations come when it
is known which class a pod is of.
"""


def mutate_pod(admission: AdmissionRequest, view: PodWebhookView) -> AdmissionResponse:
    """The pod as it should be; refused where a profile that is for it cannot be applied."""
    if admission.operation is not AdmissionOperation.CREATE or not scope.concerns(admission, view):
        return ADMITTED
    try:
        pod = document.read(admission.object)
    except ValueError as error:
        return AdmissionResponse(refusal=str(error), code=400)
    namespace = scope.namespace_of(admission)
    if problems := annotation_rules.problems(pod):
        refusal = f"{document.about(pod, namespace)}: {'; '.join(problems)}"
        return AdmissionResponse(refusal=refusal, code=400)
    warnings: list[str] = []
    mutated = admission.object
    try:
        for step in _STEPS:
            mutated = step(mutated, namespace, view, warnings)
    except ValueError as error:
        return AdmissionResponse(refusal=f"{document.about(pod, namespace)}: {error}", code=500)
    changed = mutated is not admission.object and mutated != admission.object
    return AdmissionResponse(object=mutated if changed else None, warnings=tuple(warnings))
