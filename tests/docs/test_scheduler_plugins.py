"""The plugins that docs/scheduler-plugins.md shows do what it says, installed as it says."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.framework.class_scores import ClassScores
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.objects.node import read_node
from koord_scheduler.objects.pod import read_pod
from koord_scheduler.plugin import Plugin
from koord_scheduler.program import added_plugins as module
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass, pod_class

PAGE = (Path(__file__).parents[2] / "docs/scheduler-plugins.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CONFIG = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]


def shown() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in BLOCKS:
        exec(one, found)
    return found


def pod(**labels: str) -> PodClass:
    return pod_class(read_pod(json.dumps({"metadata": {"labels": labels}}).encode()))


@pytest.mark.parametrize("name", ["QuietRacks", "QuietRacksSlowly"])
def test_what_they_reject(name: str) -> None:
    nodes = ClusterState()
    for node, labels in {"n1": {"quiet": "true"}, "n2": {}}.items():
        document = {"metadata": {"name": node, "labels": labels}}
        nodes.set(read_node(json.dumps(document).encode()))
    plugin: Plugin = shown()[name]()
    noisy = ClassScores(pod(noisy="yes"), nodes, [EnabledPlugin(plugin)])
    assert [nodes.name(row) for row in noisy.feasible()] == ["n2"]
    assert len(ClassScores(pod(), nodes, [EnabledPlugin(plugin)]).feasible()) == 2
    assert [one.plugin for one in diagnose(noisy).plugins] == [name]


def installed(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    entry = EntryPoint(name, value, module.GROUP)
    monkeypatch.setattr(module, "entry_points", lambda group: [entry])


def test_a_profile_enables_it_with_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet_racks, given = ModuleType("quiet_racks"), []

    def build(args: dict[str, Any]) -> Plugin:
        given.append(args)
        made: Plugin = shown()["QuietRacks"]()
        return made

    quiet_racks.build = build  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "quiet_racks", quiet_racks)
    installed(monkeypatch, "QuietRacks", "quiet_racks:build")
    text = CONFIG + "    pluginConfig: [{name: QuietRacks, args: {label: quiet}}]\n"
    [profile] = read_scheduler_config(text, module.added_plugins()).profiles
    [enabled] = [one for one in profile.profile.plugins if one.plugin.name == "QuietRacks"]
    assert (enabled.filters, enabled.weight, given) == (True, 0, [{"label": "quiet"}])
    assert "QuietRacks" not in profile.not_built


@pytest.mark.parametrize(
    ("name", "value"), [("QuietRacks", "no_such_module:build"), ("NodePorts", "os:path")]
)
def test_one_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    installed(monkeypatch, name, value)
    with pytest.raises(ValueError, match=f"plugin {name} of {value}"):
        module.added_plugins()


def test_without_the_package_the_configuration_is_refused() -> None:
    with pytest.raises(ValueError, match="QuietRacks"):
        read_scheduler_config(CONFIG)


def test_what_one_shows() -> None:
    nodes = ClusterState()
    nodes.set(read_node(b'{"metadata": {"name": "n1", "labels": {"quiet": "true"}}}'))
    plugin = shown()["QuietRacksShown"]()
    [(path, service)] = plugin.services(nodes).items()
    assert path == "/nodes/:node"
    assert service({"node": "n1"}) == {"quiet": True}
    with pytest.raises(LookupError):
        service({"node": "n2"})
