"""A node's offer of RDMA: hundredths of each healthy device of its Device object. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord_model.keys import RDMA

from koord_manager.noderesource.core import devices
from koord_manager.noderesource.core.desired_node import DesiredNode

OF_ONE = 100


def rdma(device: Mapping[str, Any] | None) -> DesiredNode:
    """The RDMA devices of a Node; none without a healthy one."""
    ignored: list[str] = []
    found = devices.healthy(device or {}, "rdma", ignored)
    if not found:
        return devices.without_devices([RDMA], "rdma", ignored)
    resources = {RDMA: OF_ONE * len(found)}
    formulas = {RDMA: f"{OF_ONE} for each healthy device"}
    return DesiredNode(
        resources=resources, decisions=devices.offered(resources, formulas, len(found), ignored)
    )
