"""Feature gates of the scheduler, by Koordinator's and Kubernetes' names. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord_model import feature_gates

from koord_scheduler.gangs.hierarchy import COMPOSITES, GROUP_CLAIMS
from koord_scheduler.plugins.device_share.columns import DEVICE_PLUGIN_ADAPTION
from koord_scheduler.plugins.elastic_quota.quota_trees import GUARANTEE, MULTI_TREE, NO_DEFAULT

DEFAULTS: Mapping[str, bool] = dict.fromkeys(
    (DEVICE_PLUGIN_ADAPTION, MULTI_TREE, GUARANTEE, NO_DEFAULT, COMPOSITES, GROUP_CLAIMS),
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
