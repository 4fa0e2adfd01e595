"""Flags of Koordinator's manager without a meaning here: its manifests start ours as they are."""

from __future__ import annotations

from koord_service.go_flags import go_flags

IGNORED = go_flags(
    values=(
        "leader-elect-resource-lock",
        "namespace",
        "node-strategy-name-need-check",
        "pod-enhanced-validator-reconcile-interval",
        "pprof-addr",
        "quota-update-max-total-jitter",
        "sync-period",
    ),
    switches=(
        "disable-no-deepcopy",
        "enable-pprof",
        "quota-update-conflict-fresh-get",
    ),
)
"""Those of updates of quotas are newer than 1.8."""
