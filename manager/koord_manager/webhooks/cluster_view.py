"""What webhooks know of the cluster besides the object under review. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from koord_serving.admission.core.admission import Object


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What webhooks know of the cluster besides the request: whole documents, by name.

    Namespaced ones are by "namespace/name". ``chance`` gives numbers from 0 up to, but not, 1.
    """

    profiles: Mapping[str, Object] = field(default_factory=dict)
    namespaces: Mapping[str, Object] = field(default_factory=dict)
    priority_classes: Mapping[str, Object] = field(default_factory=dict)
    quotas: Mapping[str, Object] = field(default_factory=dict)
    quota_profiles: Mapping[str, Object] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    """The data of ``slo-controller-config`` as it is in force."""
    config_map: str = "koordinator-system/slo-controller-config"
    """Which ConfigMap that is."""
    node_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    enhanced_validation: Mapping[str, str] = field(default_factory=dict)
    """The data of the ConfigMap ``pod-enhanced-validator-config``."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    chance: Callable[[], float] = lambda: 0.0
