"""Feature gates of the scheduler, by Koordinator's and Kubernetes' names. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord_model import feature_gates

from koord_scheduler.plugins.elastic_quota.quota_trees import QuotaGates
from koord_scheduler.state.cluster_state import ClusterState

DEVICE_PLUGIN_ADAPTION = "DevicePluginAdaption"
_MULTI_TREE = "MultiQuotaTree"
_GUARANTEE = "ElasticQuotaGuaranteeUsage"
_NO_DEFAULT = "DisableDefaultQuota"
_COMPOSITES = "CompositePodGroup"
_GROUP_CLAIMS = "DRAWorkloadResourceClaims"
DEFAULTS: Mapping[str, bool] = dict.fromkeys(
    (DEVICE_PLUGIN_ADAPTION, _MULTI_TREE, _GUARANTEE, _NO_DEFAULT, _COMPOSITES, _GROUP_CLAIMS),
    False,
)
"""Those that do something here."""

UNUSED = frozenset(
    {
        "CSIStorageCapacity",
        "CompatibleCSIStorageCapacity",
        "CompatiblePodDisruptionBudget",
        "DisableCSIStorageCapacityInformer",
        "DisablePodDisruptionBudgetInformer",
        "ElasticQuotaEnableUpdateResourceKey",
        "ElasticQuotaIgnorePodOverhead",
        "ElasticQuotaIgnoreTerminatingPod",
        "ElasticQuotaImmediateIgnoreTerminatingPod",
        "GenericEphemeralVolume",
        "LazyReservationRestore",
        "PodDisruptionBudget",
        "PreemptionPolicyTransformer",
        "PriorityTransformer",
        "ResizePod",
        "SupportParentQuotaSubmitPod",
    }
)
"""Koordinator's scheduler has these too; here they change nothing. The others of Kubernetes are too
many to be listed, and change nothing either."""

Gates = Mapping[str, bool]
"""Every gate, on or off."""


def gates_of(given: Iterable[str]) -> tuple[Gates, tuple[str, ...]]:
    """Every gate, and those ``given`` ("NAME=true") that do nothing here.

    Raises:
        ValueError: one of them is neither true nor false.
    """
    return feature_gates.gates_of(given, DEFAULTS)


def set_gates(nodes: ClusterState, gates: Gates) -> None:
    """Let the columns of a cluster have what gates say; before there are nodes and pods."""
    nodes.node_devices.adapts = gates[DEVICE_PLUGIN_ADAPTION]
    nodes.gangs.hierarchy.has_composites = gates[_COMPOSITES]
    nodes.gangs.hierarchy.has_claims = gates[_GROUP_CLAIMS]
    nodes.quotas.gates = QuotaGates(gates[_MULTI_TREE], gates[_GUARANTEE], gates[_NO_DEFAULT])
