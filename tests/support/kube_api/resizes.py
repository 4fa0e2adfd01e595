"""``/resize`` of a pod, by the rules of a real API server (1.33 and later).

Not here: quotas and LimitRanges, which a real one counts too.
"""

from __future__ import annotations

from typing import Any

import msgspec
from koord_kube.protocol.api import Object
from koord_kube.views.pod import PodSpec
from koord_kube.views.pod_qos import compute_kube_qos
from koord_model.demand import amounts
from koord_model.keys import ANNOTATION_MIRROR

from tests.support.kube_api.kinds import Causes, Key, copied, invalid

_RESIZABLE = {"cpu", "memory"}


def split(before: Object, new: Object) -> Object:
    """Changes that a request may make: resources and resize policies of containers alone."""
    kept = copied(before)
    given = {
        container.get("name"): container
        for container in new.get("spec", {}).get("containers") or ()
    }
    if set(given) != {container["name"] for container in kept["spec"]["containers"]}:
        raise invalid("Pod", kept["metadata"]["name"], ("spec", "Forbidden: only resources change"))
    for container in kept["spec"]["containers"]:
        for part in ("resources", "resizePolicy"):
            container.pop(part, None)
            if part in given[container["name"]]:
                container[part] = given[container["name"]][part]
    return kept


def check(key: Key, before: Object, new: Object) -> None:
    """Refusals of a resize by the API server."""
    causes = list(_causes(before, new))
    if causes:
        raise invalid("Pod", key.name, *causes)


def _causes(before: Object, new: Object) -> Causes:
    if ANNOTATION_MIRROR in (before["metadata"].get("annotations") or {}):
        return [("metadata", "Forbidden: static pods cannot be resized")]
    causes: Causes = []
    if _qos(before) != _qos(new):
        why = "Pod QOS Class may not change as a result of resizing"
        causes.append(("spec", f"Invalid value: {why}"))
    if not _is_supported(before.get("status") or {}):
        causes.append(("spec", "Forbidden: Pod running on node without support for resize"))
    pairs = zip(before["spec"]["containers"], new["spec"]["containers"], strict=True)
    for number, (old, now) in enumerate(pairs):
        where = f"spec.containers[{number}].resources"
        for part in ("requests", "limits"):
            had, has = (amounts(_resources(container).get(part)) for container in (old, now))
            removed = had.keys() & _RESIZABLE - has.keys()
            if removed:
                causes.append((f"{where}.{part}", "Forbidden: resources cannot be removed"))
            if {n: a for n, a in had.items() if n not in _RESIZABLE} != {
                n: a for n, a in has.items() if n not in _RESIZABLE
            }:
                causes.append((where, "Forbidden: only cpu and memory resources are mutable"))
        limits = amounts(_resources(now).get("limits"))
        for name, request in amounts(_resources(now).get("requests")).items():
            if request > limits.get(name, request):
                causes.append((f"{where}.requests", f"Invalid value: must be at most {name} limit"))
    return causes


def _is_supported(status: Any) -> bool:
    """By the first container that runs; with none the server cannot know."""
    for container in status.get("containerStatuses") or ():
        if "running" in (container.get("state") or {}):
            return "resources" in container
    return True


def _resources(container: Any) -> Any:
    return container.get("resources") or {}


def _qos(pod: Object) -> object:
    return compute_kube_qos(msgspec.convert(pod["spec"], PodSpec))
