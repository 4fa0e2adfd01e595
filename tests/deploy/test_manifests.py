"""What is installed fits the programs' settings, and asks for no more of a node than it needs."""

from __future__ import annotations

import dataclasses
import json
import re

import koord_manager.program.config
import koordlet.agent.config
import pytest
from koord_manager.node_metric.publisher import LeaderEndpoint, slice_name
from koord_manager.program import gates
from koord_manager.program.node_metric_server import CA_CONFIG_MAP, NodeMetricServer
from koord_manager.slo_config.core.config import DEFAULTS, advance
from koord_model.priority import BANDS
from koord_model.service_account_token import MANAGER_AUDIENCE
from koord_service.settings import flag_of
from koord_serving.admission.core.configurations import WebhookClientConfig

from tests.deploy.manifests import DEPLOY, NAMESPACE, environ, installed, load
from tests.deploy.programs import MANAGER, OBJECTS, PODS, PROGRAMS, settings_of

GATES = {"manager": ("ConfigMapValidatingWebhook=true",)}
each = pytest.mark.parametrize("name", sorted(PROGRAMS))
each_replica = pytest.mark.parametrize("name", ["manager", "scheduler"])


def port(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_there_are_just_these_pods() -> None:
    assert PODS.keys() == PROGRAMS.keys()


@each
def test_the_programs_take_their_settings(name: str) -> None:
    program, settings = PROGRAMS[name]
    prefix = program.upper().replace("-", "_") + "_"
    known = {f"{prefix}{field.name.upper()}" for field in dataclasses.fields(settings)}
    given = environ(PODS[name][1])
    assert {one for one in given if one.startswith(prefix)} <= known
    assert getattr(settings_of(name), "feature_gates", ()) == GATES.get(name, ())


@each
def test_pods_are_bounded_and_watched(name: str) -> None:
    _, container = PODS[name]
    resources = container["resources"]
    assert resources["requests"].keys() == resources["limits"].keys() == {"cpu", "memory"}
    assert {"livenessProbe", "readinessProbe"} <= container.keys()
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "/tmp" in {one["mountPath"] for one in container["volumeMounts"]}


@each
def test_each_volume_is_mounted_once(name: str) -> None:
    spec, container = PODS[name]
    mounted = [one["name"] for one in container["volumeMounts"]]
    assert sorted(mounted) == sorted(one["name"] for one in spec["volumes"])


@each_replica
def test_replicas_are_nobody_on_their_node(name: str) -> None:
    spec, container = PODS[name]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert not any("hostPath" in volume for volume in spec["volumes"])


def test_the_manager_knows_its_pod_and_its_namespace() -> None:
    found = settings_of("manager")
    elsewhere = dataclasses.replace(
        found,
        pod_name="",
        pod_ip="",
        log_format="human",
        feature_gates=(),
        scheduler_address="",
        descheduler_address="",
    )
    assert (found.pod_name, found.pod_ip) == ("pod-1", "10.0.0.1")
    services = [one for one in OBJECTS.values() if one["kind"] == "Service"]
    ports = {one["metadata"]["name"]: one["spec"]["ports"] for one in services}
    for address in (found.scheduler_address, found.descheduler_address):
        assert [one["port"] for one in ports[address.partition(":")[0]]] == [port(address)]
    assert elsewhere == MANAGER, "in its namespace all else is as by default"


@each
def test_probes_ask_for_pages_at_ports_that_there_are(name: str) -> None:
    container = PODS[name][1]
    probes = {part: container[f"{part}Probe"]["httpGet"] for part in ("liveness", "readiness")}
    assert probes["liveness"]["path"] in ("/healthz", "/livez")
    assert probes["readiness"]["path"] == "/readyz"
    ports = [port for one in container["ports"] for port in (one["name"], one["containerPort"])]
    assert all(one["port"] in ports for one in probes.values())


def test_the_managers_ports_are_those_it_serves() -> None:
    _, container = PODS["manager"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert ports == {
        "webhooks": port(MANAGER.webhook_address),
        "metrics": port(MANAGER.metrics_addr),
        "health": port(MANAGER.health_probe_addr),
        "node-metrics": port(MANAGER.node_metric_api_address),
        "reports": port(MANAGER.node_metric_report_address),
    }


def test_services_lead_to_the_managers_ports() -> None:
    def ports(name: str) -> dict[int, object]:
        spec = OBJECTS["Service", NAMESPACE, name]["spec"]
        return {one["port"]: one["targetPort"] for one in spec["ports"]}

    client = WebhookClientConfig(NAMESPACE)
    assert client.service == MANAGER.webhook_service
    assert ports(client.service) == {client.port: port(MANAGER.webhook_address)}
    leader = MANAGER.node_metric_service
    endpoint = LeaderEndpoint(leader, NAMESPACE, "10.0.0.1", {})
    assert ports(leader) == {
        endpoint.service_port: port(MANAGER.node_metric_api_address),
        port(MANAGER.node_metric_report_address): port(MANAGER.node_metric_report_address),
    }
    assert "selector" not in OBJECTS["Service", NAMESPACE, leader]["spec"]


@pytest.mark.parametrize(
    ("name", "services"),
    [
        ("koord-manager", ("koordinator-webhook-service", "koordinator-manager-metrics")),
        ("koord-scheduler", ("koord-scheduler-metrics",)),
    ],
)
def test_selectors_select_the_programs_pods(name: str, services: tuple[str, ...]) -> None:
    deployment = OBJECTS["Deployment", NAMESPACE, name]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    selectors = [OBJECTS["Service", NAMESPACE, one]["spec"]["selector"] for one in services]
    budget = OBJECTS["PodDisruptionBudget", NAMESPACE, name]["spec"]
    selectors += [deployment["selector"]["matchLabels"], budget["selector"]["matchLabels"]]
    [spread] = deployment["template"]["spec"]["affinity"]["podAntiAffinity"].values()
    selectors += [one["podAffinityTerm"]["labelSelector"]["matchLabels"] for one in spread]
    assert selectors == [labels] * (len(services) + 3)


@pytest.mark.parametrize("name", ["koord-manager", "koord-scheduler"])
def test_monitors_select_a_service_and_a_port_of_it(name: str) -> None:
    spec = installed("monitors")["ServiceMonitor", NAMESPACE, name]["spec"]
    labels = spec["selector"]["matchLabels"].items()
    services = [one for key, one in OBJECTS.items() if key[0] == "Service"]
    [service] = [one for one in services if labels <= one["metadata"].get("labels", {}).items()]
    assert {one["port"] for one in spec["endpoints"]} == {
        one["name"] for one in service["spec"]["ports"]
    }


@pytest.mark.parametrize("name", ["manager", "scheduler", "descheduler"])
def test_network_policies_let_in_to_each_port_of_their_pods(name: str) -> None:
    policy = installed("network-policies")["NetworkPolicy", NAMESPACE, f"koord-{name}"]["spec"]
    pods = OBJECTS["Deployment", NAMESPACE, f"koord-{name}"]["spec"]["template"]
    assert policy["podSelector"]["matchLabels"] == pods["metadata"]["labels"]
    let_in = {one["port"] for rule in policy["ingress"] for one in rule["ports"]}
    assert let_in == {one["name"] for one in PODS[name][1]["ports"]}


@pytest.mark.parametrize("name", ["scheduler", "descheduler"])
def test_the_one_port_of_schedulers_is_that_they_serve(name: str) -> None:
    [served] = PODS[name][1]["ports"]
    assert served == {"name": "metrics", "containerPort": settings_of(name).port}


def test_names_in_rules_are_those_of_the_settings() -> None:
    role = OBJECTS["Role", NAMESPACE, "koord-manager"]
    names: dict[str, list[str]] = {}
    for rule in role["rules"]:
        names.setdefault(rule["resources"][0], []).extend(rule.get("resourceNames", ()))
    assert names["leases"] == [MANAGER.leader_election_name]
    assert names["secrets"] == [MANAGER.webhook_secret]
    configured = [MANAGER.slo_config_name, MANAGER.pod_enhanced_validator_config_name]
    assert names["configmaps"] == configured
    more = installed("node-metric-api")["Role", NAMESPACE, "koord-manager-node-metric-api"]
    for rule in more["rules"]:
        names.setdefault(rule["resources"][0], []).extend(rule.get("resourceNames", ()))
    assert names["configmaps"] == [*configured, CA_CONFIG_MAP]
    slices = [
        slice_name(LeaderEndpoint(MANAGER.node_metric_service, NAMESPACE, ip, {}))
        for ip in ("10.0.0.1", "fd00::1")
    ]
    assert names["endpointslices"] == slices


def test_koordlet_sees_the_host_where_it_looks() -> None:
    spec, container = PODS["koordlet"]
    found = settings_of("koordlet")
    paths = {one["name"]: one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    host: dict[str, str] = {
        one["mountPath"]: paths[one["name"]]
        for one in container["volumeMounts"]
        if one["name"] in paths
    }

    def there(path: str) -> str:
        """What of the host is at a path in the container."""
        root = next(one for one in host if path == one or path.startswith(f"{one}/"))
        return host[root] + path.removeprefix(root)

    at_the_same_place = (
        found.runtime_hooks_addr,
        found.runtime_hooks_config_path,
        found.runtime_hooks_nri_socket_path,
        found.var_lib_kubelet_dir,
        found.state_dir,
        found.xpu_device_infos_dir,
        found.container_runtime_endpoint.removeprefix("unix://"),
    )
    assert [there(path) for path in at_the_same_place] == [*at_the_same_place]
    assert found.runtime_hooks_host_endpoint == found.runtime_hooks_addr
    assert there(found.sys_root_dir) == "/sys"
    assert there(found.sys_fs_root_dir) == "/sys/fs"
    assert there(found.cgroup_root_dir) == "/sys/fs/cgroup"
    assert (found.proc_root_dir, spec["hostPID"]) == ("/proc", True)


def test_koordlet_serves_metrics_where_koordinators_does_and_probes_the_node_alone() -> None:
    spec, container = PODS["koordlet"]
    address = environ(container)["KOORDLET_METRICS_ADDRESS"]
    assert address == ":9316"
    assert container["ports"] == [{"name": "metrics", "containerPort": 9316}]
    for probe in ("livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert (asked["host"], f":{asked['port']}") == ("127.0.0.1", address)
    assert spec["hostNetwork"] is True


def test_koordlet_learns_whom_to_trust_as_the_manager_says_it() -> None:
    spec, container = PODS["koordlet"]
    [sources] = [one["projected"]["sources"] for one in spec["volumes"] if "projected" in one]
    token, reported = sources
    assert reported == {"configMap": {"name": CA_CONFIG_MAP, "optional": True}}
    [target] = [
        one for one in NodeMetricServer.tls_needs(MANAGER, gates.DEFAULTS).targets if one.namespace
    ]
    assert target.name == CA_CONFIG_MAP
    made = target.desired(None, b"PEM")
    assert made is not None
    [key] = made["data"]
    mount = next(one for one in container["volumeMounts"] if one["name"] == "manager")
    ca = environ(container)["KOORDLET_NODE_METRIC_REPORT_CA_FILE"]
    assert ca == f"{mount['mountPath']}/{key}"
    assert token["serviceAccountToken"]["audience"] == MANAGER_AUDIENCE
    file = f"{mount['mountPath']}/{token['serviceAccountToken']['path']}"
    assert file == koordlet.agent.config.KoordletSettings().node_metric_report_token_file


def test_priorities_begin_where_their_class_does() -> None:
    values = {
        one["metadata"]["name"]: one["value"]
        for one in OBJECTS.values()
        if one["kind"] == "PriorityClass"
    }
    assert values == {str(name): band[0] for name, band in BANDS.items()}


def test_the_configuration_can_be_used_as_it_is() -> None:
    given = OBJECTS["ConfigMap", NAMESPACE, "slo-controller-config"]
    config, problems = advance(DEFAULTS, given["data"])
    assert problems == ()
    assert config.colocation.cluster.enable is True
    assert config.threshold.cluster["enable"] is True
    assert all(json.loads(text) for text in given["data"].values())


def test_the_example_of_a_rollout_can_be_used_as_it_is() -> None:
    [patch] = load((DEPLOY / "examples/rollout.yaml").read_text())
    config, problems = advance(DEFAULTS, patch["data"])
    assert problems == ()
    assert config.extension
    assert config.extension.cluster != config.extension.of({"kubernetes.io/os": "linux"})


def test_the_namespace_is_left_alone_by_webhooks_about_pods() -> None:
    assert "control-plane" in OBJECTS["Namespace", "", NAMESPACE]["metadata"]["labels"]


def test_flags_in_the_text_of_rules_are_the_managers() -> None:
    known = {flag_of(field) for field in dataclasses.fields(koord_manager.program.config.Settings)}
    text = (DEPLOY / "base" / "rbac" / "manager.yaml").read_text()
    assert set(re.findall(r"--[a-z-]+[a-z]", text)) <= known
