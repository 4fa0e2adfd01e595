"""The scheduler's flags: those of kube-scheduler and koord-scheduler that apply, by their names."""

from __future__ import annotations

from dataclasses import dataclass

from koord_kube.component_program import IGNORED as COMMON
from koord_kube.component_program import ComponentSettings
from koord_service.go_flags import go_flags
from koord_service.settings import option
from koord_service.tracing import check_tracing, endpoint_option, rate_option

from koord_scheduler.program.gates import gates_of

IGNORED = COMMON | go_flags(
    values=(
        "controller-plugins",
        "pod-max-in-unschedulable-pods-duration",
        "scheduler-monitor-period",
        "scheduling-timeout",
        "sync-hard-timeout",
    ),
    switches=(
        "debug-diagnosis",
        "debug-diagnosis-blocking",
        "enable-workload-auditor",
    ),
)
"""Flags of Kubernetes' and Koordinator's schedulers without a meaning here."""


@dataclass(frozen=True)
class SchedulerSettings(ComponentSettings):
    """Those of all components, and the scheduler's own."""

    configuration: str = option(
        "",
        "path of a KubeSchedulerConfiguration (v1); default: one default profile",
        flag="--config",
    )
    feature_gates: tuple[str, ...] = option(
        (), "feature gates by Koordinator's names, e.g. MultiQuotaTree=true"
    )
    enable_network_topology_manager: bool = option(
        False,
        "write the domains of the ClusterNetworkTopology to its status, also where no profile has"
        " awareNetworkTopology",
    )
    record_to: str = option(
        "", "folder for a recording that koordctl schedule --replay reads; default: none is made"
    )
    tie_break_seed: int = option(0, "another number lets equally good nodes be taken otherwise")
    debug_scores: int = option(0, "log the scores of so many of the best nodes of each pod")
    debug_filters: bool = option(False, "log why nodes are rejected, for each pod")
    tracing_endpoint: str = endpoint_option()
    tracing_sampling_rate_per_million: int = rate_option()

    def __post_init__(self) -> None:
        """SchedulerSettings that cannot be.

        Raises:
            ValueError: one line naming the flag, its value and what was expected.
        """
        super().__post_init__()
        check_tracing(self)
        gates_of(self.feature_gates)
