"""CPU and memory of a batch or mid pod, renamed to what the node has left over. No IO.

``kubernetes.io/batch-cpu`` and its like are in Kubernetes' own domain. So it does not treat
them as extended resources: a request may be less than its limit, but not more, and there may be no
limit.
"""

from __future__ import annotations

from collections.abc import Mapping

from koord_model.json_objects import inside, placed
from koord_model.keys import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, MID_CPU, MID_MEMORY
from koord_model.priority import PriorityClass
from koord_model.quantity import decimal_text, milli
from koord_serving.admission.core.admission import Object

from koord_manager.pod_webhook.document import PodDocument

Names = Mapping[str, str]

_NAMES: Mapping[PriorityClass, Names] = {
    PriorityClass.BATCH: {CPU: BATCH_CPU, MEMORY: BATCH_MEMORY},
    PriorityClass.MID: {CPU: MID_CPU, MEMORY: MID_MEMORY},
}


def renamed(given: Object, pod: PodDocument, warnings: list[str]) -> Object:
    """The pod with its containers' resources renamed; ``pod`` is the same one, read.

    Its overhead stays: it is the RuntimeClass's, and Kubernetes refuses a pod with another.
    """
    names = _NAMES.get(pod.treated_class())
    if names is None:
        return given
    given = with_names(given, names)
    stays = " and ".join(name for name in names if name in _of_whole_pod(pod))
    if stays:
        warnings.append(
            f"spec.resources has {stays}, which Kubernetes takes under no other name "
            "for a pod as a whole; ask for it container by container"
        )
    return given


def with_names(given: Object, names: Names) -> Object:
    """The pod with resources of its containers renamed, and requests where only limits were."""
    for group in ("initContainers", "containers"):
        listed = given["spec"].get(group)
        if listed:
            given = placed(
                given, [_container(container, names) for container in listed], "spec", group
            )
    return given


def _container(given: Object, names: Names) -> Object:
    resources = inside(given, "resources")
    if not resources:
        return given
    limits = _amounts(inside(resources, "limits"), names)
    requests = _amounts(inside(resources, "requests"), names)
    missing = {new: limits[new] for new in names.values() if new in limits and new not in requests}
    found = {"limits": limits, "requests": {**requests, **missing}}
    filled = {name: value for name, value in found.items() if value}
    return placed(given, {**resources, **filled}, "resources")


def _amounts(given: Object, names: Names) -> Object:
    """Amounts by their new names: CPU in millicores, memory as it is written."""
    result = dict(given)
    for old, new in names.items():
        if old not in result:
            continue
        try:
            amount = decimal_text(milli(result[old])) if old == CPU else result[old]
        except ValueError:
            continue  # the API refuses an invalid quantity
        del result[old]
        result[new] = amount
    return result


def _of_whole_pod(pod: PodDocument) -> frozenset[str]:
    resources = pod.spec.resources
    if resources is None:
        return frozenset()
    return frozenset(resources.requests or ()) | frozenset(resources.limits or ())
