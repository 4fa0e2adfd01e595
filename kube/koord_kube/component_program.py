"""Flags and start that programs with a configuration file of Kubernetes' kind have in common."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from koord_service import logs, memory
from koord_service.go_flags import GoFlags, go_flags
from koord_service.program_end import run_program
from koord_service.settings import option, parse_or_exit
from koord_service.settings_check import CHECK_HELP, SettingsReport, check_and_exit

from koord_kube.core.election import ElectionTiming
from koord_kube.leadership import LeaseSettings

T = TypeVar("T")
S = TypeVar("S", bound="ComponentSettings")

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
        "http2-max-streams-per-connection",
        "kube-api-burst",
        "kube-api-content-type",
        "kube-api-qps",
        "leader-elect-resource-lock",
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
"""Flags of all of Kubernetes' components without a meaning here."""


@dataclass(frozen=True)
class ComponentSettings:
    """Each is a flag and an environment variable; times are in seconds.

    Those of leader election that are ``None`` are as the configuration has them.
    """

    kubeconfig: str = option("", "path of a kubeconfig file; default: the pod's service account")
    bind_address: str = option("0.0.0.0", "address of /healthz, /metrics and /v1/…")  # noqa: S104
    port: int = option(10251, "port of these pages; 0: none")
    leader_elect: bool | None = option(
        None, "elect a leader, which alone acts; false only for a single replica"
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
    check: bool = option(False, CHECK_HELP)
    log_format: str = option("human", "log lines for people or as JSON", choices=("human", "json"))
    log_level: str = option("info", "least important events to log", choices=_LEVELS)

    def __post_init__(self) -> None:
        """Check what no single type says.

        Raises:
            ValueError: one line naming the flag, its value and what was expected.
        """
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"--port is {self.port}; expected 0 to 65535")

    def new_identity(self) -> str:
        """A name of this run alone."""
        return f"{self.pod_name or socket.gethostname()}_{secrets.token_hex(4)}"


def run_component(
    name: str,
    description: str,
    settings: type[S],
    ignored: GoFlags,
    run: Callable[[S], Coroutine[Any, Any, None]],
    log: logs.EventLog,
    check: Callable[[S], SettingsReport],
) -> None:
    """Serve until SIGTERM; exit 2 on invalid settings, 1 on other errors."""
    given = parse_or_exit(
        settings,
        prog=name,
        description=description,
        environ=os.environ,
        ignored=ignored,
        examples=(f"{name} --config={name}.yaml --check",),
    )
    if given.check:
        check_and_exit(name, lambda: check(given))
    memory.collect_young_only()
    memory.keep_freed()
    logs.configure(given.log_format, given.log_level)
    ignored.report(log)
    run_program(name, run(given), log)


class ConfiguredLease(Protocol):
    """The ``leaderElection`` of the file, with its defaults."""

    @property
    def leader_elect(self) -> bool: ...
    @property
    def resource_namespace(self) -> str: ...
    @property
    def resource_name(self) -> str: ...
    @property
    def lease_duration(self) -> float: ...
    @property
    def renew_deadline(self) -> float: ...
    @property
    def retry_period(self) -> float: ...


def lease_settings(flags: ComponentSettings, configured: ConfiguredLease) -> LeaseSettings | None:
    """The Lease that replicas compete for, ``None`` without an election; flags count more."""

    def chosen(flag: T | None, value: T) -> T:
        return value if flag is None else flag

    if not chosen(flags.leader_elect, configured.leader_elect):
        return None
    timing = ElectionTiming(
        int(chosen(flags.leader_elect_lease_duration, configured.lease_duration)),
        chosen(flags.leader_elect_renew_deadline, configured.renew_deadline),
        chosen(flags.leader_elect_retry_period, configured.retry_period),
    )
    return LeaseSettings(
        chosen(flags.leader_elect_resource_name, configured.resource_name),
        chosen(flags.leader_elect_resource_namespace, configured.resource_namespace),
        timing,
    )
