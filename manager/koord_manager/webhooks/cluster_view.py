"""What webhooks know of the cluster besides the object under review. No IO."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from koord_model.elastic_quota import ElasticQuota
from koord_serving.admission.core.admission import Object

from koord_manager.pod_webhook.binding_policy import BindingPolicy
from koord_manager.quota.core.charge import QuotaCharge
from koord_manager.quota.core.review import PodQuery
from koord_manager.quota.core.topology import QuotaTopology

_LABEL_ALONE_GATE = "DisableDefaultQuota"


async def _no_pods(_query: PodQuery) -> bool:
    return False


async def _no_charge(_charge: QuotaCharge) -> str:
    return ""


async def _no_pod(_name: str, _namespace: str) -> Object | None:
    return None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What webhooks know of the cluster besides the request: whole documents, by name.

    Namespaced ones are by "namespace/name". ``chance`` gives numbers from 0 up to, but not, 1.
    """

    profiles: Mapping[str, Object] = field(default_factory=dict)
    namespaces: Mapping[str, Object] = field(default_factory=dict)
    priority_classes: Mapping[str, Object] = field(default_factory=dict)
    quotas: QuotaTopology = field(default_factory=QuotaTopology)
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
    binding: BindingPolicy = field(default_factory=BindingPolicy)
    has_pods: Callable[[PodQuery], Awaitable[bool]] = _no_pods
    """Asks whether there are such pods."""
    pod: Callable[[str, str], Awaitable[Object | None]] = _no_pod
    """Asks for a pod by name and namespace; ``None`` if that is not known."""
    charge: Callable[[QuotaCharge], Awaitable[str]] = _no_charge
    """Charges a quota for a pod; why that cannot be, "" if it was."""


def quota_for_pod(
    labels: Mapping[str, str], namespace: str, view: ClusterView
) -> ElasticQuota | None:
    """The quota that a pod belongs to; ``None`` where that is the default quota, and not there."""
    default = not only_label_counts(view)
    return view.quotas.named(view.quotas.name_for_pod(labels, namespace, default_quota=default))


def only_label_counts(view: ClusterView) -> bool:
    """Whether pods without a label belong to no quota."""
    return view.gates.get(_LABEL_ALONE_GATE, False)
