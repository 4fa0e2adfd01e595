"""Feature gates of the scheduler, with Koordinator's defaults. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord_model import feature_gates

DEVICE_PLUGIN_ADAPTION = "DevicePluginAdaption"
DEFAULTS: Mapping[str, bool] = {DEVICE_PLUGIN_ADAPTION: False}
"""Those that do something here; others of Kubernetes' and Koordinator's are passed over."""


def gates_of(given: Iterable[str]) -> tuple[Mapping[str, bool], tuple[str, ...]]:
    """Every gate, on or off, and those ``given`` ("NAME=true") that are none of ours."""
    return feature_gates.gates_of(given, DEFAULTS)
