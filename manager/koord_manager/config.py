"""The manager's settings: the Go manager's flags that apply under their names, and what is new."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from koord_kube.election import Timing
from koord_service.settings import option

from koord_manager.gates import gates_of

CONTROLLERS = ("nodemetric", "noderesource", "nodeslo", "colocationprofile", "recommendation")
"""Koordinator's names, and one of our own."""

_ELSEWHERE = {"quotaprofile"}
"""Koordinator's that may be named, and is nothing here: it belongs to the scheduler's quotas."""

CALCULATIONS = (
    "CPUNormalization",
    "ResourceAmplification",
    "MidResource",
    "BatchResource",
    "GPUDeviceResource",
    "RDMADeviceResource",
)
"""What noderesource reckons, in this order."""

_LEVELS = ("debug", "info", "warning", "error")
_POSITIVE = (
    "rest_config_qps",
    "noderesource_interval",
    "colocation_profile_reconcile_interval",
    "colocation_profile_update_pod_qps",
    "node_metric_stale_seconds",
    "recommendation_interval",
)


@dataclass(frozen=True)
class Settings:
    """Each is a flag, a YAML key and an environment variable; times are in seconds."""

    kubeconfig: str = option("", "kubeconfig file; without it the pod's service account")
    metrics_addr: str = option(":8080", "where /metrics and /v1/… are served: HOST:PORT")
    health_probe_addr: str = option(":8000", "where /healthz and /readyz are served: HOST:PORT")
    enable_leader_election: bool = option(
        True, "of several managers let one write; false only where there is one"
    )
    leader_election_namespace: str = option("koordinator-system", "namespace of the Lease")
    leader_election_name: str = option("koordinator-manager", "name of the Lease")
    lease_duration: int = option(15, "seconds after which a silent leader is replaced")
    renew_deadline: float = option(10.0, "seconds after which a leader that cannot renew stops")
    retry_period: float = option(2.0, "seconds between two tries to get or renew the Lease")
    rest_config_qps: float = option(30.0, "writes a second to the API server")
    rest_config_burst: int = option(50, "writes to the API server at once")
    controllers: tuple[str, ...] = option(
        ("*",), f'controllers to run: "*", NAME, -NAME; there are {", ".join(CONTROLLERS)}'
    )
    noderesource_plugins: tuple[str, ...] = option(
        ("*",), f'what noderesource reckons: "*", NAME, -NAME; there are {", ".join(CALCULATIONS)}'
    )
    slo_config_name: str = option("slo-controller-config", "name of the ConfigMap of strategies")
    config_namespace: str = option("koordinator-system", "its namespace, and that of our own parts")
    noderesource_interval: float = option(
        5.0, "seconds between two passes over all nodes that reckon what they offer"
    )
    feature_gates: tuple[str, ...] = option(
        (), "webhooks and controllers on or off by Koordinator's names: NodeMutatingWebhook=true"
    )
    pod_enhanced_validator_config_namespace: str = option(
        "koordinator-system", "namespace of the ConfigMap of rules for pods"
    )
    pod_enhanced_validator_config_name: str = option(
        "pod-enhanced-validator-config", "its name (gate EnablePodEnhancedValidator)"
    )
    colocation_profile_reconcile_by_default: bool = option(
        False, "re-apply every profile to pending pods, not only those labelled so"
    )
    colocation_profile_reconcile_interval: float = option(
        30.0, "seconds between two looks at pending pods"
    )
    colocation_profile_force_update_pod_duration: float = option(
        300.0, "seconds that a pod is left alone after it was written, whoever undoes that"
    )
    colocation_profile_expire_pod_cache_duration: float = option(
        600.0, "seconds that is remembered what was written to a pod"
    )
    colocation_profile_update_pod_qps: float = option(10.0, "pods that are updated a second")
    colocation_profile_update_pod_qps_burst: int = option(100, "pods that are updated at once")
    webhook_address: str = option(
        ":9876", "where webhooks are served over HTTPS: HOST:PORT, or empty for nowhere"
    )
    webhook_service: str = option(
        "koordinator-webhook-service", "Service by which the API server reaches the webhooks"
    )
    webhook_configuration_failure_policy_pods: str = option(
        "Ignore",
        "what becomes of pods while no manager answers: created as they are, or refused",
        choices=("Ignore", "Fail"),
    )
    webhook_cert_dir: str = option(
        "", "directory of tls.crt, tls.key and ca.crt that somebody else keeps; empty: our own"
    )
    webhook_secret: str = option(
        "koordinator-webhook-certs", "Secret in which our own certificates are kept"
    )
    enable_node_metric_api: bool = option(
        False, "take nodes' reports straight, and serve them as metrics.koordinator.sh"
    )
    node_metric_api_address: str = option(
        ":9443", "where that API is served over HTTPS, to the API server's aggregator"
    )
    node_metric_report_address: str = option(":9444", "where nodes report, over gRPC with TLS")
    node_metric_service: str = option(
        "koordinator-manager-leader", "Service of the leader, for that API and for reports"
    )
    node_metric_account: str = option(
        "koordinator-system/koordlet", "service account whose pods may report their own node"
    )
    node_metric_stale_seconds: float = option(
        180.0, "seconds of silence after which a node's NodeMetric is marked as stale"
    )
    pod_name: str = option("", "this pod's name, said in the Lease and in Events")
    pod_ip: str = option("", "this pod's address, by which the leader is found")
    recommendation_interval: float = option(60.0, "seconds between two looks at what pods use")
    recommendation_half_life: float = option(
        86400.0, "seconds after which usage counts half in recommendations"
    )
    recommendation_safety_margin_percent: int = option(
        15, "percent by which recommendations are above what was used"
    )
    log_format: str = option("human", "log lines for people or as JSON", choices=("human", "json"))
    log_level: str = option("info", "least important events to log", choices=_LEVELS)

    def __post_init__(self) -> None:
        """Settings that cannot be.

        Raises:
            ValueError: one line naming the flag, its value and what was expected.
        """
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                flag = name.replace("_", "-")
                raise ValueError(f"--{flag} is {getattr(self, name):g}; expected more than 0")
        Timing(self.lease_duration, self.renew_deadline, self.retry_period)
        for flag in ("webhook_address", "node_metric_api_address", "node_metric_report_address"):
            listened_at(flag, getattr(self, flag))
        gates_of(self.feature_gates)
        needed = (
            self.enable_leader_election,
            self.pod_ip,
            self.node_metric_api_address,
            self.node_metric_report_address,
        )
        if self.enable_node_metric_api and not all(needed):
            raise ValueError(
                "--enable-node-metric-api needs --enable-leader-election, whose Lease its resource "
                "versions come from, --pod-ip, by which nodes find the leader, and both "
                "--node-metric-…-addresses"
            )
        chosen("controllers", self.controllers, CONTROLLERS)
        chosen("noderesource-plugins", self.noderesource_plugins, CALCULATIONS)


def listened_at(name: str, address: str) -> tuple[str, int] | None:
    """Host ("" is all addresses) and port of a setting; ``None`` where it is empty.

    Raises:
        ValueError: it is no HOST:PORT.
    """
    if not address:
        return None
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        flag = name.replace("_", "-")
        raise ValueError(f'--{flag} is "{address}"; expected HOST:PORT or :PORT')
    return host.strip("[]"), int(port)


def chosen(flag: str, given: Collection[str], known: Collection[str]) -> frozenset[str]:
    """Which of the known names are meant by "*", NAME and -NAME, as Koordinator reads them.

    Raises:
        ValueError: a name is not known.
    """
    for word in given:
        if word != "*" and word.removeprefix("-") not in {*known, *_ELSEWHERE}:
            raise ValueError(f'--{flag} has "{word}"; there are {", ".join(known)}')
    found = {name for name in known if "*" in given or name in given}
    return frozenset(found - {word[1:] for word in given if word.startswith("-")})
