"""koord-scheduler's manifests fit its settings."""

from __future__ import annotations

import dataclasses

from koord_scheduler.config.scheduler_config import read_scheduler_config

from tests.deploy.manifests import NAMESPACE
from tests.deploy.programs import OBJECTS, PODS, SCHEDULER, settings_of


def test_the_scheduler_knows_its_pod_its_namespace_and_its_file() -> None:
    found = settings_of("scheduler")
    configured = {
        "configuration": found.configuration,
        "leader_elect_resource_namespace": NAMESPACE,
        "pod_name": "pod-1",
        "log_format": "json",
    }
    assert dataclasses.replace(SCHEDULER, **configured) == found, "all else is as by default"
    spec, container = PODS["scheduler"]
    folder, _, file = found.configuration.rpartition("/")
    [mounted] = [one["name"] for one in container["volumeMounts"] if one["mountPath"] == folder]
    [volume] = [one["configMap"]["name"] for one in spec["volumes"] if one["name"] == mounted]
    assert file in OBJECTS["ConfigMap", NAMESPACE, volume]["data"]


def test_the_schedulers_configuration_names_its_lease() -> None:
    given = OBJECTS["ConfigMap", NAMESPACE, "koord-scheduler-config"]
    [text] = given["data"].values()
    config = read_scheduler_config(text)
    election = config.leader_election
    assert election.leader_elect
    assert (election.resource_namespace, election.resource_name) == (NAMESPACE, "koord-scheduler")
    # Not kube-scheduler's, which runs beside it.
    names = [one.profile.scheduler_name for one in config.profiles]
    assert names == ["koord-scheduler"]


def test_the_schedulers_port_is_that_it_serves() -> None:
    container = PODS["scheduler"][1]
    assert container["ports"] == [{"name": "metrics", "containerPort": SCHEDULER.port}]
    service = OBJECTS["Service", NAMESPACE, "koord-scheduler-metrics"]["spec"]
    ports = [(one["port"], one["targetPort"]) for one in service["ports"]]
    assert ports == [(SCHEDULER.port, "metrics")]


def test_the_schedulers_requests_have_kube_schedulers_places() -> None:
    schemas = {key[2]: given["spec"] for key, given in OBJECTS.items() if key[0] == "FlowSchema"}
    levels = {name: one["priorityLevelConfiguration"]["name"] for name, one in schemas.items()}
    assert levels == {
        "koord-scheduler": "workload-high",
        "koord-scheduler-leader-election": "leader-election",
    }
    accounts = [
        subject["serviceAccount"]
        for spec in schemas.values()
        for rule in spec["rules"]
        for subject in rule["subjects"]
    ]
    account = {"name": PODS["scheduler"][0]["serviceAccountName"], "namespace": NAMESPACE}
    assert accounts == [account] * 2
    # A lower number comes first; that of all service accounts has 9000.
    first, then = sorted(spec["matchingPrecedence"] for spec in schemas.values())
    assert first == schemas["koord-scheduler-leader-election"]["matchingPrecedence"]
    assert then < 9000


def test_the_lease_in_the_schedulers_rules_is_that_of_its_settings() -> None:
    rules = OBJECTS["Role", NAMESPACE, "koord-scheduler"]["rules"]
    names = [name for rule in rules for name in rule.get("resourceNames", ())]
    assert names == ["koord-scheduler"]
