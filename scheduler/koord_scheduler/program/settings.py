"""The scheduler's flags: those of kube-scheduler and koord-scheduler that apply, by their names."""

from __future__ import annotations

from dataclasses import dataclass

from koord_service.go_flags import go_flags
from koord_service.settings import option

from koord_scheduler.program.gates import gates_of

_LEVELS = ("debug", "info", "warning", "error")

IGNORED = go_flags(
    values=(
        "authentication-kubeconfig",
        "authentication-token-webhook-cache-ttl",
        "authorization-always-allow-paths",
        "authorization-kubeconfig",
        "authorization-webhook-cache-authorized-ttl",
        "authorization-webhook-cache-unauthorized-ttl",
        "cert-dir",
        "client-ca-file",
        "controller-plugins",
        "http2-max-streams-per-connection",
        "kube-api-burst",
        "kube-api-content-type",
        "kube-api-qps",
        "leader-elect-resource-lock",
        "pod-max-in-unschedulable-pods-duration",
        "requestheader-allowed-names",
        "requestheader-client-ca-file",
        "scheduler-monitor-period",
        "scheduling-timeout",
        "secure-port",
        "sync-hard-timeout",
        "tls-cert-file",
        "tls-cipher-suites",
        "tls-min-version",
        "tls-private-key-file",
    ),
    switches=(
        "authentication-skip-lookup",
        "authentication-tolerate-lookup-failure",
        "contention-profiling",
        "debug-diagnosis",
        "debug-diagnosis-blocking",
        "enable-network-topology-manager",
        "enable-workload-auditor",
        "permit-address-sharing",
        "permit-port-sharing",
        "profiling",
    ),
)
"""Flags of Kubernetes' and Koordinator's schedulers without a meaning here."""


@dataclass(frozen=True)
class SchedulerSettings:
    """Each is a flag and an environment variable; times are in seconds.

    Those of leader election that are ``None`` are as the configuration has them.
    """

    configuration: str = option(
        "",
        "path of a KubeSchedulerConfiguration (v1); default: one default profile",
        flag="--config",
    )
    kubeconfig: str = option("", "path of a kubeconfig file; default: the pod's service account")
    bind_address: str = option("0.0.0.0", "address of /healthz, /metrics and /v1/…")  # noqa: S104
    port: int = option(10251, "port of these pages; 0: none")
    leader_elect: bool | None = option(
        None, "elect a leader, which alone decides; false only for a single scheduler"
    )
    leader_elect_resource_namespace: str | None = option(None, "namespace of the Lease")
    leader_elect_resource_name: str | None = option(None, "name of the Lease")
    leader_elect_lease_duration: float | None = option(
        None, "seconds after which a silent leader is replaced"
    )
    leader_elect_renew_deadline: float | None = option(
        None, "seconds after which a leader that cannot renew stops"
    )
    leader_elect_retry_period: float | None = option(
        None, "seconds between attempts to acquire or renew the Lease"
    )
    feature_gates: tuple[str, ...] = option(
        (), "feature gates by Koordinator's names, e.g. DevicePluginAdaption=true"
    )
    record_to: str = option(
        "", "folder for a recording that koordctl schedule --replay reads; default: none is made"
    )
    tie_break_seed: int = option(0, "another number lets equally good nodes be taken otherwise")
    pod_name: str = option("", "name of this pod, for the Lease and Events")
    debug_scores: int = option(0, "log the scores of so many of the best nodes of each pod")
    debug_filters: bool = option(False, "log why nodes are rejected, for each pod")
    log_format: str = option("human", "log lines for people or as JSON", choices=("human", "json"))
    log_level: str = option("info", "least important events to log", choices=_LEVELS)

    def __post_init__(self) -> None:
        """SchedulerSettings that cannot be.

        Raises:
            ValueError: one line naming the flag, its value and what was expected.
        """
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"--port is {self.port}; expected 0 to 65535")
        gates_of(self.feature_gates)
