"""Feature gates of koordlet, with their defaults: Koordinator's, and four of our own. No IO."""

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
    "CPICollector": False,
    "CgroupReconcile": False,
    "ColdPageCollector": False,
    "HugePageReport": False,
    "InterferenceDetection": False,
    "MemoryAllocatableEvict": False,
    "MemoryEvict": False,
    "MemoryOffload": False,
    "NodeTopologyReport": True,
    "PSICollector": False,
    "PressureSuppress": False,
    "RDMADevices": False,
    "RdtResctrl": True,
    "ResctrlCollector": False,
    "SystemConfig": False,
    "ThresholdEvict": False,
}
"""Those that do something here; others of Koordinator's are passed over with a line.

Our own are InterferenceDetection, MemoryOffload, PressureSuppress and ThresholdEvict.
"""


def parse_gates(given: Iterable[str]) -> tuple[Mapping[str, bool], tuple[str, ...]]:
    """Every gate, on or off, and those ``given`` ("NAME=true") that are none of ours."""
    return feature_gates.gates_of(given, DEFAULTS)
