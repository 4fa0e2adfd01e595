"""The annotation that carries a pod's batch resources to koordlet and the proxy. No IO.

The kubelet hands on nothing of them. ``containers`` has those that run together, so also init
containers that stay: their sum is the pod's. ``initContainers`` has all init containers; it is our
own. Koordinator's koordlet does not read it, and in ``containers`` it would add them all up.
"""

from __future__ import annotations

import json

from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, BATCH_MEMORY
from koord_serving.admission.core.admission import Object

from koord_manager.pod_webhook import document
from koord_manager.pod_webhook.document import ContainerDocument, Quantities
from koord_manager.profiles.core.placing import inside, placed, without
from koord_manager.webhooks.cluster_view import ClusterView

_OFF_GATE = "DisableExtendedResourceSpec"
_WRITTEN = f"annotation {ANNOTATION_EXTENDED_RESOURCE_SPEC}"
_NAMES = (BATCH_CPU, BATCH_MEMORY)


def mutated(given: Object, _namespace: str, view: ClusterView, warnings: list[str]) -> Object:
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
    inits = pod.spec.init_containers or []
    together = _group([*pod.spec.containers, *(one for one in inits if one.beside)])
    groups = {"containers": together, "initContainers": _group(inits)}
    return {name: group for name, group in groups.items() if group}


def _group(containers: list[ContainerDocument]) -> Object:
    found = {one.name: _amounts(one) for one in containers}
    return {name: asked for name, asked in found.items() if asked}


def _amounts(container: ContainerDocument) -> Object:
    resources = container.resources
    if resources is None:
        return {}
    both = {"limits": _batch(resources.limits), "requests": _batch(resources.requests)}
    return {name: amounts for name, amounts in both.items() if amounts}


def _batch(given: Quantities | None) -> Object:
    return {name: given[name] for name in _NAMES if name in given} if given else {}


def _meaning(written: str) -> object:
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return None
