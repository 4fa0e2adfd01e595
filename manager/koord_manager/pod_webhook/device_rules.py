"""Rules on what a pod's containers ask for of GPUs. No IO."""

from __future__ import annotations

from collections.abc import Iterator

from koord_model.demand import Amounts, amounts
from koord_model.excerpt import excerpt
from koord_model.keys import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED, NPU_CORE

from koord_manager.pod_webhook.document import PodDocument
from koord_manager.pod_webhook.view import PodWebhookView

_GATE = "ValidatePodDeviceResource"
_WHOLE = 100
"""Percent: one GPU."""


def problems(pod: PodDocument, view: PodWebhookView) -> list[str]:
    """Return the errors of its containers' requests."""
    if not view.gates.get(_GATE):
        return []
    return [
        f"container {excerpt(container.name)} requests {line}"
        for container in pod.spec.containers
        if container.resources is not None
        for line in _of(amounts(container.resources.requests))
    ]


def _of(requested: Amounts) -> Iterator[str]:
    if GPU in requested and GPU_SHARED in requested:
        yield f"{GPU} and {GPU_SHARED}; expected one of them"
    elif GPU in requested:
        percent = requested[GPU]
        if percent <= 0 or (percent > _WHOLE and percent % _WHOLE):
            yield f"{GPU} {percent}; expected 1 to {_WHOLE}, or a multiple of {_WHOLE}"
    elif GPU_SHARED in requested:
        yield from _shared(requested)


def _shared(requested: Amounts) -> Iterator[str]:
    over = requested[GPU_SHARED]
    if over <= 0:
        yield f"{GPU_SHARED} {over}; expected 1 or more"
    if requested.get(NPU_CORE):
        return
    memory, ratio = requested.get(GPU_MEMORY, 0), requested.get(GPU_MEMORY_RATIO, 0)
    if bool(memory) is bool(ratio):
        has = f"{GPU_MEMORY} {memory} and {GPU_MEMORY_RATIO} {ratio}"
        yield f"{has} with {GPU_SHARED}; expected one of them"
    for name in (GPU_CORE, GPU_MEMORY_RATIO):
        if over > 0 and requested.get(name, 0) % over:
            yield f"{name} {requested[name]}; expected a multiple of {GPU_SHARED}, which is {over}"
