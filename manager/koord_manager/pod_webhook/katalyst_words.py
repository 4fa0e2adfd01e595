"""A new pod that speaks Katalyst's language, with Koordinator's words beside. No IO.

For clusters without Katalyst's agent: where that runs, it is the one that obeys.
"""

from __future__ import annotations

from koord_model import katalyst
from koord_model.json_objects import inside, placed
from koord_model.keys import LABEL_QOS
from koord_model.qos import QoSClass, qos_class
from koord_serving.admission.core.admission import Object

from koord_manager.pod_webhook import colocated_resources, document
from koord_manager.pod_webhook.view import PodWebhookView

GATE = "KatalystVocabulary"


def mutated(given: Object, _namespace: str, view: PodWebhookView, warnings: list[str]) -> Object:
    """With labels, annotations and resources of Koordinator's that mean what the pod says."""
    if not view.gates.get(GATE):
        return given
    pod = document.read(given)
    found = katalyst.translate(pod.labels, pod.annotations, pod.spec.priority)
    warnings.extend(found.ignored)
    for added, name in ((found.labels, "labels"), (found.annotations, "annotations")):
        if added:
            merged = {**inside(given, "metadata", name), **added}
            given = placed(given, merged, "metadata", name)
    return _with_batch_resources(given, pod, {**pod.labels, **found.labels}, warnings)


def _with_batch_resources(
    given: Object, pod: document.PodDocument, labels: dict[str, str], warnings: list[str]
) -> Object:
    asked = [name for name in katalyst.RESOURCES if name in _named(pod)]
    if not asked:
        return given
    if qos_class(labels) is QoSClass.BE:
        return colocated_resources.with_names(given, katalyst.RESOURCES)
    is_now = f"label {LABEL_QOS} {qos_class(labels) or 'unset'}"
    warnings.append(
        f"a container asks for {' and '.join(asked)} with {is_now}, and no node offers it; "
        f"set annotation {katalyst.LEVEL} to reclaimed_cores"
    )
    return given


def _named(pod: document.PodDocument) -> frozenset[str]:
    found = [container.resources for container in pod.all_containers if container.resources]
    both = [given for resources in found for given in (resources.requests, resources.limits)]
    return frozenset(name for given in both for name in given or ())
