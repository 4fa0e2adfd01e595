"""The chart, rendered by Go's own template engine, is what the kustomization is."""

from __future__ import annotations

import copy
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError
from koord_kube.definitions.catalogue import DEFINITIONS
from koord_model.version import VERSION

from tests.deploy.manifests import NAMESPACE, Id, Object, everything, installed, load, read
from tests.docs.test_advice import _exists
from tools import deploy_files
from tools.deploy_files import (
    CHART,
    component,
    components,
    made,
    settings,
    sources,
    template,
    values,
)

VALUES = CHART / "values.yaml"
SCHEMA = CHART / "values.schema.json"
Values = dict[str, Any]
Render = Callable[[Values], list[str]]

# In a process of its own: Go's runtime changes the signal handlers of the one it is in.
_RENDER = """
import json, sys
from pathlib import Path
import go_template
for line in sys.stdin:
    made = [go_template.render(Path(name), json.loads(line)).decode() for name in sys.argv[1:]]
    print(json.dumps(made), flush=True)
"""
rendering = pytest.mark.skipif(
    importlib.util.find_spec("go_template") is None, reason="needs py-go-template (extra test-all)"
)


def defaults() -> Values:
    return dict(*load(VALUES.read_text()))


@pytest.fixture(scope="module")
def render_all() -> Iterator[Render]:
    """The templates as Helm has them, the notes first: the same engine, with its functions."""
    names = [str(path) for path in sorted((CHART / "templates").iterdir())]
    assert names[0].endswith("/NOTES.txt")
    command = [sys.executable, "-c", _RENDER, *names]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as renderer:
        assert renderer.stdin
        assert renderer.stdout
        questions, answers = renderer.stdin, renderer.stdout

        def rendered(values: Values) -> list[str]:
            print(json.dumps({"Values": values}), file=questions, flush=True)
            return list(json.loads(answers.readline()))

        yield rendered


@pytest.fixture(scope="module")
def render(render_all: Render) -> Render:
    """The objects' templates."""
    return lambda values: render_all(values)[1:]


def with_value(name: str, value: Any) -> Values:
    values = defaults()
    put(values, name, value)
    return values


def put(values: Values, name: str, value: Any) -> None:
    *parents, last = name.split(".")
    place = values
    for one in parents:
        place = place[one]
    assert last in place
    place[last] = value


def parsed(objects: Mapping[Id, Object]) -> dict[Id, Object]:
    """The same, and of files in ConfigMaps what their YAML says: templates quote its texts."""
    return {
        key: given | {"data": {name: _file(name, text) for name, text in given["data"].items()}}
        if given["kind"] == "ConfigMap"
        else given
        for key, given in objects.items()
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


@rendering
def test_by_default_it_is_the_kustomization(render: Render) -> None:
    assert read(render(defaults())) == installed()


@rendering
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
def test_a_value_brings_its_components_and_no_other(
    render_all: Render, component: str, wanted: Values
) -> None:
    values = defaults()
    for name, value in wanted.items():
        put(values, name, value)
    notes, *texts = render_all(values)
    assert listed(notes) == {"koord-manager", "koordlet", *component.split()}
    objects, wanted_objects = parsed(read(texts)), parsed(installed(*component.split()))
    assert objects.keys() == wanted_objects.keys()
    added = objects.keys() - installed().keys()
    assert {key: objects[key] for key in added} == {key: wanted_objects[key] for key in added}


def listed(notes: str) -> set[str]:
    return set(re.findall(r"^  - (\S+)$", notes, re.MULTILINE))


@rendering
def test_the_notes_name_three_commands_that_there_are(render_all: Render) -> None:
    notes, *_ = render_all(with_value("namespace", "elsewhere"))
    assert listed(notes) == {"koord-manager", "koordlet"}
    commands = re.findall(r"^  ((?:kubectl|koordctl) .*?) +# ", notes, re.MULTILINE)
    assert [command.split()[:1] for command in commands] == [["kubectl"], ["koordctl"], ["kubectl"]]
    assert _exists(commands[1])
    assert [command.count(" elsewhere") for command in commands] == [1, 1, 0]
    assert VERSION in notes


@rendering
def test_gates_that_are_off_bring_no_rights(render: Render) -> None:
    values = defaults()
    put(values, "koordlet.featureGates", "MemoryEvict=false,Accelerators=false")
    put(values, "manager.featureGates", "ColocationProfileController=false")
    assert read(render(values)).keys() == installed().keys()


@rendering
def test_another_namespace_is_everywhere_but_in_kube_system(render: Render) -> None:
    values = with_value("namespace", "elsewhere")
    for name, value in ALL_COMPONENTS.items():
        put(values, name, value)
    text = "\n---\n".join(render(values))
    objects = load(text)
    assert len(objects) == len(everything())
    assert NAMESPACE not in json.dumps(objects)
    namespaces = {one["metadata"].get("namespace", "") for one in objects}
    assert namespaces == {"", "elsewhere", "kube-system"}
    assert {one["metadata"]["name"] for one in objects if one["kind"] == "Namespace"} == {
        "elsewhere"
    }


_GIVEN: Mapping[type, Any] = {
    str: 'a: "b" {{ c }} <&> # d',
    int: 7,
    bool: False,
    type(None): "nvidia",
    dict: {"a/b": "c: d"},
    list: [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}],
}
_OF_COMPONENTS = {
    "imagePullSecrets": (
        "scheduler.enabled",
        "descheduler.enabled",
        "deviceDaemon.enabled",
        "deviceDaemon.tools.enabled",
    ),
    "monitoring.labels": ("monitoring.monitors", "monitoring.alerts"),
    "networkPolicies.metricsFrom": ("networkPolicies.enabled",),
    **{
        name: ("scheduler.enabled",)
        for name in settings(component("scheduler").texts)
        if name.startswith("scheduler.")
    },
    **{
        name: ("descheduler.enabled",)
        for name in settings(component("descheduler").texts)
        if name.startswith("descheduler.")
    },
    "scheduler.profiles": ("scheduler.enabled", "descheduler.enabled"),
    **{
        name: ("deviceDaemon.enabled", "deviceDaemon.tools.enabled")
        for folder in ("device-daemon", "device-daemon-tools")
        for name in settings(component(folder).texts)
        if name.startswith("deviceDaemon.")
    },
}
"""Values that are put into components, and what brings those."""
_NAMES = sorted(set(settings(sources())) - {"namespace"} | _OF_COMPONENTS.keys())


@rendering
@pytest.mark.parametrize("name", _NAMES)
def test_each_value_is_put_where_it_is_meant(render: Render, name: str) -> None:
    given = _GIVEN[type(values()[name].default)]
    set_to = with_value(name, given)
    for switch in _OF_COMPONENTS.get(name, ()):
        put(set_to, switch, value=True)
    objects, all_of_them = parsed(read(render(set_to))), parsed(everything())
    found = {
        f"{identity}{where}": value
        for identity in objects
        for where, value in differences(all_of_them[identity], objects[identity]).items()
    }
    texts = [*sources().values(), *(t for one in components().values() for t in one.texts.values())]
    marked = sum(text.count(f"# chart: {name}\n") for text in texts)
    marked += sum(text.count(f"# chart: {name}, ") for text in texts)
    assert [*found.values()] == [given] * marked, found


@rendering
@pytest.mark.parametrize(("given", "text"), [(True, "true"), (2, "2"), (0.5, "0.5")])
def test_what_was_not_quoted_is_a_text_all_the_same(
    render: Render, given: object, text: str
) -> None:
    values = with_value("manager.enableNodeMetricApi", given)
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(values)
    [deployment] = [one for key, one in read(render(values)).items() if key[0] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    settings = {one["name"]: one.get("value") for one in container["env"]}
    assert settings["KOORD_MANAGER_ENABLE_NODE_METRIC_API"] == text


@pytest.mark.parametrize(
    ("name", "value"),
    [("manager.replica", 3), ("maneger", {}), ("manager.replicas", "two"), ("manager.args", "-x")],
)
def test_values_that_are_none_of_its_are_refused(name: str, value: object) -> None:
    values = copy.deepcopy(defaults())
    *parents, last = name.split(".")
    place = values
    for one in parents:
        place = place[one]
    place[last] = value
    schema = Draft202012Validator(json.loads(SCHEMA.read_text()))
    schema.validate(defaults() | {"global": {"any": 1}})
    with pytest.raises(ValidationError):
        schema.validate(values)


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
