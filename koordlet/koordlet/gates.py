"""Koordinator's feature gates of koordlet, with their defaults. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

DEFAULTS: Mapping[str, bool] = {
    "Accelerators": False,
    "BlkIOReconcile": False,
    "CPICollector": False,
    "ColdPageCollector": False,
    "HugePageReport": False,
    "NodeTopologyReport": True,
    "PSICollector": False,
    "RDMADevices": False,
    "ResctrlCollector": False,
}
"""Those that do something here; others of Koordinator's are passed over with a line."""


def gates_of(given: Iterable[str]) -> tuple[Mapping[str, bool], tuple[str, ...]]:
    """Every gate, on or off, and those ``given`` ("NAME=true") that are none of ours."""
    gates = dict(DEFAULTS)
    others = []
    for gate in given:
        name, _, word = gate.partition("=")
        if name in gates:
            gates[name] = word.lower() == "true"
        else:
            others.append(gate)
    return gates, tuple(others)
