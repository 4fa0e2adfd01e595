"""Resources of devices, and those that a pod may request together. No IO.

Koordinator's ``deviceshare/utils.go``. Requests come in units of their own: a hundredth of a card
(``koordinator.sh/gpu``, ``gpu-core``, ``gpu-memory-ratio``, ``rdma``, ``fpga``), a card of a vendor
(``nvidia.com/gpu``), or bytes (``gpu-memory``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from koord_model.demand import Amounts
from koord_model.keys import (
    AMD_GPU,
    FPGA,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    HYGON_DCU,
    NPU_CORE,
    NPU_CPU,
    NPU_DVPP,
    NVIDIA_GPU,
    RDMA,
)

from koord_scheduler.plugins.device_share.device_object import FPGA_TYPE, GPU_TYPE, RDMA_TYPE

WHOLE_CARD = 100
"""Per cent of a device."""
VENDOR_CARDS = (NVIDIA_GPU, AMD_GPU, HYGON_DCU)
NPU_RESOURCES = (NPU_CORE, NPU_CPU, NPU_DVPP)
RESOURCES_BY_TYPE: Mapping[str, tuple[str, ...]] = {
    GPU_TYPE: (
        *VENDOR_CARDS,
        GPU,
        GPU_SHARED,
        GPU_CORE,
        GPU_MEMORY,
        GPU_MEMORY_RATIO,
        *NPU_RESOURCES,
    ),
    RDMA_TYPE: (RDMA,),
    FPGA_TYPE: (FPGA,),
}
DEVICE_RESOURCES = frozenset(name for names in RESOURCES_BY_TYPE.values() for name in names)


def _is_whole(amount: int) -> bool:
    """Several devices are requested as multiples of 100."""
    return amount <= WHOLE_CARD or amount % WHOLE_CARD == 0


def _any(amounts: Amounts) -> bool:
    return True


def _in_per_cent(amounts: Amounts) -> bool:
    return all(_is_whole(amounts.get(name, 0)) for name in (GPU_CORE, GPU_MEMORY_RATIO))


def _shared(amounts: Amounts) -> bool:
    """Parts of ``gpu.shared`` cards, the same of each."""
    cards = amounts[GPU_SHARED]
    given = [amounts[name] for name in (GPU_CORE, GPU_MEMORY_RATIO) if name in amounts]
    return all(one % cards == 0 and one // cards <= WHOLE_CARD for one in given)


def _part_of_npu(amounts: Amounts) -> bool:
    return amounts[GPU_SHARED] == 1 and amounts.get(NPU_DVPP, 0) <= WHOLE_CARD


_COMBINATIONS: Mapping[frozenset[str], Callable[[Amounts], bool]] = {
    **{frozenset({one}): _any for one in (*VENDOR_CARDS, GPU, RDMA, FPGA)},
    **{
        frozenset(names): _in_per_cent
        for names in (
            {GPU_MEMORY},
            {GPU_MEMORY_RATIO},
            {GPU_CORE, GPU_MEMORY},
            {GPU_CORE, GPU_MEMORY_RATIO},
            {NPU_CORE, GPU_MEMORY_RATIO},
        )
    },
    **{
        frozenset({GPU_SHARED, *names}): _shared
        for names in (
            {GPU_MEMORY},
            {GPU_MEMORY_RATIO},
            {GPU_CORE, GPU_MEMORY},
            {GPU_CORE, GPU_MEMORY_RATIO},
            # Whole NPUs, of which Koordinator's webhook says how many there are.
            {NPU_CORE, GPU_MEMORY_RATIO},
        )
    },
    frozenset({GPU_SHARED, NPU_CORE, NPU_CPU, GPU_MEMORY}): _part_of_npu,
    frozenset({GPU_SHARED, *NPU_RESOURCES, GPU_MEMORY}): _part_of_npu,
}


def check_requests(requests: Amounts) -> None:
    """Refuse requests of one type of devices that mean nothing.

    Raises:
        ValueError: they do not, in Koordinator's words.
    """
    for name in (GPU, FPGA, RDMA):
        if not _is_whole(requests.get(name, 0)):
            raise ValueError(f"invalid resource unit {name}: {requests[name]}")
    allowed = _COMBINATIONS.get(frozenset(requests))
    if allowed is None or not allowed(requests):
        names = " ".join(sorted(requests))
        raise ValueError(f"invalid resource device requests: [{names}]")
