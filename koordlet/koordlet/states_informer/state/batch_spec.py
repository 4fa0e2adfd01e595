"""What batch resources a pod in the kubelet's list asks for, where no annotation says it. No IO.

The manager's webhook writes the annotation. Where no manager answered, or its gate is off, the pod
was created without it, and would run with the least weight and without any limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from koord_kube.views.pod import ContainerSpec, PodSpec
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, BATCH_MEMORY

_NAMES = (BATCH_CPU, BATCH_MEMORY)


def with_batch_spec(annotations: Mapping[str, str], spec: PodSpec) -> Mapping[str, str]:
    """The annotations, with the one that the webhook would have written if it is missing."""
    if ANNOTATION_EXTENDED_RESOURCE_SPEC in annotations:
        return annotations
    inits = spec.init_containers or []
    together = _amounts([*(spec.containers or []), *(one for one in inits if one.is_sidecar)])
    groups = {"containers": together, "initContainers": _amounts(inits)}
    found = {name: group for name, group in groups.items() if group}
    if not found:
        return annotations
    text = msgspec.json.encode(found, order="deterministic").decode()
    return {**annotations, ANNOTATION_EXTENDED_RESOURCE_SPEC: text}


def _amounts(containers: Iterable[ContainerSpec]) -> Mapping[str, object]:
    found = {}
    for one in containers:
        given = one.resources
        both = {} if given is None else {"limits": given.limits, "requests": given.requests}
        batch = {
            group: {name: amounts[name] for name in _NAMES if name in amounts}
            for group, amounts in both.items()
            if amounts and not amounts.keys().isdisjoint(_NAMES)
        }
        if batch:
            found[one.name] = batch
    return found
