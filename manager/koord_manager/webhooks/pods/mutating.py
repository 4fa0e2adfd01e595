"""What a new pod should be: profiles, what nodes are told of it, quota trees, devices. No IO.

Of a pod that is there already nothing that matters here can be changed, so an update is admitted
as it is. (Koordinator has a webhook for it, by label, that does nothing either.)
"""

from __future__ import annotations

from koord_manager.webhooks.admission import ADMITTED, Admission, ClusterView, Operation, Verdict
from koord_manager.webhooks.pods import (
    device_spec,
    document,
    extended_resource_spec,
    profiled,
    quota_tree,
    scope,
)

_STEPS = (
    profiled.mutated,
    extended_resource_spec.mutated,
    quota_tree.mutated,
    device_spec.mutated,
)
"""In Koordinator's order; each takes the pod, its namespace, the cluster, and lines to add to."""


def mutate_pod(admission: Admission, view: ClusterView) -> Verdict:
    """The pod as it should be; refused where a profile that is for it cannot be applied."""
    if admission.operation is not Operation.CREATE or not scope.concerns(admission, view):
        return ADMITTED
    try:
        pod = document.read(admission.object)
    except ValueError as error:
        return Verdict(refusal=str(error), code=400)
    namespace = scope.namespace_of(admission)
    warnings: list[str] = []
    mutated = admission.object
    try:
        for step in _STEPS:
            mutated = step(mutated, namespace, view, warnings)
    except ValueError as error:
        return Verdict(refusal=f"{document.about(pod, namespace)}: {error}", code=500)
    changed = mutated is not admission.object and mutated != admission.object
    return Verdict(object=mutated if changed else None, warnings=tuple(warnings))
