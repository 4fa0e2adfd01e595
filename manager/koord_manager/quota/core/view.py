"""The quota webhooks' view of the cluster besides the request. No IO."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from koord_model.elastic_quota import ElasticQuota
from koord_serving.admission.core.admission import Object

from koord_manager.quota.core.charge import QuotaCharge
from koord_manager.quota.core.review import PodQuery
from koord_manager.quota.core.topology import QuotaTopology

_LABEL_ALONE_GATE = "DisableDefaultQuota"


async def _no_pods(_query: PodQuery) -> bool:
    return False


async def _no_charge(_charge: QuotaCharge) -> str:
    return ""


@dataclass(frozen=True)
class QuotaView:
    """Quotas, profiles of quota trees by "namespace/name", and feature gates."""

    quotas: QuotaTopology = field(default_factory=QuotaTopology)
    quota_profiles: Mapping[str, Object] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    has_pods: Callable[[PodQuery], Awaitable[bool]] = _no_pods
    """Asks whether there are such pods."""
    charge: Callable[[QuotaCharge], Awaitable[str]] = _no_charge
    """Charges a quota for a pod; why that cannot be, "" if it was."""


def quota_for_pod(
    labels: Mapping[str, str], namespace: str, view: QuotaView
) -> ElasticQuota | None:
    """The quota that a pod belongs to; ``None`` where that is the default quota, and not there."""
    default = not only_label_counts(view)
    return view.quotas.named(view.quotas.name_for_pod(labels, namespace, default_quota=default))


def only_label_counts(view: QuotaView) -> bool:
    """True if pods without a label belong to no quota."""
    return view.gates.get(_LABEL_ALONE_GATE, False)
