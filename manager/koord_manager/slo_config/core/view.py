"""The configuration webhooks' view of the cluster besides the request. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SLOConfigView:
    """The data of ``slo-controller-config`` as it is in force, and the labels of nodes.

    ``config_map`` is the "namespace/name" of that ConfigMap.
    """

    config: Mapping[str, str] = field(default_factory=dict)
    config_map: str = "koordinator-system/slo-controller-config"
    node_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
