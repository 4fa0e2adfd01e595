"""Koordinator's names of what noderesource calculates. No IO."""

from __future__ import annotations

BATCH, MID = "BatchResource", "MidResource"

CALCULATIONS = (
    "CPUNormalization",
    "ResourceAmplification",
    MID,
    BATCH,
    "GPUDeviceResource",
    "RDMADeviceResource",
)
"""In the order of calculation."""
