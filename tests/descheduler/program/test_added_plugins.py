"""A plugin of another distribution (tests/external_plugins) moves pods; what is none is refused."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
from koord_descheduler.program import added_plugins as module
from koord_descheduler.program.main import read_config
from koord_scheduler.program import added_plugins as scheduler_module

from tests.descheduler.clusters import TestCluster, node, pod

FOLDER = Path(__file__).parents[2] / "external_plugins"
CONFIG = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
profiles:
  - plugins: {balance: {enabled: [{name: ColdNodes}]}}
    pluginConfig: [{name: ColdNodes, args: {label: old}}]
"""


def test_it_is_found_configured_and_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    [plugin] = read_config(str(path)).profiles[0].profile.balance
    cluster = TestCluster()
    cluster.put(node("a", labels={"old": ""}, unschedulable=True), node("b"), pod("p", "a"))
    [move] = cluster.round(plugin).moves
    assert (move.pod.name, move.target, move.plugin) == ("p", "b", "ColdNodes")


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("LowNodeLoad", "os:path", "the name is a plugin of the descheduler's own"),
        ("Mine", "nowhere:Plugin", "cannot be loaded: No module named 'nowhere'"),
        ("Mine", "os:path", "is not a DeschedulerPlugin"),
        ("Mine", "cold_nodes:ColdNodes", "has another name: ColdNodes"),
    ],
)
def test_what_cannot_be_used_is_refused(
    name: str, value: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    found = [EntryPoint(name, value, module.GROUP)]
    monkeypatch.setattr(module, "entry_points", lambda group: found)
    with pytest.raises(ValueError, match=line):
        module.added_plugins()


@pytest.mark.parametrize("module", [module, scheduler_module])
def test_a_name_is_used_once(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    found = [EntryPoint("ColdNodes", "cold_nodes:ColdNodes", module.GROUP)] * 2
    monkeypatch.setattr(module, "entry_points", lambda group: found)
    with pytest.raises(ValueError, match="another package has a plugin of that name"):
        module.added_plugins()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--config: cannot read"):
        read_config(str(tmp_path / "nothing"))
    (tmp_path / "bad").write_text("apiVersion: v1\n")
    with pytest.raises(ValueError, match='bad: apiVersion is "v1"; expected descheduler/v1alpha2'):
        read_config(str(tmp_path / "bad"))
