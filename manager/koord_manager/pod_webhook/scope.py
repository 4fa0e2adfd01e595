"""Selection of pods for the webhooks. No IO."""

from __future__ import annotations

from koord_model.json_objects import inside
from koord_model.keys import ANNOTATION_MIRROR
from koord_serving.admission.core.admission import AdmissionRequest

from koord_manager.pod_webhook.view import PodWebhookView

_NEVER = "kube-system"
_LABEL = "control-plane"
_RESIZE = "resize"


def namespace_of(admission: AdmissionRequest) -> str:
    """The namespace of the pod."""
    return admission.namespace or str(inside(admission.object, "metadata").get("namespace") or "")


def concerns(admission: AdmissionRequest, view: PodWebhookView) -> bool:
    """True if the pod is run as the API has it, and is not one of the cluster's own.

    The webhooks' configuration says so too; but it can be edited, and a cluster whose own pods
    wait for this webhook cannot start it.
    """
    if (admission.group, admission.resource) != ("", "pods"):
        return False
    if admission.subresource not in ("", _RESIZE):
        return False
    # The kubelet runs a static pod by its file: its mirror is for people to look at.
    if any(
        ANNOTATION_MIRROR in inside(document, "metadata", "annotations")
        for document in (admission.object, admission.old)
    ):
        return False
    namespace = namespace_of(admission)
    labels = inside(view.namespaces.get(namespace, {}), "metadata", "labels")
    return namespace != _NEVER and _LABEL not in labels
