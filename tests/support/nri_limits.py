"""Limits as NRI's messages have them."""

from __future__ import annotations

from typing import Any

from koord_model.resources import LinuxResources
from koord_proto import nri_pb2
from koordlet.runtime_hooks.nri.protocol.adjustments import from_model


def resources(**limits: Any) -> nri_pb2.LinuxResources:
    """The message of these limits, which have the model's names."""
    return from_model(LinuxResources(**limits))
