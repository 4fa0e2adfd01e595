"""What a plugin says about a class that it does not admit to any node. No IO."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass


@runtime_checkable
class AdmissionExplainer(Protocol):
    """A plugin that can say more than ``Plugin.admit``."""

    def explain(self, pod: PodClass, nodes: ClusterState) -> dict[str, Any] | None:
        """Why a class is not admitted, as plain data; ``None`` if it is."""
        ...
