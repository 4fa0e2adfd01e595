"""Annotations that people write on pods: what our programs could not read of them. No IO.

koordlet and the scheduler find out much later, and say so where the pod's author does not look.
Koordinator's webhook admits nearly all of it, so that most are warnings here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from koord_model import annotations as pod_annotations
from koord_model import (
    blkio_qos,
    cpu_burst,
    cpu_qos,
    extended_resources,
    gang_annotations,
    memory_qos,
    resctrl,
)
from koord_model import traffic as network_qos
from koord_model.keys import (
    ANNOTATION_BLKIO_QOS,
    ANNOTATION_CPU_BURST,
    ANNOTATION_CPU_QOS,
    ANNOTATION_DEVICE_ALLOCATE_HINT,
    ANNOTATION_DEVICE_JOINT_ALLOCATE,
    ANNOTATION_EVICTION_POLICY,
    ANNOTATION_EXACT_MATCH_RESERVATION,
    ANNOTATION_EXTENDED_RESOURCE_SPEC,
    ANNOTATION_GANG_NETWORK_TOPOLOGY,
    ANNOTATION_GPU_PARTITION_SPEC,
    ANNOTATION_LOAD_FACTORS,
    ANNOTATION_MEMORY_QOS,
    ANNOTATION_NETWORK_QOS,
    ANNOTATION_NUMA_TOPOLOGY_SPEC,
    ANNOTATION_OOM_SCORE_ADJ_SPEC,
    ANNOTATION_RESCTRL,
    ANNOTATION_RESERVATION_AFFINITY,
    ANNOTATION_RESOURCE_SPEC,
)
from koord_model.pod import Pod

from koord_manager.pod_webhook.document import PodDocument

Annotations = Mapping[str, str]
_Check = Callable[[Pod], object]
"""Gives lines on what is ignored, last in a tuple or alone, or raises ValueError."""

_OBJECT: msgspec.json.Decoder[dict[str, object] | None] = msgspec.json.Decoder(
    dict[str, object] | None
)
_NAMES: msgspec.json.Decoder[list[str] | None] = msgspec.json.Decoder(list[str] | None)


def _resctrl(pod: Pod) -> tuple[tuple[str, ...]]:
    """Without its group, which is named by a UID that a new pod does not have."""
    found = pod_annotations.read(pod, ANNOTATION_RESCTRL, resctrl.parse)
    where = pod_annotations.about(pod, ANNOTATION_RESCTRL)
    return (tuple(f"{where}: {line} (ignored)" for line in (found.ignored if found else ())),)


_CHECKS: Mapping[str, _Check] = {
    ANNOTATION_CPU_BURST: lambda pod: cpu_burst.of_pod(pod, cpu_burst.CPUBurst()),
    ANNOTATION_MEMORY_QOS: lambda pod: memory_qos.of_pod(pod, memory_qos.MemoryQoS()),
    ANNOTATION_BLKIO_QOS: blkio_qos.of_pod,
    ANNOTATION_CPU_QOS: cpu_qos.own_cpu_qos,
    ANNOTATION_NETWORK_QOS: network_qos.pod_bandwidth,
    ANNOTATION_RESCTRL: _resctrl,
}
"""Those whose fields are koordlet's, by its own readers."""

_SHAPES: Mapping[str, msgspec.json.Decoder[Any]] = {
    **dict.fromkeys(
        (
            ANNOTATION_DEVICE_ALLOCATE_HINT,
            ANNOTATION_DEVICE_JOINT_ALLOCATE,
            ANNOTATION_EXACT_MATCH_RESERVATION,
            ANNOTATION_GANG_NETWORK_TOPOLOGY,
            ANNOTATION_GPU_PARTITION_SPEC,
            ANNOTATION_LOAD_FACTORS,
            ANNOTATION_NUMA_TOPOLOGY_SPEC,
            ANNOTATION_OOM_SCORE_ADJ_SPEC,
            ANNOTATION_RESERVATION_AFFINITY,
            ANNOTATION_RESOURCE_SPEC,
        ),
        _OBJECT,
    ),
    ANNOTATION_EVICTION_POLICY: _NAMES,
}
"""Those whose fields are the scheduler's, which names them: here whether they are JSON."""


def problems(pod: PodDocument) -> list[str]:
    """Return errors that nobody can work around: the pod would run without its batch limits."""
    text = pod.annotations.get(ANNOTATION_EXTENDED_RESOURCE_SPEC)
    if text is None:
        return []
    try:
        extended_resources.parse(text)
    except ValueError as error:
        return [f"annotation {ANNOTATION_EXTENDED_RESOURCE_SPEC}: {error}"]
    return []


def warnings(pod: PodDocument, namespace: str, before: Annotations) -> Iterator[str]:
    """A line on each annotation, other than ``before``, that will be ignored or refused later."""
    changed = {
        key: text for key, text in pod.annotations.items() if before.get(key) != text and text
    }
    known = Pod(pod.name, namespace, "", pod.labels, changed)
    for key in sorted(changed.keys() & _CHECKS.keys()):
        try:
            yield from _lines(_CHECKS[key](known))
        except ValueError as error:
            yield str(error)
    if minimum := gang_annotations.minimum_problem(pod.labels, changed):
        yield f"pod {known.full_name}: {minimum}"
    yield from (f"pod {known.full_name}: {line}" for line in gang_annotations.invalid(changed))
    for key in sorted(changed.keys() & _SHAPES.keys()):
        try:
            pod_annotations.decode(_SHAPES[key], changed[key])
        except ValueError as error:
            yield f"pod {known.full_name}: annotation {key}: {error}"


def _lines(found: object) -> tuple[str, ...]:
    lines = found[-1] if isinstance(found, tuple) and found else ()
    return lines if isinstance(lines, tuple) else ()
