"""The descheduler's flags: those of koord-descheduler that apply, by their names."""

from __future__ import annotations

from dataclasses import dataclass

from koord_model import duration
from koord_service.go_flags import go_flags
from koord_service.settings import option

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
        "controllers",
        "feature-gates",
        "http2-max-streams-per-connection",
        "kube-api-burst",
        "kube-api-content-type",
        "kube-api-qps",
        "leader-elect-resource-lock",
        "master",
        "requestheader-allowed-names",
        "requestheader-client-ca-file",
        "secure-port",
        "tls-cert-file",
        "tls-cipher-suites",
        "tls-min-version",
        "tls-private-key-file",
    ),
    switches=(
        "authentication-skip-lookup",
        "authentication-tolerate-lookup-failure",
        "contention-profiling",
        "permit-address-sharing",
        "permit-port-sharing",
        "profiling",
    ),
)
"""Flags of Koordinator's descheduler without a meaning here."""


@dataclass(frozen=True)
class DeschedulerSettings:
    """Each is a flag and an environment variable; times are in seconds.

    Those of leader election that are ``None`` are as the configuration has them.
    """

    configuration: str = option(
        "",
        "path of a DeschedulerConfiguration, or of upstream's DeschedulerPolicy (v1alpha2)",
        flag="--config",
        aliases=("--policy-config-file",),
    )
    scheduler_configuration: str = option(
        "",
        "path of the scheduler's KubeSchedulerConfiguration, by which places for pods are found;"
        " default: Kubernetes' default profile",
        flag="--scheduler-config",
    )
    write_config_to: str = option(
        "", "write the configuration with all defaults to this file, and exit"
    )
    kubeconfig: str = option("", "path of a kubeconfig file; default: the pod's service account")
    descheduling_interval: str = option(
        "", "time between rounds like 5m, 0s for one alone; default: as the configuration has it"
    )
    dry_run: bool = option(False, "plan rounds and show them, evict nothing")
    cool_down: float = option(60.0, "for so long a pod stays where it was scheduled")
    move_memory: float = option(
        1800.0, "for so long no pod goes to a node that one of its owner was moved away from"
    )
    max_pods_per_target: int = option(
        5, "so many pods of a round may go to one node; 0: any number"
    )
    bind_address: str = option("0.0.0.0", "address of /healthz, /metrics and /v1/…")  # noqa: S104
    port: int = option(10251, "port of these pages; 0: none")
    leader_elect: bool | None = option(
        None, "elect a leader, which alone evicts; false only for a single descheduler"
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
    pod_name: str = option("", "name of this pod, for the Lease and Events")
    log_format: str = option("human", "log lines for people or as JSON", choices=("human", "json"))
    log_level: str = option("info", "least important events to log", choices=_LEVELS)

    def __post_init__(self) -> None:
        """Check what no single type says.

        Raises:
            ValueError: one line naming the flag, its value and what was expected.
        """
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"--port is {self.port}; expected 0 to 65535")
        try:
            duration.seconds(self.descheduling_interval or "0s")
        except ValueError:
            text = self.descheduling_interval
            raise ValueError(
                f'--descheduling-interval is "{text}"; expected a duration like 60s or 5m'
            ) from None
        for flag, value in (
            ("--cool-down", self.cool_down),
            ("--move-memory", self.move_memory),
            ("--max-pods-per-target", self.max_pods_per_target),
        ):
            if value < 0:
                raise ValueError(f"{flag} is {value:g}; expected 0 or more")
