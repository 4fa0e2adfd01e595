"""A pod's needs of devices: from its requests, and from annotations about the choice. No IO.

Koordinator's ``deviceshare/utils.go`` and ``devicehandler_gpu.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from koord_model.demand import Amounts
from koord_model.device_allocated import ResourceAmounts
from koord_model.keys import (
    GPU,
    GPU_CORE,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    LABEL_GPU_ISOLATION_PROVIDER,
)

from koord_scheduler.plugins.device_share.device_hints import (
    NO_HINT,
    AllocateStrategy,
    DeviceHint,
    GPUPartitionSpec,
    JointAllocation,
    device_hints,
    joint_allocation,
    partition_spec,
)
from koord_scheduler.plugins.device_share.device_object import GPU_TYPE
from koord_scheduler.plugins.device_share.device_requests import (
    DEVICE_RESOURCES,
    RESOURCES_BY_TYPE,
    VENDOR_CARDS,
    WHOLE_CARD,
    check_requests,
)


@dataclass(frozen=True)
class DeviceNeed:
    """Devices of one type: ``count`` of them, and ``each`` of every one.

    With a ``count`` of 0 it is all devices that its hint selects. It ``is_shared`` if a pod leaves
    something of its GPUs to others.
    """

    type: str
    each: ResourceAmounts
    count: int = 1
    hint: DeviceHint = NO_HINT
    is_shared: bool = False

    @cached_property
    def amounts(self) -> Amounts:
        """``each``, by name."""
        return dict(self.each)


@dataclass(frozen=True)
class PodDeviceNeeds:
    """All that a pod needs of devices, by type; GPUs come first.

    ``problem`` says why no node can give it. ``isolation`` is what is to keep pods apart on a GPU.
    """

    needs: tuple[DeviceNeed, ...] = ()
    joint: JointAllocation | None = None
    partitions: GPUPartitionSpec | None = None
    isolation: str = ""
    problem: str = ""

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        return bool(self.needs or self.problem)

    @cached_property
    def _hash(self) -> int:
        return hash((self.needs, self.joint, self.partitions, self.isolation, self.problem))

    @cached_property
    def by_type(self) -> Mapping[str, DeviceNeed]:
        """The needs by type."""
        return {need.type: need for need in self.needs}

    @property
    def shares_gpus(self) -> bool:
        """True if it takes parts of GPUs."""
        return any(need.is_shared for need in self.needs)


NO_DEVICE_NEEDS = PodDeviceNeeds()


def asks_for_devices(names: Iterable[str]) -> bool:
    """True if any of these resources is one of devices."""
    return not DEVICE_RESOURCES.isdisjoint(names)


def pod_device_needs(
    requests: Amounts, annotations: Mapping[str, str], labels: Mapping[str, str]
) -> PodDeviceNeeds:
    """Return the needs of a pod that ``requests`` so much; most pods need none."""
    if not asks_for_devices(requests):
        return NO_DEVICE_NEEDS
    try:
        hints = device_hints(annotations)
        found = [
            _need(kind, {name: requests[name] for name in names if requests.get(name)}, hints)
            for kind, names in RESOURCES_BY_TYPE.items()
        ]
        needs = tuple(one for one in found if one is not None)
        return PodDeviceNeeds(
            needs,
            _joint(annotations, needs) if needs else None,
            partition_spec(annotations) if any(need.type == GPU_TYPE for need in needs) else None,
            labels.get(LABEL_GPU_ISOLATION_PROVIDER, ""),
        )
    except ValueError as error:
        return PodDeviceNeeds(problem=str(error))


def _need(kind: str, requests: Amounts, hints: Mapping[str, DeviceHint]) -> DeviceNeed | None:
    if not requests:
        return None
    check_requests(requests)
    hint = hints.get(kind, NO_HINT)
    if kind == GPU_TYPE:
        return _gpu_need(requests, hint)
    ((name, amount),) = requests.items()
    if amount > WHOLE_CARD:
        return DeviceNeed(kind, ((name, WHOLE_CARD),), amount // WHOLE_CARD, hint)
    if hint.strategy is AllocateStrategy.ALL:
        return DeviceNeed(kind, ((name, amount),), 0, hint)
    if hint.strategy is AllocateStrategy.COUNT:
        each = WHOLE_CARD if hint.keeps_device else 1
        return DeviceNeed(kind, ((name, each),), amount, hint)
    return DeviceNeed(kind, ((name, amount),), 1, hint)


def _gpu_need(requests: Amounts, hint: DeviceHint) -> DeviceNeed:
    """Cards as per cent of core and memory; amounts of several are divided, rounded down."""
    amounts = dict(requests)
    for name in (*VENDOR_CARDS, GPU):
        if name in amounts:
            per_cent = amounts.pop(name) * (WHOLE_CARD if name in VENDOR_CARDS else 1)
            amounts[GPU_CORE] = amounts[GPU_MEMORY_RATIO] = per_cent
    shared, ratio = amounts.pop(GPU_SHARED, 0), amounts.get(GPU_MEMORY_RATIO)
    count = shared or 1
    if not shared and ratio is not None and ratio > WHOLE_CARD:
        count = ratio // WHOLE_CARD
    each = tuple(sorted((name, amount // count) for name, amount in amounts.items()))
    is_shared = ratio is None or ratio // count < WHOLE_CARD
    return DeviceNeed(GPU_TYPE, each, count, hint, is_shared)


def _joint(annotations: Mapping[str, str], needs: tuple[DeviceNeed, ...]) -> JointAllocation | None:
    """Without types of which nothing is needed, or all devices."""
    found = joint_allocation(annotations)
    if found is None:
        return None
    counted = {need.type for need in needs if need.hint.strategy is not AllocateStrategy.ALL}
    types = tuple(one for one in found.types if one in counted)
    return JointAllocation(types, found.is_same_pcie) if types else None
