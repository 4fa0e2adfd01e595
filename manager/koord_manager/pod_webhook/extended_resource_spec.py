"""The annotation that carries a pod's batch resources to koordlet and the proxy. No IO.

The kubelet hands on nothing of them.
"""

from __future__ import annotations

import json

from koord_model.batch_spec import batch_spec
from koord_model.json_objects import inside, placed, without
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC
from koord_serving.admission.core.admission import Object

from koord_manager.pod_webhook import document
from koord_manager.pod_webhook.view import PodWebhookView

_OFF_GATE = "DisableExtendedResourceSpec"
_WRITTEN = f"annotation {ANNOTATION_EXTENDED_RESOURCE_SPEC}"


def mutated(given: Object, _namespace: str, view: PodWebhookView, warnings: list[str]) -> Object:
    """With the annotation as it should be; without it where the pod has no batch resources."""
    if view.gates.get(_OFF_GATE):
        return given
    pod = document.read(given)
    spec = spec_of(pod)
    written = pod.annotations.get(ANNOTATION_EXTENDED_RESOURCE_SPEC)
    annotations = inside(given, "metadata", "annotations")
    if not spec:
        if written is None:
            return given
        warnings.append(f"{_WRITTEN} is removed: no container requests batch resources")
        rest = without(annotations, ANNOTATION_EXTENDED_RESOURCE_SPEC)
        return placed(given, rest, "metadata", "annotations")
    text = json.dumps(spec, separators=(",", ":"), sort_keys=True)
    # Of one that is far longer than ours nothing is read: it may be a megabyte of anything.
    if written is not None and len(written) <= 4 * len(text) and _meaning(written) == spec:
        return given
    if written is not None:
        warnings.append(f"{_WRITTEN} is replaced by what the containers request")
    found = {**annotations, ANNOTATION_EXTENDED_RESOURCE_SPEC: text}
    return placed(given, found, "metadata", "annotations")


def spec_of(pod: document.PodDocument) -> Object:
    """Build the annotation's value from the pod's resources."""
    return batch_spec(pod.spec.containers, pod.spec.init_containers or [])


def _meaning(written: str) -> object:
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return None
