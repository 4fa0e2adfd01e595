"""GPU requests of a new pod's containers, in the terms of the scheduler. No IO.

``koordinator.sh/gpu: N`` is N percent of a GPU's cores and of its memory; ``gpu.shared`` is over
how many GPUs, if nodes offer that. Requests of these equal their limits: Kubernetes takes them in
no other way. Whole NPUs (``npu-core`` with ``gpu-memory-ratio``) are requested without it.
"""

from __future__ import annotations

from koord_model.json_objects import inside, placed, without
from koord_model.keys import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED, NPU_CORE
from koord_model.quantity import whole
from koord_serving.admission.core.admission import Object

from koord_manager.pod_webhook.view import PodWebhookView

_OFF_GATE = "DisableDeviceResourceSpec"
_SHARED_GATE = "EnableSyncGPUSharedResource"
_NAMES = {GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED}
_WHOLE_NPUS = {NPU_CORE, GPU_MEMORY_RATIO}
_WHOLE = 100
"""Percent: one GPU."""


def mutated(given: Object, _namespace: str, view: PodWebhookView, _warnings: list[str]) -> Object:
    """With cores, memory ratio and number of GPUs for each container that asks for a GPU."""
    containers = given["spec"]["containers"]
    if view.gates.get(_OFF_GATE) or not any(_requested(container) for container in containers):
        return given
    counts = view.gates.get(_SHARED_GATE, True)
    new = [_container(container, counts_gpus=counts) for container in containers]
    return placed(given, new, "spec", "containers")


def _requested(container: Object) -> Object:
    """Return its GPU requests; a limit alone is a request too."""
    resources = inside(container, "resources")
    both = {**inside(resources, "limits"), **inside(resources, "requests")}
    if both.keys() >= _WHOLE_NPUS:
        return {}
    return {name: both[name] for name in _NAMES & both.keys()}


def _container(given: Object, *, counts_gpus: bool) -> Object:
    requested = _requested(given)
    try:
        amounts = {name: whole(quantity) for name, quantity in requested.items()}
    except ValueError:
        return given  # the API refuses an invalid quantity
    new: Object = {}
    if GPU in amounts:
        new = dict.fromkeys((GPU_CORE, GPU_MEMORY_RATIO), str(amounts[GPU]))
        amounts |= dict.fromkeys((GPU_CORE, GPU_MEMORY_RATIO), amounts[GPU])
    if requested and counts_gpus and GPU_SHARED not in amounts:
        new[GPU_SHARED] = str(_shared(amounts.get(GPU_MEMORY_RATIO, amounts.get(GPU_CORE, 0))))
    if not new:
        return given
    resources = inside(given, "resources")
    for group in ("requests", "limits"):
        has = without(inside(resources, group), GPU)
        resources = {**resources, group: {**has, **new}}
    return placed(given, resources, "resources")


def _shared(percent: int) -> int:
    """Over how many GPUs: whole ones where it is more than one."""
    return percent // _WHOLE if percent > _WHOLE and percent % _WHOLE == 0 else 1
