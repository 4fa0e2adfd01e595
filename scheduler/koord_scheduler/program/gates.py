"""Feature gates of the scheduler, with Koordinator's defaults. No IO."""

from __future__ import annotations

from collections.abc import Iterable

from koord_model import feature_gates

from koord_scheduler.quota.quota_trees import QuotaGates

_MULTI_TREE = "MultiQuotaTree"
_GUARANTEE = "ElasticQuotaGuaranteeUsage"
_NO_DEFAULT = "DisableDefaultQuota"


def quota_gates(given: Iterable[str]) -> tuple[QuotaGates, tuple[str, ...]]:
    """The gates of quotas, and those ``given`` ("NAME=true") that do nothing here.

    Raises:
        ValueError: one of them is neither true nor false.
    """
    defaults = dict.fromkeys((_MULTI_TREE, _GUARANTEE, _NO_DEFAULT), False)
    gates, others = feature_gates.gates_of(given, defaults)
    return QuotaGates(gates[_MULTI_TREE], gates[_GUARANTEE], gates[_NO_DEFAULT]), others
