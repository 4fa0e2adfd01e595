"""Feature gates of koordlet, with their defaults: Koordinator's, and our own. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord_model import feature_gates

DEFAULTS: Mapping[str, bool] = {
    "Accelerators": False,
    "BECPUEvict": False,
    "BECPUSuppress": True,
    "BEMemoryEvict": False,
    "BlkIOReconcile": False,
    "CPUAllocatableEvict": False,
    "CPUBurst": True,
    "CPUEvict": False,
    "CPUPools": False,
    "CPICollector": False,
    "CgroupReconcile": False,
    "ColdPageCollector": False,
    "CustomNodeResource": False,
    "DyingCgroupReclaim": False,
    "EvictionPlugins": False,
    "HugePageReport": False,
    "InterferenceDetection": False,
    "IrqAffinity": False,
    "MemoryAllocatableEvict": False,
    "MemoryEvict": False,
    "MemoryGuard": False,
    "MemoryOffload": False,
    "MemoryStatCollector": False,
    "MemoryWatermark": False,
    "NodeTopologyReport": True,
    "PSICollector": False,
    "PressureSuppress": False,
    "RDMADevices": False,
    "RdtResctrl": True,
    "RecentUsage": False,
    "ReporterPlugins": False,
    "ResctrlCollector": False,
    "SchedStatCollector": False,
    "ServiceCPUWeight": False,
    "SystemConfig": False,
    "TCPCollector": False,
    "TaskDelayCollector": False,
    "ThresholdEvict": False,
    "ZoneInfoCollector": False,
}
"""Those that do something here.

Our own are CPUPools, CustomNodeResource, DyingCgroupReclaim, EvictionPlugins,
InterferenceDetection, IrqAffinity, MemoryGuard, MemoryOffload, MemoryStatCollector,
MemoryWatermark, PressureSuppress, RecentUsage, ReporterPlugins, SchedStatCollector,
ServiceCPUWeight, TCPCollector, TaskDelayCollector, ThresholdEvict and ZoneInfoCollector.
"""

UNUSED = frozenset(
    {
        "AuditEvents",
        "AuditEventsHTTPHandler",
        "BECPUManager",
        "HamiCoreVGPUMonitor",
        "Libpfm4",
        "NodeMetricPromMetrics",
        "PerCPUMetric",
        "PodResourcesProxy",
    }
)
"""Koordinator's koordlet has these too; here they change nothing."""

OF_PLUGINS = (
    "AllAlpha",
    "AllBeta",
    "BatchResource",
    "CoreSched",
    "CPUNormalization",
    "CPUSetAllocator",
    "GPUEnvInject",
    "GroupIdentity",
    "NUMABind",
    "OOMScoreAdj",
    "RDMADeviceInject",
    "Resctrl",
    "ResourcePlugins",
    "TCNetworkQoS",
    "TerwayQoS",
)
"""Gates of hook plugins, in Koordinator's spelling; NUMABind and ResourcePlugins are our own."""


def parse_gates(given: Iterable[str]) -> tuple[Mapping[str, bool], tuple[str, ...]]:
    """Every gate, on or off, and those ``given`` ("NAME=true") that are none of ours."""
    return feature_gates.gates_of(given, DEFAULTS)
