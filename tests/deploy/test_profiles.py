"""The profiles: kustomize and Helm give the same; gates, plugins and rights fit together."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from koord_descheduler.config.descheduler_config import read_descheduler_config
from koord_manager.program import gates as manager_gates
from koord_model import node_slo_document
from koord_model.keys import BATCH_MEMORY
from koord_model.qos import QoSClass
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koordlet.agent import feature_gates as koordlet_gates
from koordlet.agent.config import select_plugins
from koordlet.qos_manager import strategy_table

from tests.deploy.helm import needs_helm, rendered
from tests.deploy.manifests import DEPLOY, Id, Object, containers, identity, installed, load, read
from tests.deploy.test_chart import Values, defaults, parsed
from tests.deploy.test_kustomization import build, needs_kubectl
from tests.support.views import GIB, FakeLatest, cpu_info, memory_info, pod_view, view

PROFILES = sorted(path.name for path in (DEPLOY / "profiles").iterdir() if path.is_dir())
each = pytest.mark.parametrize("name", PROFILES)
NEEDS = {
    "Coscheduling": "gangs",
    "DeviceShare": "deviceShare",
    "ElasticQuota": "quotas",
    "NodeNUMAResource": "numa",
    "Reservation": "reservations",
}
"""The chart's switch of each plugin that needs permissions of its own."""
HOOKS = {"gpuenvinject", "rdmadeviceinject"}
"""Those that give containers what the plugin DeviceShare allocated."""


def profile(name: str) -> Values:
    """The values of a profile."""
    return dict(*load((DEPLOY / "profiles" / name / "values.yaml").read_text()))


def values(name: str) -> Values:
    return dict(with_defaults(defaults(), profile(name)))


def with_defaults(before: Any, given: Any) -> Any:
    """Values as Helm merges them: mappings by key, everything else whole."""
    if not (isinstance(before, Mapping) and isinstance(given, Mapping)):
        return given
    merged = {key: with_defaults(before.get(key), value) for key, value in given.items()}
    return {**before, **merged}


def kustomized(name: str) -> dict[Id, Object]:
    """The objects of the kustomization; its patches merge environments by name."""
    folder = DEPLOY / "profiles" / name
    given = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert given["resources"] == ["../../base"]
    found = installed(*(path.removeprefix("../../components/") for path in given["components"]))
    files = [DEPLOY / "components/node-metric-api/manager.yaml"]
    files = [path for path in files if "../../components/node-metric-api" in given["components"]]
    for path in (*files, *(folder / patch["path"] for patch in given["patches"])):
        for patch in load(path.read_text()):
            found[identity(patch)] = patched(found[identity(patch)], patch)
    return found


def patched(before: Any, patch: Any) -> Any:
    if isinstance(before, dict) and isinstance(patch, dict):
        return before | {key: patched(before.get(key), value) for key, value in patch.items()}
    if isinstance(before, list) and all("name" in item for item in before):
        changes = {item["name"]: item for item in patch}
        assert changes.keys() <= {item["name"] for item in before}
        return [patched(item, changes.get(item["name"], item)) for item in before]
    return patch


def scheduler_text(objects: Mapping[Id, Object], name: str) -> str:
    return str(objects["ConfigMap", "koordinator-system", name]["data"]["scheduler-config.yaml"])


def switched_on(text: str) -> list[str]:
    return [gate.partition("=")[0] for gate in text.split(",") if gate]


@needs_helm
@each
def test_helm_and_kustomize_give_the_same(name: str) -> None:
    assert parsed(read([rendered(profile(name))])) == parsed(kustomized(name))


@needs_kubectl
@each
def test_kubectl_builds_the_same(name: str) -> None:
    assert with_sorted_env(build(DEPLOY / "profiles" / name)) == with_sorted_env(kustomized(name))


def with_sorted_env(objects: Mapping[Id, Object]) -> Mapping[Id, Object]:
    """The same; kustomize puts the variables that a patch has first."""
    made = copy.deepcopy(dict(objects))
    for _, container in containers(made):
        container["env"].sort(key=lambda variable: variable["name"])
    return made


@each
def test_gates_exist_and_plugins_are_built_and_have_their_rights(name: str) -> None:
    given = values(name)
    known = {*koordlet_gates.DEFAULTS, *koordlet_gates.OF_PLUGINS}
    assert {*switched_on(given["koordlet"]["featureGates"])} <= known
    assert {*switched_on(given["manager"]["featureGates"])} <= manager_gates.DEFAULTS.keys()
    config = read_scheduler_config(scheduler_text(kustomized(name), "koord-scheduler-config"))
    assert not any(profile.not_built for profile in config.profiles)
    assert config.without_effect == ()
    plugins = {plugin.plugin.name for made in config.profiles for plugin in made.profile.plugins}
    needed = {switch for plugin, switch in NEEDS.items() if plugin in plugins}
    assert needed == {switch for switch in NEEDS.values() if given["scheduler"][switch]}
    if "DeviceShare" in plugins:
        assert given["deviceDaemon"]["enabled"]
        assert "EnableSyncGPUSharedResource=false" not in given["manager"]["featureGates"]
        hooks, _ = select_plugins((), given["koordlet"]["featureGates"].split(","), HOOKS)
        assert {*hooks} == HOOKS


@each
def test_gates_of_eviction_evict_a_batch_pod_by_the_settings_that_nodes_get(name: str) -> None:
    given = values(name)
    section = json.loads(given["sloConfig"]["resourceThreshold"])["clusterStrategy"]
    slo, ignored = node_slo_document.parse({"spec": {"resourceUsedThresholdWithBE": section}})
    assert ignored == ()
    batch = pod_view("batch", qos=QoSClass.BE, priority=5000, requests={BATCH_MEMORY: 50 * GIB})
    full = FakeLatest(
        {("node_memory_usage",): 90 * GIB, ("node_cpu_usage",): 9.9},
        *(memory_info(100 * GIB), cpu_info(10)),
        pod_memory_usage={"batch": 50 * GIB},
        pod_cpu_usage={"batch": 9.0},
    )
    node = view(pods=(batch,), latest=full)
    rules = {rule.GATE: rule for rule in map(strategy_table.load, strategy_table.available())}
    for gate in switched_on(given["koordlet"]["featureGates"]):
        if gate.endswith("Evict"):
            plan = rules[gate].plan(node, rules[gate].settings(slo), None)
            assert [claim.opt_in for claim in plan.claims] == [False], (gate, plan.decisions)


@each
def test_the_descheduler_plans_by_the_schedulers_rules_and_evicts_nothing(name: str) -> None:
    objects = kustomized(name)
    key = ("ConfigMap", "koordinator-system", "koord-descheduler-config")
    if key not in objects:
        pytest.skip("without a descheduler")
    assert read_descheduler_config(objects[key]["data"]["descheduler-config.yaml"]).dry_run
    ours, theirs = (
        yaml.safe_load(scheduler_text(objects, f"koord-{program}-config"))["profiles"]
        for program in ("descheduler", "scheduler")
    )
    assert ours == theirs
