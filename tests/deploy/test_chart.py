"""The chart, rendered by Helm, is what the kustomization is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import chain
from typing import Any

import pytest
import yaml
from koord_kube.definitions.catalogue import DEFINITIONS
from koord_model.version import VERSION

from tests.deploy.helm import helm, needs_helm, notes, rendered
from tests.deploy.manifests import NAMESPACE, Id, Object, everything, installed, load, read
from tests.docs.test_advice import _exists
from tools import deploy_files
from tools.deploy_files import (
    CHART,
    components,
    made,
    sources,
    template,
    values,
)

VALUES = CHART / "values.yaml"
Values = dict[str, Any]


def defaults() -> Values:
    return dict(*load(VALUES.read_text()))


def nested(given: Mapping[str, Any]) -> Values:
    """Values by their names with dots, as somebody writes them."""
    made: Values = {}
    for name, value in given.items():
        *parents, last = name.split(".")
        place = made
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return made


def objects(given: Mapping[str, Any]) -> dict[Id, Object]:
    """Helm's rendering of values by their names with dots."""
    return read([rendered(nested(given))])


def parsed(found: Mapping[Id, Object]) -> dict[Id, Object]:
    """The same, and of files in ConfigMaps what their YAML says: templates quote its texts."""
    return {
        key: given | {"data": {name: _file(name, text) for name, text in given["data"].items()}}
        if given["kind"] == "ConfigMap"
        else given
        for key, given in found.items()
    }


def _file(name: str, text: str) -> Any:
    return load(text) if name.endswith(".yaml") else text


ALL_COMPONENTS = {
    "koordlet.nodesProxy": True,
    "scheduler.enabled": True,
    "scheduler.numa": True,
    "scheduler.deviceShare": True,
    "scheduler.devicePlugins": True,
    "scheduler.reservations": True,
    "scheduler.gangs": True,
    "scheduler.networkTopology": True,
    "deviceDaemon.enabled": True,
    "deviceDaemon.tools.enabled": True,
    "scheduler.quotas": True,
    "descheduler.enabled": True,
    "networkPolicies.enabled": True,
    "monitoring.monitors": True,
    "monitoring.alerts": True,
    "koordlet.featureGates": "EvictionPlugins=true,RDMADevices=true,CustomNodeResource=true",
    "manager.featureGates": "ColocationProfileController=true,ResourceMetricsAPI=true,"
    "CustomMetricsAPI=true,ExternalMetricsAPI=true,RolloutGuard=true,ServiceProfiles=true,"
    "NodeBackstop=true,PodResize=true",
    "descheduler.featureGates": "TideNodePool=true",
    "manager.enableNodeMetricApi": "true",
}


def differences(before: Any, after: Any, path: str = "") -> dict[str, Any]:
    """What is otherwise, by where it is."""
    if isinstance(before, Mapping) and isinstance(after, Mapping) and before.keys() == after.keys():
        parts = {f"{path}.{key}": (before[key], after[key]) for key in before}
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        both = zip(before, after, strict=True)
        parts = {f"{path}[{number}]": pair for number, pair in enumerate(both)}
    else:
        return {} if before == after else {path: after}
    found: dict[str, Any] = {}
    for where, (one, other) in parts.items():
        found |= differences(one, other, where)
    return found


def test_the_chart_is_made_from_what_is_there_now() -> None:
    there = {
        str(path.relative_to(CHART)): path.read_text()
        for path in CHART.rglob("*")
        if path.is_file()
    }
    assert there == made(), "run: python tools/deploy_files.py"


def test_its_versions_are_ours() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    values = defaults()
    for part in ("manager", "koordlet", "scheduler"):
        assert values[part]["image"].endswith(f":{VERSION}")


def test_its_definitions_are_those_of_the_code() -> None:
    read_back = [*chain(*(load(path.read_text()) for path in sorted((CHART / "crds").iterdir())))]
    assert read_back == sorted(DEFINITIONS, key=lambda one: str(one["metadata"]["name"]))


@needs_helm
def test_by_default_it_is_the_kustomization() -> None:
    assert objects({}) == installed()


@needs_helm
@pytest.mark.parametrize(
    ("component", "wanted"),
    [
        ("nodes-proxy", {"koordlet.nodesProxy": True}),
        ("network-policies", {"networkPolicies.enabled": True}),
        ("monitors", {"monitoring.monitors": True}),
        ("alerts", {"monitoring.alerts": True}),
        ("evictions", {"koordlet.featureGates": "CPUBurst=false,MemoryEvict=true"}),
        ("evictions eviction-plugins", {"koordlet.featureGates": "EvictionPlugins=true"}),
        ("custom-node-resource", {"koordlet.featureGates": "CustomNodeResource=true"}),
        ("devices", {"koordlet.featureGates": "RDMADevices=true"}),
        (
            "colocation-profile-controller",
            {"manager.featureGates": "ColocationProfileController=true"},
        ),
        ("node-backstop", {"manager.featureGates": "NodeBackstop=true"}),
        ("rollout-guard", {"manager.featureGates": "RolloutGuard=true"}),
        ("pod-resize", {"manager.featureGates": "PodResize=true"}),
        ("service-profiles", {"manager.featureGates": "ServiceProfiles=true"}),
        ("tide-node-pools", {"descheduler.featureGates": "TideNodePool=true"}),
        ("node-metric-api", {"manager.enableNodeMetricApi": True}),
        ("resource-metrics", {"manager.featureGates": "ResourceMetricsAPI=true"}),
        ("custom-metrics", {"manager.featureGates": "CustomMetricsAPI=true"}),
        ("external-metrics", {"manager.featureGates": "ExternalMetricsAPI=true"}),
        ("scheduler", {"scheduler.enabled": True}),
        ("numa", {"scheduler.numa": True}),
        ("device-share", {"scheduler.deviceShare": True}),
        ("device-plugins", {"scheduler.devicePlugins": True}),
        ("reservations", {"scheduler.reservations": True}),
        ("gangs", {"scheduler.gangs": True}),
        ("network-topology", {"scheduler.networkTopology": True}),
        ("quotas", {"scheduler.quotas": True}),
    ],
)
def test_a_value_brings_its_components_and_no_other(component: str, wanted: Values) -> None:
    found, wanted_objects = parsed(objects(wanted)), parsed(installed(*component.split()))
    assert found.keys() == wanted_objects.keys()
    added = found.keys() - installed().keys()
    assert {key: found[key] for key in added} == {key: wanted_objects[key] for key in added}


@needs_helm
@pytest.mark.parametrize(("given", "names"), [({}, set()), (ALL_COMPONENTS, {*components()})])
def test_the_notes_name_what_there_is_and_three_commands(given: Values, names: set[str]) -> None:
    said = notes(nested({"namespace": "elsewhere", **given}))
    listed = re.findall(r"^  - (\S+)$", said, re.MULTILINE)
    assert sorted(listed) == sorted({"koord-manager", "koordlet", *names})
    commands = re.findall(r"^  ((?:kubectl|koordctl) .*?) +# ", said, re.MULTILINE)
    assert [command.split()[:1] for command in commands] == [["kubectl"], ["koordctl"], ["kubectl"]]
    assert _exists(commands[1])
    assert [command.count(" elsewhere") for command in commands] == [1, 1, 0]
    assert VERSION in said


@needs_helm
def test_gates_that_are_off_bring_no_rights() -> None:
    off = {"koordlet.featureGates": "MemoryEvict=false,Accelerators=false"}
    off |= {"manager.featureGates": "ColocationProfileController=false"}
    assert objects(off).keys() == installed().keys()


@needs_helm
def test_another_namespace_is_everywhere_but_in_kube_system() -> None:
    found = load(rendered(nested({**ALL_COMPONENTS, "namespace": "elsewhere"})))
    assert len(found) == len(everything())
    assert NAMESPACE not in json.dumps(found)
    namespaces = {one["metadata"].get("namespace", "") for one in found}
    assert namespaces == {"", "elsewhere", "kube-system"}
    assert {one["metadata"]["name"] for one in found if one["kind"] == "Namespace"} == {"elsewhere"}


def unlike_any(number: int, name: str) -> Any:
    """A value of the name's type that no other has, with what YAML and templates read otherwise."""
    match values()[name].default:
        case str():
            return f'{name}: "b" {{{{ c }}}} <&> # d'
        case int():
            return 7000 + number
        case dict() as default:  # Helm merges it
            return {**default, name: "c: d"}
        case list():
            return [{"key": name, "operator": "Exists"}, {"key": "b", "operator": "Exists"}]
    return name


@needs_helm
def test_each_value_is_put_where_it_is_meant() -> None:
    rest = sorted(
        values().keys() - ALL_COMPONENTS.keys() - {"namespace", "registry", "descheduler.dryRun"}
    )
    given = {name: unlike_any(number, name) for number, name in enumerate(rest)}
    given |= {**ALL_COMPONENTS, "descheduler.dryRun": False}
    placed = [
        *differences(parsed(everything()), parsed(objects(given | {"registry": ""}))).values()
    ]
    texts = [*sources().values(), *(t for one in components().values() for t in one.texts.values())]
    for name, value in given.items():
        marked = sum(len(re.findall(rf"# chart: {name}(?:,|$)", t, re.MULTILINE)) for t in texts)
        assert placed.count(value) == marked, name
        placed = [one for one in placed if one != value]
    assert placed == []


@needs_helm
@pytest.mark.parametrize(
    ("given", "image"),
    [("manager:1", "example.com/a/manager:1"), ("example.org/b:2", "example.org/b:2")],
)
def test_the_registry_is_of_images_named_without_one(given: str, image: str) -> None:
    found = objects({"manager.image": given, "registry": "example.com/a"})
    [deployment] = [one for key, one in found.items() if key[0] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image


@needs_helm
@pytest.mark.parametrize(("given", "text"), [(True, "true"), (2, "2"), (0.5, "0.5")])
def test_what_was_not_quoted_is_a_text_all_the_same(given: object, text: str) -> None:
    found = objects({"manager.enableNodeMetricApi": given})
    [deployment] = [one for key, one in found.items() if key[0] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    settings = {one["name"]: one.get("value") for one in container["env"]}
    assert settings["KOORD_MANAGER_ENABLE_NODE_METRIC_API"] == text


@needs_helm
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("manager.replica", 3, "at '/manager': additional properties 'replica' not allowed"),
        ("maneger", {}, "at '': additional properties 'maneger' not allowed"),
        ("manager.replicas", "two", "at '/manager/replicas': got string, want integer"),
        ("manager.args", "-x", "at '/manager/args': got string, want array"),
    ],
)
def test_values_that_are_none_of_its_are_refused(name: str, value: object, said: str) -> None:
    done = helm("template", "pykoord", str(CHART), "-f", "-", values=nested({name: value}))
    assert done.returncode == 1
    assert said in done.stderr


@needs_helm
def test_helm_finds_nothing_wrong_with_it() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "spec: # chart: manager.replicas",
        "  replicas: 2 # chart: manager replicas",
        "  replicas: 2 # chart:",
        "  text: '{{ .Values.a }}'",
    ],
)
def test_a_line_that_cannot_be_a_setting_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"^a\.yaml: "):
        template("a.yaml", line)


def test_one_setting_has_one_default() -> None:
    texts = {"a.yaml": "a: 1 # chart: some.value\n", "b.yaml": "a: 2 # chart: some.value\n"}
    with pytest.raises(ValueError, match=r"^b\.yaml: some\.value is 2 here, 1 elsewhere$"):
        deploy_files.settings(texts)
