"""A new pod that speaks Katalyst's language, with Koordinator's words beside. No IO.

For clusters without Katalyst's agent: where that runs, it is the one that obeys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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


def conflicts(pod: document.PodDocument) -> tuple[str, ...]:
    """Lines on what an admitted pod says in Katalyst's words without any effect, and why."""
    found = katalyst.translate(pod.labels, pod.annotations, pod.spec.priority)
    return (*found.ignored, *_not_offered(pod, pod.labels))


def _with_batch_resources(
    given: Object, pod: document.PodDocument, labels: dict[str, str], warnings: list[str]
) -> Object:
    lines = _not_offered(pod, labels)
    warnings.extend(lines)
    if lines or not any(name in katalyst.RESOURCES for name in _named(pod.all_containers)):
        return given
    return colocated_resources.with_names(given, katalyst.RESOURCES)


def _not_offered(pod: document.PodDocument, labels: Mapping[str, str]) -> list[str]:
    """Lines on resources that no node offers to the pod: none is translated then."""
    named = _named(pod.all_containers)
    asked = [name for name in katalyst.RESOURCES if name in named]
    if asked and qos_class(labels) is not QoSClass.BE:
        is_now = f"label {LABEL_QOS} {qos_class(labels) or 'unset'}"
        line = (
            f"a container asks for {' and '.join(asked)} with {is_now}, and no node offers it; "
            f"set annotation {katalyst.LEVEL} to reclaimed_cores"
        )
        return [line]
    return [
        f"container {container.name} asks for {theirs} and {ours}, which are one resource, and no "
        "node offers both; remove one of them"
        for container in pod.all_containers
        for theirs, ours in katalyst.RESOURCES.items()
        if {theirs, ours} <= _named([container])
    ]


def _named(containers: Iterable[document.ContainerDocument]) -> frozenset[str]:
    found = [container.resources for container in containers if container.resources]
    both = [given for resources in found for given in (resources.requests, resources.limits)]
    return frozenset(name for given in both for name in given or ())
