"""NVIDIA's management library, read: for whoever lists the GPUs of the node, or measures them.

It is asked through nvidia-ml-py (``pynvml``), which is loaded when first needed: most
nodes have neither. Errors of one question cost its answer, with a line in ``missing``;
a GPU that is lost costs itself; a driver that is gone costs the session.

While the session is open the GPUs are in use for the driver, which refuses to reset
them: stop this program first, as any that monitors GPUs.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from koord_service.extras import install_command

from koord_host.devices.gpu import (
    DriverUnavailableError,
    GPUDetails,
    GPUInstance,
    GPUProcess,
    GPUReading,
)

T = TypeVar("T")

_AGAIN_SECONDS = 60.0
"""Between two sessions begun to see whether a GPU that is lost has come back."""
_REFUSED_SECONDS = 10.0
"""Between two attempts to start the library, which may load kernel modules."""
_WAIT_MILLISECONDS = 500
_SAMPLED_SECONDS = 2.0
"""Age of the oldest samples of processes to ask for; the driver samples up to once a second."""

_SUCCESS = 0
_UNINITIALIZED = 1
_NOT_SUPPORTED = 3
_NOT_FOUND = 6
_DRIVER_NOT_LOADED = 9
_TIMEOUT = 10
_LIBRARY_NOT_FOUND = 12
_GPU_IS_LOST = 15
_RESET_REQUIRED = 16
_VERSION_MISMATCH = 18
_OVER = (_UNINITIALIZED, _DRIVER_NOT_LOADED, _VERSION_MISMATCH)
_LOST = (_GPU_IS_LOST, _RESET_REQUIRED)
_WAYS_OUT = {
    _LIBRARY_NOT_FOUND: "install NVIDIA's driver, or run the container with its libraries",
    _DRIVER_NOT_LOADED: "load the kernel module nvidia",
    _VERSION_MISMATCH: "the library is not of the driver's version: reboot, or reload the module",
}
_RECOVERIES = (1, 2, 4, 6, 7)
"""Reset, reboot of the node, drain and reset, bus reset, reboot of the system."""


def _system_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class NVML:
    """All GPUs of the node; implements ``devices.gpu.GPUInventory``.

    ``library`` is the module ``pynvml``; tests give another. ``on_xid`` is called, in a thread of
    this class, with each error event (XID) that the next reading will have. ``system_memory`` is
    what the machine has, in bytes.
    """

    def __init__(
        self,
        library: Any = None,
        on_xid: Callable[[int], None] | None = None,
        system_memory: Callable[[], int] = _system_memory,
    ) -> None:
        self._library = library
        self._on_xid = on_xid
        self._system_memory = system_memory
        self._session: _Session | None = None
        self._began = float("-inf")
        self._refused = ""
        self.driver = ""

    def read(self, at: float) -> list[GPUReading]:
        """All GPUs now.

        Raises:
            DriverUnavailableError: there is no library or no driver, or it is gone.
        """
        session = self._session or self._begin(at)
        try:
            readings = session.read(at)
        except _DriverGoneError as error:
            self.close()
            raise DriverUnavailableError(str(error)) from error
        if any(reading.error for reading in readings) and abs(at - self._began) >= _AGAIN_SECONDS:
            self.close()  # its handles stay dead, even if the GPU comes back
        return readings

    def details(self) -> dict[str, GPUDetails]:
        """Return the details of each GPU that answers, for an inventory; none between sessions."""
        return {} if self._session is None else self._session.details()

    def close(self) -> None:
        """End the session; the next reading begins another."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _begin(self, at: float) -> _Session:
        if self._refused and abs(at - self._began) < _REFUSED_SECONDS:
            raise DriverUnavailableError(self._refused)
        self._began, self._refused = at, ""
        try:
            self._session = self._opened()
        except DriverUnavailableError as error:
            self._refused = str(error)
            raise
        return self._session

    def _opened(self) -> _Session:
        if self._library is None:
            try:
                self._library = importlib.import_module("pynvml")
            except ImportError as error:
                raise DriverUnavailableError(
                    f"nvidia-ml-py is not installed; run: {install_command('nvidia')}"
                ) from error
        try:
            self._library.nvmlInit()
        except self._library.NVMLError as error:
            way_out = _WAYS_OUT.get(error.value, "see nvidia-smi")
            raise DriverUnavailableError(f"NVML cannot be started: {error}: {way_out}") from error
        try:
            self.driver = _text(self._library.nvmlSystemGetDriverVersion())
            return _Session(self._library, self._on_xid, self._system_memory)
        except self._library.NVMLError as error:
            with contextlib.suppress(self._library.NVMLError):
                self._library.nvmlShutdown()
            raise DriverUnavailableError(f"NVML does not list its GPUs: {error}") from error


class _DriverGoneError(Exception):
    """The driver is gone."""


class _GPULostError(Exception):
    """This GPU does not answer."""


@dataclass(frozen=True, slots=True)
class _GPU:
    """A GPU's handle, and what of it never changes."""

    handle: Any
    reading: GPUReading


class _Session:
    """One initialisation of the library: handles, and the thread that waits for errors."""

    def __init__(
        self,
        library: Any,
        on_xid: Callable[[int], None] | None,
        system_memory: Callable[[], int],
    ) -> None:
        self._library = library
        self._system_memory = system_memory
        count: int = library.nvmlDeviceGetCount()
        self._gpus = [self._gpu(index) for index in range(count)]
        self._watch = _Watch(library, self._gpus, on_xid)

    def read(self, at: float) -> list[GPUReading]:
        """All GPUs now.

        Raises:
            _OverError: the driver is gone.
        """
        return [self._reading(gpu, at) for gpu in self._gpus]

    def details(self) -> dict[str, GPUDetails]:
        """Return the details of each GPU that answers, for an inventory."""
        found = {}
        for gpu in self._gpus:
            if gpu.handle is not None:
                with contextlib.suppress(_GPULostError, _DriverGoneError):
                    found[gpu.reading.uuid] = self._details(gpu)
        return found

    def close(self) -> None:
        """Stop waiting for errors, and leave the library."""
        if self._watch.stop():
            with contextlib.suppress(self._library.NVMLError):
                self._library.nvmlShutdown()

    def _gpu(self, index: int) -> _GPU:
        library, missing = self._library, list[str]()
        try:
            handle = library.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(library.nvmlDeviceGetUUID(handle))
        except library.NVMLError as error:
            return _GPU(None, GPUReading(-1, "", error=f"number {index}: {error}"))
        try:
            minor = self._ask("no minor", missing, library.nvmlDeviceGetMinorNumber, handle)
            pci = self._ask("no PCI address", missing, library.nvmlDeviceGetPciInfo, handle)
            name = self._ask("no model", missing, library.nvmlDeviceGetName, handle)
            memory = self._ask("no memory", missing, self._total_memory, handle)
        except (_GPULostError, _DriverGoneError) as error:
            # Which the next questions say again.
            return _GPU(handle, GPUReading(index, uuid, error=str(error)))
        return _GPU(
            handle,
            GPUReading(
                minor=index if minor is None else int(minor),
                uuid=uuid,
                bus=_text(pci.busId) if pci is not None else "",
                model=_text(name or ""),
                memory=memory or 0,
                missing=tuple(missing),
            ),
        )

    def _reading(self, gpu: _GPU, at: float) -> GPUReading:
        reading = gpu.reading
        if gpu.handle is None:
            return reading
        missing = list(reading.missing)
        reading = replace(reading, xids=self._watch.take(reading.uuid))
        if not self._watch.watches(reading.uuid):
            missing.append("its error events are not reported")
        library, handle = self._library, gpu.handle
        try:
            memory = self._ask("no memory in use", missing, self._memory, handle)
            rates = self._ask(
                "no utilisation", missing, library.nvmlDeviceGetUtilizationRates, handle
            )
            return replace(
                reading,
                memory_used=memory.used if memory is not None else None,
                core=float(rates.gpu) if rates is not None else None,
                processes=self._processes(handle, at, missing),
                reset_needed=self._reset_needed(handle),
                missing=tuple(missing),
            )
        except _GPULostError as error:
            return replace(reading, error=str(error))

    def _details(self, gpu: _GPU) -> GPUDetails:
        library, handle = self._library, gpu.handle
        errors = self._ask(
            "",
            [],
            library.nvmlDeviceGetTotalEccErrors,
            handle,
            library.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            library.NVML_VOLATILE_ECC,
        )
        rows = self._ask("", [], library.nvmlDeviceGetRemappedRows, handle)
        return GPUDetails(
            gpu.reading.uuid,
            tuple(other.reading.uuid for other in self._gpus if self._linked(gpu, other)),
            tuple(self._instances(handle)),
            errors,
            bool(rows is not None and rows[3]),
        )

    def _linked(self, gpu: _GPU, other: _GPU) -> bool:
        """True if NVLink connects two GPUs, directly or by a switch."""
        if other.handle is None or other.handle is gpu.handle:
            return False
        library = self._library
        index = library.NVML_P2P_CAPS_INDEX_NVLINK
        call = library.nvmlDeviceGetP2PStatus
        try:
            status = self._ask("", [], call, gpu.handle, other.handle, index)
        except _GPULostError:
            return False  # the other: this one has just answered
        return status is not None and status == library.NVML_P2P_STATUS_OK

    def _instances(self, handle: Any) -> Iterator[GPUInstance]:
        """MIG instances of a GPU; none where MIG is off or not supported."""
        library = self._library
        mode = self._ask("", [], library.nvmlDeviceGetMigMode, handle)
        if mode is None or mode[0] != library.NVML_DEVICE_MIG_ENABLE:
            return
        for index in range(self._ask("", [], library.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
            # There is none at an index that is free: NOT_FOUND.
            part = self._ask("", [], library.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
            if part is None:
                continue
            name = self._ask("", [], library.nvmlDeviceGetName, part)
            memory = self._ask("", [], library.nvmlDeviceGetMemoryInfo, part)
            profile = _text(name or "").rpartition("MIG ")[2]
            yield GPUInstance(
                _text(library.nvmlDeviceGetUUID(part)), profile, memory.total if memory else 0
            )

    def _total_memory(self, handle: Any) -> int:
        """Bytes; one that shares the system's memory (GB10) has none of its own to report."""
        try:
            return int(self._memory(handle).total)
        except self._library.NVMLError as error:
            if error.value != _NOT_SUPPORTED:
                raise
            return self._system_memory()

    def _memory(self, handle: Any) -> Any:
        """Bytes in all and in use; the second version leaves out what the driver reserves."""
        library = self._library
        try:
            return library.nvmlDeviceGetMemoryInfo(handle, library.nvmlMemory_v2)
        except library.NVMLError as error:
            if error.value in (*_OVER, *_LOST):
                raise
            return library.nvmlDeviceGetMemoryInfo(handle)

    def _processes(self, handle: Any, at: float, missing: list[str]) -> tuple[GPUProcess, ...]:
        """Memory of compute processes, and multiprocessors of whatever used them lately."""
        library = self._library
        listed = self._ask(
            "no processes", missing, library.nvmlDeviceGetComputeRunningProcesses, handle
        )
        since = int(max(at - _SAMPLED_SECONDS, 0) * 1_000_000)
        sampled = self._ask(
            "no use by process", missing, library.nvmlDeviceGetProcessUtilization, handle, since
        )
        memory: dict[int, int] = {}
        for process in listed or ():  # twice for a process on two slices of a GPU
            memory[process.pid] = memory.get(process.pid, 0) + (process.usedGpuMemory or 0)
        newest: dict[int, tuple[int, int]] = {}
        for sample in sampled or ():
            if sample.pid and sample.smUtil <= 100:  # drivers leave unused entries as they were
                newest[sample.pid] = max(
                    newest.get(sample.pid, (0, 0)), (sample.timeStamp, sample.smUtil)
                )
        return tuple(
            GPUProcess(pid, memory.get(pid, 0), float(newest.get(pid, (0, 0))[1]))
            for pid in sorted({*memory, *newest})
        )

    def _reset_needed(self, handle: Any) -> bool | None:
        """True if the driver asks for a reset; ``None`` from one before R570."""
        library = self._library
        field = library.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
        values = self._ask("", [], library.nvmlDeviceGetFieldValues, handle, [field])
        if values is None or values[0].nvmlReturn != _SUCCESS:
            return None
        return values[0].value.uiVal in _RECOVERIES

    def _ask(self, what: str, missing: list[str], call: Callable[..., T], *given: Any) -> T | None:
        """One question's answer; ``None`` where there is none, with a line in ``missing``."""
        try:
            return call(*given)
        except self._library.NVMLError as error:
            if error.value in _OVER:
                raise _DriverGoneError(f"NVIDIA's driver is gone: {error}") from error
            if error.value in _LOST:
                raise _GPULostError(str(error)) from error
            if error.value != _NOT_FOUND:  # else there is nothing to report now
                missing.append(f"{what}: {error}")
            return None


class _Watch:
    """Waits for error events in a thread of its own: the library has no descriptor to poll."""

    def __init__(
        self, library: Any, gpus: list[_GPU], on_xid: Callable[[int], None] | None
    ) -> None:
        self._library = library
        self._on_xid = on_xid
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._xids: dict[str, list[int]] = {}
        self._thread: threading.Thread | None = None
        alive = [gpu for gpu in gpus if gpu.handle is not None]
        if not alive:
            return
        events = library.nvmlEventSetCreate()
        for gpu in alive:
            with contextlib.suppress(library.NVMLError):
                kind = library.nvmlEventTypeXidCriticalError
                library.nvmlDeviceRegisterEvents(gpu.handle, kind, events)
                self._xids[gpu.reading.uuid] = []
        if not (self._xids and self._started(events)):
            self._xids = {}
            self._free(events)

    def _started(self, events: Any) -> bool:
        thread = threading.Thread(
            target=self._wait, args=(events,), name="nvml events", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no thread can be started now
            return False
        self._thread = thread
        return True

    def watches(self, uuid: str) -> bool:
        """True if a GPU reports events."""
        return uuid in self._xids

    def take(self, uuid: str) -> tuple[int, ...]:
        """A GPU's errors since the last time."""
        with self._lock:
            taken = tuple(self._xids.get(uuid, ()))
            if taken:
                self._xids[uuid] = []
            return taken

    def stop(self) -> bool:
        """Stop waiting; whether the thread has left the library."""
        self._stopped.set()
        if self._thread is None:
            return True
        self._thread.join(10 * _WAIT_MILLISECONDS / 1000)
        return not self._thread.is_alive()

    def _wait(self, events: Any) -> None:
        try:
            self._wait_until_stopped(events)
        finally:
            self._free(events)

    def _free(self, events: Any) -> None:
        with contextlib.suppress(self._library.NVMLError):
            self._library.nvmlEventSetFree(events)

    def _wait_until_stopped(self, events: Any) -> None:
        while not self._stopped.is_set():
            try:
                event = self._library.nvmlEventSetWait_v2(events, _WAIT_MILLISECONDS)
                self._saw(event)
            except self._library.NVMLError as error:
                if error.value != _TIMEOUT:
                    # A lost GPU answers every wait at once.
                    self._stopped.wait(_WAIT_MILLISECONDS / 1000)

    def _saw(self, event: Any) -> None:
        if event.eventType != self._library.nvmlEventTypeXidCriticalError:
            return
        try:
            uuid = _text(self._library.nvmlDeviceGetUUID(event.device))
        except self._library.NVMLError:
            uuid = ""
        with self._lock:
            # An event that does not say whose it is counts for all.
            for known in [uuid] if uuid in self._xids else list(self._xids):
                self._xids[known].append(int(event.eventData))
        if self._on_xid is not None:
            self._on_xid(int(event.eventData))


def _text(given: str | bytes) -> str:
    return given.decode(errors="replace") if isinstance(given, bytes) else str(given)
