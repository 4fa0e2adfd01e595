"""A test double of NVIDIA's library as ``pynvml`` shows it.

It enforces NVML's rules: nothing is answered before ``nvmlInit`` nor after the last
``nvmlShutdown``, and handles of an earlier session are dead; questions that a GPU does
not support are refused (NOT_SUPPORTED), those about a lost one with GPU_IS_LOST; no
process sampled is NOT_FOUND; waiting for events ends with TIMEOUT. Names and numbers are
held against the real module where that is installed (``test_nvml.py``).
"""

from __future__ import annotations

import queue
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

UNINITIALIZED, NOT_SUPPORTED, NOT_FOUND, DRIVER_NOT_LOADED = 1, 3, 6, 9
TIMEOUT, LIBRARY_NOT_FOUND, GPU_IS_LOST = 10, 12, 15
TEXTS = {
    UNINITIALIZED: "Uninitialized",
    NOT_SUPPORTED: "Not Supported",
    NOT_FOUND: "Not Found",
    DRIVER_NOT_LOADED: "Driver Not Loaded",
    TIMEOUT: "Timeout",
    LIBRARY_NOT_FOUND: "NVML Shared Library Not Found",
    GPU_IS_LOST: "GPU is lost",
}


class NVMLError(Exception):
    """As pynvml's: ``value`` is NVML's number."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return TEXTS.get(self.value, f"NVML Error with code {self.value}")


@dataclass
class FakeGPU:
    """One GPU. ``unsupported`` are names of functions that it refuses."""

    uuid: str
    minor: int = 0
    bus: str = "00000000:3B:00.0"
    name: str = "NVIDIA A100-SXM4-80GB"
    total: int = 80 << 30
    used: int = 1 << 30
    busy: int = 0
    processes: list[tuple[int, int | None]] = field(default_factory=list)
    samples: list[tuple[int, int, int]] = field(default_factory=list)
    """PID, time in microseconds, use of multiprocessors."""
    unsupported: set[str] = field(default_factory=set)
    recovery: int | None = None
    lost: bool = False
    linked: set[str] = field(default_factory=set)
    """UUIDs of the GPUs that NVLink connects it with."""
    instances: dict[int, tuple[str, str, int]] = field(default_factory=dict)
    """What MIG made of it, by index: UUID, name, bytes."""
    ecc: int | None = None
    rows: tuple[int, int, int, int] | None = None


class FakeNVML:
    """The module. ``broken`` is the error of ``nvmlInit``, ``gone`` that of anything later."""

    NVMLError = NVMLError
    nvmlMemory_v2 = 0x02000028
    nvmlEventTypeXidCriticalError = 8
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    NVML_P2P_CAPS_INDEX_NVLINK = 2
    NVML_P2P_STATUS_OK = 0
    NVML_DEVICE_MIG_ENABLE = 1

    def __init__(self, gpus: list[FakeGPU], driver: str = "570.86.15") -> None:
        self.gpus = gpus
        self.driver = driver
        self.broken = 0
        self.gone = 0
        self.sessions = 0
        self.event_sets = 0
        self.begun = 0
        self.events: queue.SimpleQueue[tuple[FakeGPU | None, int]] = queue.SimpleQueue()
        self.waiting = 0

    def nvmlInit(self) -> None:
        if self.broken:
            raise NVMLError(self.broken)
        self.sessions += 1
        self.begun += 1

    def nvmlShutdown(self) -> None:
        self._alive()
        self.sessions -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        self._alive()
        return self.driver

    def nvmlDeviceGetCount(self) -> int:
        self._alive()
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        self._alive()
        gpu = self.gpus[index]
        if gpu.lost:
            raise NVMLError(GPU_IS_LOST)
        return (self.begun, gpu)

    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        return self._of(handle, "nvmlDeviceGetUUID").uuid

    def nvmlDeviceGetMinorNumber(self, handle: Any) -> int:
        return self._of(handle, "nvmlDeviceGetMinorNumber").minor

    def nvmlDeviceGetPciInfo(self, handle: Any) -> Any:
        return SimpleNamespace(busId=self._of(handle, "nvmlDeviceGetPciInfo").bus)

    def nvmlDeviceGetName(self, handle: Any) -> str:
        return self._of(handle, "nvmlDeviceGetName").name

    def nvmlDeviceGetMemoryInfo(self, handle: Any, version: int = 0) -> Any:
        question = "nvmlDeviceGetMemoryInfo"
        gpu = self._of(handle, f"{question}_v2" if version else question)
        return SimpleNamespace(total=gpu.total, used=gpu.used)

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:
        return SimpleNamespace(gpu=self._of(handle, "nvmlDeviceGetUtilizationRates").busy)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]:
        gpu = self._of(handle, "nvmlDeviceGetComputeRunningProcesses")
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in gpu.processes]

    def nvmlDeviceGetProcessUtilization(self, handle: Any, since: int) -> list[Any]:
        gpu = self._of(handle, "nvmlDeviceGetProcessUtilization")
        found = [
            SimpleNamespace(pid=pid, timeStamp=at, smUtil=use)
            for pid, at, use in gpu.samples
            if at > since
        ]
        if not found:
            raise NVMLError(NOT_FOUND)
        return found

    def nvmlDeviceGetFieldValues(self, handle: Any, fields: list[int]) -> list[Any]:
        gpu = self._of(handle, "nvmlDeviceGetFieldValues")
        said = NOT_SUPPORTED if gpu.recovery is None else 0
        value = SimpleNamespace(uiVal=gpu.recovery or 0)
        return [SimpleNamespace(nvmlReturn=said, value=value) for _ in fields]

    def nvmlDeviceGetTotalEccErrors(self, handle: Any, kind: int, counter: int) -> int:
        gpu = self._of(handle, "nvmlDeviceGetTotalEccErrors")
        if gpu.ecc is None:
            raise NVMLError(NOT_SUPPORTED)
        return gpu.ecc

    def nvmlDeviceGetRemappedRows(self, handle: Any) -> tuple[int, int, int, int]:
        gpu = self._of(handle, "nvmlDeviceGetRemappedRows")
        if gpu.rows is None:
            raise NVMLError(NOT_SUPPORTED)
        return gpu.rows

    def nvmlDeviceGetP2PStatus(self, handle: Any, other: Any, index: int) -> int:
        gpu, peer = (self._of(one, "nvmlDeviceGetP2PStatus") for one in (handle, other))
        return 0 if peer.uuid in gpu.linked else 5

    def nvmlDeviceGetMigMode(self, handle: Any) -> list[int]:
        gpu = self._of(handle, "nvmlDeviceGetMigMode")
        return [int(bool(gpu.instances))] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any) -> int:
        self._of(handle, "nvmlDeviceGetMaxMigDeviceCount")
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: int) -> Any:
        gpu = self._of(handle, "nvmlDeviceGetMigDeviceHandleByIndex")
        if index not in gpu.instances:
            raise NVMLError(NOT_FOUND)
        uuid, name, total = gpu.instances[index]
        return (self.begun, FakeGPU(uuid, name=name, total=total))

    def nvmlEventSetCreate(self) -> list[FakeGPU]:
        self._alive()
        self.event_sets += 1
        return []

    def nvmlDeviceRegisterEvents(self, handle: Any, kinds: int, events: list[FakeGPU]) -> None:
        events.append(self._of(handle, "nvmlDeviceRegisterEvents"))

    def nvmlEventSetWait_v2(self, events: list[FakeGPU], milliseconds: int) -> Any:
        self._alive()
        self.waiting += 1
        try:
            gpu, xid = self.events.get(timeout=min(milliseconds, 20) / 1000)
        except queue.Empty:
            raise NVMLError(TIMEOUT) from None
        return SimpleNamespace(
            device=(self.begun, gpu), eventType=self.nvmlEventTypeXidCriticalError, eventData=xid
        )

    def nvmlEventSetFree(self, events: list[FakeGPU]) -> None:
        self.event_sets -= 1
        self._alive()

    def _alive(self) -> None:
        if not self.sessions:
            raise NVMLError(UNINITIALIZED)
        if self.gone:
            raise NVMLError(self.gone)

    def _of(self, handle: Any, question: str) -> FakeGPU:
        self._alive()
        session, gpu = handle
        if session != self.begun or gpu is None:
            raise NVMLError(2)
        if gpu.lost:
            raise NVMLError(GPU_IS_LOST)
        if question in gpu.unsupported:
            raise NVMLError(NOT_SUPPORTED)
        assert isinstance(gpu, FakeGPU)
        return gpu
