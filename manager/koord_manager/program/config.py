"""The manager's settings: the Go manager's flags that apply under their names, and what is new."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from koord_kube.core.election import ElectionTiming
from koord_service.settings import option
from koord_service.settings_check import CHECK_HELP
from koord_service.tracing import check_tracing, endpoint_option, rate_option
from koord_serving.admission.core.caller_rules import CallerRules

from koord_manager.noderesource.core.calculation_names import CALCULATIONS
from koord_manager.pod_webhook.binding_policy import BindingPolicy
from koord_manager.program.gates import METRICS_APIS, gates_of

CONTROLLERS = (
    *("nodemetric", "noderesource", "nodeslo", "colocationprofile", "quotaprofile"),
    *("recommendation", "nodetaint", "rollout", "serviceprofile", "podresize"),
)
"""Koordinator's names, and five of our own."""

_GATES = {
    "colocationprofile": ("ColocationProfileController",),
    "nodetaint": ("ManagedTaints", "NodeBackstop"),
    "podresize": ("PodResize",),
    "rollout": ("RolloutGuard",),
    "serviceprofile": ("ServiceProfiles",),
}
"""The gates of which a controller needs one."""
_NEEDS = {
    "recommendation": ("noderesource",),
    "nodetaint": ("noderesource",),
    "rollout": ("noderesource", "nodeslo"),
    "serviceprofile": ("nodeslo",),
    "podresize": ("noderesource",),
}

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

    kubeconfig: str = option("", "path of a kubeconfig file; default: the pod's service account")
    metrics_addr: str = option(":8080", "address of /metrics and /v1/…: HOST:PORT")
    health_probe_addr: str = option(":8000", "address of /healthz and /readyz: HOST:PORT")
    enable_leader_election: bool = option(
        True, "elect a leader, which alone writes; false only for a single manager"
    )
    leader_election_namespace: str = option("koordinator-system", "namespace of the Lease")
    leader_election_name: str = option("koordinator-manager", "name of the Lease")
    lease_duration: int = option(15, "seconds after which a silent leader is replaced")
    renew_deadline: float = option(10.0, "seconds after which a leader that cannot renew stops")
    retry_period: float = option(2.0, "seconds between attempts to acquire or renew the Lease")
    rest_config_qps: float = option(30.0, "writes a second to the API server")
    rest_config_burst: int = option(50, "writes to the API server at once")
    controllers: tuple[str, ...] = option(
        ("*",), f'controllers to run: "*", NAME, -NAME; there are {", ".join(CONTROLLERS)}'
    )
    noderesource_plugins: tuple[str, ...] = option(
        ("*",),
        f'what noderesource calculates: "*", NAME, -NAME; there are {", ".join(CALCULATIONS)}',
    )
    slo_config_name: str = option("slo-controller-config", "name of the ConfigMap of strategies")
    config_namespace: str = option(
        "koordinator-system", "namespace of that ConfigMap and of the manager's own objects"
    )
    noderesource_interval: float = option(
        5.0, "seconds between two calculations of what all nodes offer"
    )
    feature_gates: tuple[str, ...] = option(
        (), "feature gates by Koordinator's names, e.g. NodeMutatingWebhook=true"
    )
    pod_enhanced_validator_config_namespace: str = option(
        "koordinator-system", "namespace of the ConfigMap of rules for pods"
    )
    pod_enhanced_validator_config_name: str = option(
        "pod-enhanced-validator-config", "its name (gate EnablePodEnhancedValidator)"
    )
    colocation_profile_reconcile_by_default: bool = option(
        False, "apply every profile to pending pods again, not only labelled profiles"
    )
    colocation_profile_reconcile_interval: float = option(
        30.0, "seconds between checks of pending pods"
    )
    colocation_profile_force_update_pod_duration: float = option(
        300.0, "seconds before a pod is updated again, even if somebody reverted the update"
    )
    colocation_profile_expire_pod_cache_duration: float = option(
        600.0, "seconds for which the manager remembers what it wrote to a pod"
    )
    colocation_profile_update_pod_qps: float = option(10.0, "pod updates a second")
    colocation_profile_update_pod_qps_burst: int = option(100, "pod updates at once")
    webhook_address: str = option(
        ":9876", "HTTPS address of the webhooks: HOST:PORT; empty: no webhooks"
    )
    webhook_service: str = option(
        "koordinator-webhook-service", "Service by which the API server reaches the webhooks"
    )
    webhook_configuration_failure_policy_pods: str = option(
        "Ignore",
        "while no manager answers, create pods unchanged (Ignore) or refuse them (Fail)",
        choices=("Ignore", "Fail"),
    )
    binding_admission_user_name: tuple[str, ...] = option(
        (),
        "users, or parts of their names, who may bind pods (gate BindingAdmissionWebhook); "
        "none: everybody",
    )
    binding_admission_namespaces: tuple[str, ...] = option(
        (), 'namespaces whose pods nobody else may bind; "*": all'
    )
    binding_admission_exclude_namespaces: tuple[str, ...] = option(
        ("kube-system",), "namespaces whose pods everybody may bind"
    )
    binding_admission_bypass_labels: tuple[str, ...] = option(
        ("koordinator.sh/binding-admission-bypass",),
        "labels of pods that everybody may bind, whatever their value",
    )
    binding_admission_bypass_annotations: tuple[str, ...] = option(
        (), "annotations of pods that everybody may bind"
    )
    binding_admission_dry_run: bool = option(False, "only warn of bindings that would be refused")
    quota_update_max_retries: int = option(
        3, "how often a quota is charged again that was changed meanwhile"
    )
    quota_update_retry_jitter: float = option(0.0, "seconds to wait at most before that")
    webhook_cert_dir: str = option(
        "", "directory with tls.crt, tls.key and ca.crt; empty: the manager issues its own"
    )
    webhook_secret: str = option(
        "koordinator-webhook-certs", "Secret that stores the manager's own certificates"
    )
    webhook_client_ca_file: str = option(
        "", "CA of client certificates: answer only API servers that show one; empty: everybody"
    )
    webhook_client_audience: str = option(
        "", "answer also API servers that show a token for this audience; empty: none"
    )
    webhook_client_names: tuple[str, ...] = option(
        (), "common names of these certificates, or users of these tokens; none: any certificate"
    )
    enable_node_metric_api: bool = option(
        False, "receive reports from nodes directly and serve them as metrics.koordinator.sh"
    )
    node_metric_api_address: str = option(
        ":9443", "HTTPS address of that API, for the API server's aggregator"
    )
    node_metric_report_address: str = option(":9444", "address for nodes' reports, gRPC with TLS")
    node_metric_service: str = option(
        "koordinator-manager-leader", "Service of the leader, for that API and for reports"
    )
    node_metric_account: str = option(
        "koordinator-system/koordlet", "service account whose pods may report their own node"
    )
    node_metric_stale_seconds: float = option(
        180.0,
        "seconds of silence after which a node's NodeMetric is marked as stale; at least "
        "two of its report intervals",
    )
    scheduler_address: str = option(
        "",
        "HOST:PORT of the schedulers' pages, for what the cluster's page shows of them; of a "
        "Service without a cluster IP all are asked for who leads; empty: it shows nothing of them",
    )
    descheduler_address: str = option("", "the same of the deschedulers")
    pod_name: str = option("", "name of this pod, for the Lease and Events")
    pod_ip: str = option("", "IP address of this pod, by which nodes find the leader")
    recommendation_interval: float = option(60.0, "seconds between samples of what pods use")
    recommendation_half_life: float = option(
        86400.0, "seconds after which usage counts half in recommendations"
    )
    recommendation_safety_margin_percent: int = option(15, "percent added to measured usage")
    check: bool = option(False, CHECK_HELP)
    log_format: str = option("human", "log lines for people or as JSON", choices=("human", "json"))
    log_level: str = option("info", "least important events to log", choices=_LEVELS)
    tracing_endpoint: str = endpoint_option()
    tracing_sampling_rate_per_million: int = rate_option()

    def __post_init__(self) -> None:
        """Settings that cannot be.

        Raises:
            ValueError: one line naming the flag, its value and what was expected.
        """
        check_tracing(self)
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                flag = name.replace("_", "-")
                raise ValueError(f"--{flag} is {getattr(self, name):g}; expected more than 0")
        for name in ("quota_update_max_retries", "quota_update_retry_jitter"):
            if getattr(self, name) < 0:
                flag = name.replace("_", "-")
                raise ValueError(f"--{flag} is {getattr(self, name):g}; expected 0 or more")
        ElectionTiming(self.lease_duration, self.renew_deadline, self.retry_period)
        for flag in ("webhook_address", "node_metric_api_address", "node_metric_report_address"):
            parse_listen_address(flag, getattr(self, flag))
        for flag in ("scheduler_address", "descheduler_address"):
            parse_listen_address(flag, getattr(self, flag), ask=True)
        gates, _ = gates_of(self.feature_gates)
        for gate in METRICS_APIS:
            if gates[gate] and not self.enable_node_metric_api:
                raise ValueError(
                    f"--feature-gates has {gate}=true; it needs --enable-node-metric-api, "
                    "whose server serves it, from the usage that nodes report there"
                )
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
        self.webhook_callers()
        enabled_controllers(self.controllers)
        select_enabled("noderesource-plugins", self.noderesource_plugins, CALCULATIONS)

    def webhook_callers(self) -> CallerRules:
        """Return the rules for the webhooks' callers; ``ValueError`` if they protect nothing."""
        return CallerRules(
            self.webhook_client_ca_file,
            self.webhook_client_audience,
            frozenset(self.webhook_client_names),
        )


def parse_listen_address(name: str, address: str, *, ask: bool = False) -> tuple[str, int] | None:
    """Host ("" is all addresses) and port of a setting; ``None`` where it is empty.

    One to ``ask`` at has to have a host.

    Raises:
        ValueError: it is not HOST:PORT.
    """
    if not address:
        return None
    host, colon, port = address.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) < 1 << 16
    if not colon or not is_port or (ask and (not host or "/" in host)):
        flag, other = name.replace("_", "-"), "" if ask else " or :PORT"
        raise ValueError(f'--{flag} is "{address}"; expected HOST:PORT{other}')
    return host.strip("[]"), int(port)


def select_enabled(flag: str, given: Collection[str], known: Collection[str]) -> frozenset[str]:
    """The known names that "*", NAME and -NAME select, as in Koordinator.

    Raises:
        ValueError: a name is not known.
    """
    for word in given:
        if word != "*" and word.removeprefix("-") not in known:
            raise ValueError(f'--{flag} has "{word}"; there are {", ".join(known)}')
    found = {name for name in known if "*" in given or name in given}
    return frozenset(found - {word[1:] for word in given if word.startswith("-")})


def enabled_controllers(given: Collection[str]) -> frozenset[str]:
    """The controllers that the setting names; raises like ``select_enabled``."""
    return select_enabled("controllers", given, CONTROLLERS)


def idle_controllers(given: Collection[str], gates: Mapping[str, bool]) -> Iterator[str]:
    """Lines on what ``--controllers`` names and does not run, or that nothing runs at all."""
    running = enabled_controllers(given)
    for name in (name for name in given if name in running):
        needed_gates = _GATES.get(name, ())
        if needed_gates and not any(gates[gate] for gate in needed_gates):
            each = " or ".join(f"{gate}=true" for gate in needed_gates)
            yield f"{name} needs --feature-gates={each}"
        else:
            for needed in _NEEDS.get(name, ()):
                if needed not in running:
                    yield f"{name} needs the controller {needed}"
    if not running:
        yield f"none is named that is there: {', '.join(CONTROLLERS)}"


def binding_policy(settings: Settings) -> BindingPolicy:
    """Return the policy on users that may bind pods."""
    return BindingPolicy(
        settings.binding_admission_user_name,
        frozenset(settings.binding_admission_namespaces),
        frozenset(settings.binding_admission_exclude_namespaces),
        frozenset(settings.binding_admission_bypass_labels),
        frozenset(settings.binding_admission_bypass_annotations),
        settings.binding_admission_dry_run,
    )
