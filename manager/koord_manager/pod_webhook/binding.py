"""Refuses bindings by users who must not bind a pod (gate BindingAdmissionWebhook). No IO.

While pods move from one scheduler to another, the old one must not bind those that the new one
schedules.
"""

from __future__ import annotations

from koord_model.excerpt import excerpt
from koord_model.json_objects import inside
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)

from koord_manager.pod_webhook.view import PodWebhookView

_BINDING = ("pods", "binding", AdmissionOperation.CREATE)


async def validate_binding(admission: AdmissionRequest, view: PodWebhookView) -> AdmissionResponse:
    """Admitted also where it is not known what the pod says: pods must not be kept from nodes."""
    policy = view.binding
    asked = (admission.resource, admission.subresource, admission.operation)
    if asked != _BINDING or policy.allows(admission.user, admission.namespace):
        return ADMITTED
    pod = await view.pod(admission.name, admission.namespace)
    if pod is None or policy.exempts(inside(pod, "metadata")):
        return ADMITTED
    name = excerpt(f"{admission.namespace}/{admission.name}")
    problem = (
        f"pod {name}: user {excerpt(admission.user)} may not bind it; expected a user named in "
        f"--binding-admission-user-name ({', '.join(policy.users)})"
    )
    if policy.dry_run:
        return AdmissionResponse(warnings=(problem,))
    return AdmissionResponse(refusal=problem)
