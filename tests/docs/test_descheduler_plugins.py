"""The plugin that docs/descheduler-plugins.md shows does what it says, installed as it says."""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
from koord_descheduler.config.descheduler_config import read_descheduler_config
from koord_descheduler.program import added_plugins as module
from koord_scheduler.arguments.problems import SchedulerConfigError

from tests.descheduler.clusters import NOW, TestCluster, node, pod

PAGE = (Path(__file__).parents[2] / "docs/descheduler-plugins.md").read_text()
CONFIG = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]


@pytest.fixture
def renew_pods(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the page."""
    made = ModuleType("renew_pods")
    exec(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0], vars(made))
    monkeypatch.setitem(sys.modules, "renew_pods", made)
    return made


def installed(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    entry = EntryPoint(name, value, module.GROUP)
    monkeypatch.setattr(module, "entry_points", lambda group: [entry])


@pytest.mark.usefixtures("renew_pods")
def test_a_profile_enables_it_with_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "RenewPods", "renew_pods:RenewPods")
    [profile] = read_descheduler_config(CONFIG, module.added_plugins()).profiles
    [plugin] = profile.profile.deschedule
    cluster = TestCluster()
    times = {"past": int(NOW) - 1, "now": int(NOW)}
    pods = (pod(name, "a", labels={"renew-at": str(at)}) for name, at in times.items())
    cluster.put(node("a"), pod("other", "a"), *pods)
    plan = cluster.round(plugin)
    assert [(move.pod.name, move.target) for move in plan.moves] == [("past", "a")]


@pytest.mark.usefixtures("renew_pods")
def test_its_arguments_are_checked_at_load(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "RenewPods", "renew_pods:RenewPods")
    text = CONFIG.replace("label: renew-at", 'label: ""')
    with pytest.raises(SchedulerConfigError, match=r"args.label is \"\"; expected the name"):
        read_descheduler_config(text, module.added_plugins())
