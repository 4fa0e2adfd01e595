"""NVIDIA GPUs: what node, pods and containers use of them, and the info ``GPUs``.

Sources: NVML (``koord_host.nvml``) for devices and processes; ``/proc/PID/cgroup`` for whose
a process is; ``/sys/bus/pci/devices/*`` for where a GPU is. The node's use is the GPU's
own: percent of time in which kernels ran, bytes in use. A pod's or container's is the
sum over its processes: percent of the multiprocessors, bytes.

When a GPU is not healthy says ``koord_host.devices.gpu``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from koord_host.devices import pci
from koord_host.devices.gpu import (
    DriverUnavailableError,
    GPUHealth,
    GPUProcess,
    GPUReading,
)
from koord_model.keys import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from koord_model.node_info import GPUs, SchedulableDevice

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)
from koordlet.states_informer.state.cgroup_paths import container_group

INTERVAL = "collect_res_used_interval"
ENABLED_BY = ("Accelerators",)
BLOCKING = True


@dataclass(slots=True)
class _KnownGPU:
    """A GPU, and what is remembered of its health."""

    device: SchedulableDevice
    health: GPUHealth = field(default_factory=GPUHealth)


class Collector:
    """Asks the driver at each run; remembers each GPU's health."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources
        self._known: dict[str, _KnownGPU] = {}
        self._models: dict[str, str] = {}

    def collect(self, context: CollectContext) -> Samples:
        """All GPUs, also those that are listed no longer."""
        counters = self._sources.gpus
        if counters is None:
            raise UnavailableError("this program was given no access to NVML")
        partial: list[str] = []
        try:
            readings = counters.read(context.at)
        except DriverUnavailableError as error:
            if not self._known:
                raise UnavailableError(str(error)) from error
            readings = []  # a driver that is gone takes with it what it drove
            partial.append(str(error))
        devices: dict[str, SchedulableDevice] = {}
        samples: list[Sample] = []
        owners = _ProcessOwners(self._sources, context)
        for reading in readings:
            partial += (f"GPU {reading.uuid or reading.minor}: {line}" for line in reading.missing)
            if not reading.uuid or reading.minor < 0:
                partial.append(f"a GPU does not say which it is: {reading.error} (left out)")
                continue
            devices[reading.uuid] = self._device(reading, context.steady, partial)
            samples += _samples(reading, owners)
        for uuid in self._known.keys() - devices.keys():
            devices[uuid] = self._lost(uuid)
        info = GPUs(
            tuple(sorted(devices.values(), key=lambda device: (device.minor, device.id))),
            vendor="nvidia",
            model=self._model(readings),
            driver=counters.driver,
        )
        return Samples(samples, (info,), tuple(dict.fromkeys(partial)))

    def _device(
        self, gpu_reading: GPUReading, steady: float, partial: list[str]
    ) -> SchedulableDevice:
        known = self._known.get(gpu_reading.uuid)
        if (
            known is None
            or known.device.bus != _bus(gpu_reading)
            or known.device.minor != gpu_reading.minor
        ):
            placed = self._placed(gpu_reading, partial)
            known = self._known.setdefault(gpu_reading.uuid, _KnownGPU(placed))
            known.device = placed
        reason, message = known.health.judge(gpu_reading, steady)
        memory = gpu_reading.memory or known.device.resources.get(GPU_MEMORY, 0)
        known.device = replace(
            known.device,
            resources={GPU_CORE: 100, GPU_MEMORY: memory, GPU_MEMORY_RATIO: 100},
            healthy=not reason,
            reason=reason,
            message=message,
        )
        return known.device

    def _model(self, readings: Iterable[GPUReading]) -> str:
        """The model of all GPUs known; "" where they differ."""
        self._models |= {
            reading.uuid: reading.model for reading in readings if reading.uuid and reading.model
        }
        found = set(self._models.values())
        return found.pop() if len(found) == 1 else ""

    def _lost(self, uuid: str) -> SchedulableDevice:
        """One that the driver listed before: pods may still hold it."""
        known = self._known[uuid]
        known.health.reset_due = True
        line = "the driver lists it no longer"
        known.device = replace(known.device, healthy=False, reason="NotFound", message=line)
        return known.device

    def _placed(self, gpu_reading: GPUReading, partial: list[str]) -> SchedulableDevice:
        """A GPU and its place; without a place if sysfs does not know it."""
        device = SchedulableDevice(
            type="gpu", id=gpu_reading.uuid, minor=gpu_reading.minor, bus=_bus(gpu_reading)
        )
        try:
            place = pci.place(self._sources.tree, self._sources.sys_root, device.bus)
        except (OSError, ValueError) as error:
            partial.append(f"GPU {gpu_reading.uuid}: no place in sysfs: {error}")
            return device
        return replace(device, numa_node=place.numa_node, pcie=place.pcie)


class _ProcessOwners:
    """Owning pods and containers of processes, by the names of their cgroups.

    Names of pods' and containers' cgroups hold their ids, so they are unique, whatever
    cgroup namespace shows them below what.
    """

    def __init__(self, sources: CollectorSources, context: CollectContext) -> None:
        self._sources = sources
        self._context = context
        self._labels: dict[str, tuple[str, ...]] = {}

    def of(self, pid: int) -> Iterator[tuple[str, tuple[str, ...]]]:
        """("pod", its label) and ("container", its labels), as far as there are."""
        if not self._labels:
            self._labels = {name: labels for name, labels in self._named() if name}
        try:
            text = self._sources.tree.read(f"{self._sources.layout.proc_root}/{pid}/cgroup")
        except OSError:
            return  # it has ended
        paths = (line.split(":", 2)[-1] for line in text.splitlines())
        names = {name for path in paths for name in path.split("/")}
        found = {labels for name in names if (labels := self._labels.get(name))}
        for labels in sorted(found, key=len):
            yield ("pod" if len(labels) == 1 else "container"), labels

    def _named(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        layout = self._sources.layout
        for record in self._context.pods:
            group = layout.group_of_parent(record.pod.cgroup_parent)
            yield _last(group), (record.pod.uid,)
            for ident, container in record.containers.items():
                yield _last(container_group(record, container, layout)), (record.pod.uid, ident)


def _samples(gpu_reading: GPUReading, owners: _ProcessOwners) -> Iterator[Sample]:
    """Samples of one GPU's usage by node, pods and containers."""
    labels = (str(gpu_reading.minor), gpu_reading.uuid)
    if gpu_reading.core is not None:
        yield Sample(Series("node_gpu_core_usage", labels), gpu_reading.core)
    if gpu_reading.memory_used is not None:
        yield Sample(Series("node_gpu_memory_usage", labels), gpu_reading.memory_used)
    sums: dict[tuple[str, tuple[str, ...]], GPUProcess] = {}
    for process in gpu_reading.processes:
        for owner in owners.of(process.pid):
            before = sums.get(owner, GPUProcess(0))
            both = GPUProcess(0, before.memory + process.memory, before.core + process.core)
            sums[owner] = both
    for (who, ident), used in sums.items():
        yield Sample(Series(f"{who}_gpu_core_usage", (*ident, *labels)), used.core)
        yield Sample(Series(f"{who}_gpu_memory_usage", (*ident, *labels)), used.memory)


def _bus(gpu_reading: GPUReading) -> str:
    return pci.address(gpu_reading.bus) if gpu_reading.bus else ""


def _last(group: str) -> str:
    return group.rpartition("/")[2]
