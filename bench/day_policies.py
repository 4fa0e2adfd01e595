"""Policies of a simulated day: nobody, this project's plugins, and the originals' own code.

An original is a program that reads a line of JSON for each round (``args`` and ``evictor`` as in a
profile; ``nodes``, ``pods`` and ``nodeMetrics``) and answers with a line, the keys of the pods to
evict, in order. It is started with the plugin's name. It is not part of this project.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from koord_descheduler.config.descheduler_config import read_descheduler_config
from koord_descheduler.framework.round import RoundSettings
from koord_descheduler.planner.budgets import MoveLimit, of_target
from koord_descheduler.program.round_planner import RoundPlanner
from koord_scheduler.plugins.load_aware.node_metric import NodeReport

from bench.day_cluster import HIGH, DayCluster

LOW = 50.0
"""Per cent below which a node gets pods."""
_LOWS, _HIGHS = {"cpu": LOW, "memory": 90.0}, {"cpu": HIGH, "memory": 95.0}
_LOADS = {"lowThresholds": _LOWS, "highThresholds": _HIGHS}
_AT_ONCE = {"anomalyCondition": {"consecutiveAbnormalities": 1}}
_USES = {
    "thresholds": _LOWS,
    "targetThresholds": _HIGHS,
    "metricsUtilization": {"source": "KubernetesMetrics"},
}


class DaySetting(NamedTuple):
    """A plugin of an original, and arguments that are the same for ours."""

    name: str
    origin: str
    plugin: str
    args: Mapping[str, Any]

    @property
    def ours(self) -> str:
        """The policy with the plugin of this project."""
        return f"our {self.name}"

    @property
    def theirs(self) -> str:
        """The policy with the original."""
        return f"{self.origin} {self.name}"


SETTINGS = (
    DaySetting("LowNodeLoad", "Koordinator's", "LowNodeLoad", _LOADS | _AT_ONCE),
    DaySetting("LowNodeLoad, hot for over 5 rounds", "Koordinator's", "LowNodeLoad", _LOADS),
    DaySetting("LowNodeUtilization", "upstream's", "LowNodeUtilization", _USES),
)
"""The second is as LowNodeLoad is by default; the others act on any hot node."""
_MOST_OF_TARGET = 5
"""The program's default of ``--max-pods-per-target``."""
DayPolicy = Callable[[DayCluster], Iterable[str]]


def nobody(_cluster: DayCluster) -> Iterable[str]:
    """Evict no pod."""
    return ()


class PlannedPolicy:
    """A plugin of this project, in rounds as the program plans them; evicts directly."""

    def __init__(self, setting: DaySetting) -> None:
        self._setting = setting
        self._planner: RoundPlanner | None = None

    def __call__(self, cluster: DayCluster) -> Iterable[str]:
        planner = self._planner = self._planner or self._begin(cluster)
        plan = planner.plan(cluster.now)
        for move in plan.moves:
            planner.begin(move, cluster.now)
        return [move.pod.key for move in plan.moves]

    def _begin(self, cluster: DayCluster) -> RoundPlanner:
        evictor: Mapping[str, Any] = {
            "enabled": [{"name": "DefaultEvictor"}],
            "disabled": [{"name": "*"}],
        }
        plugin, args = self._setting.plugin, self._setting.args
        plugins = {
            "balance": {"enabled": [{"name": plugin}]},
            "evict": evictor,
            "filter": evictor,
        }
        config = {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerConfiguration",
            "profiles": [
                {
                    "plugins": plugins,
                    "pluginConfig": [{"name": plugin, "args": args}],
                }
            ],
        }
        read = read_descheduler_config(json.dumps(config))
        profiles = [profile.profile for profile in read.profiles]
        limits = [*read.limits, MoveLimit("--max-pods-per-target", _MOST_OF_TARGET, of_target)]
        return RoundPlanner(cluster.model, profiles, limits, RoundSettings())


class OriginalPolicy:
    """An original's own code, as the program ``binary`` has it."""

    def __init__(self, binary: str, setting: DaySetting) -> None:
        plugin = setting.plugin
        kind = {"apiVersion": "descheduler/v1alpha2", "kind": f"{plugin}Args"}
        self._given = {"args": {**kind, **setting.args}, "evictor": {"nodeFit": True}}
        self._process = subprocess.Popen(
            [binary, plugin], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, cluster: DayCluster) -> Iterable[str]:
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        reports = zip(cluster.names, cluster.reports, strict=True)
        round_ = {
            **self._given,
            "nodes": cluster.nodes,
            "pods": [pod for pod in cluster.documents.values() if "nodeName" in pod["spec"]],
            "nodeMetrics": [_metric(name, report) for name, report in reports],
        }
        asked.write(json.dumps(round_) + "\n")
        asked.flush()
        keys: list[str] = json.loads(answers.readline())
        return keys

    def close(self) -> None:
        """Let the program end."""
        self._process.communicate()


def _metric(name: str, report: NodeReport) -> Mapping[str, Any]:
    pods = [(key.split("/"), pod.usage) for key, pod in report.pods.items()]
    return {
        "metadata": {"name": name},
        "status": {
            "nodeMetric": {
                "nodeUsage": _usage(report.usage or {}),
                "systemUsage": _usage(report.system),
            },
            "podsMetric": [
                {"namespace": space, "name": pod, "podUsage": _usage(usage)}
                for (space, pod), usage in pods
            ],
        },
    }


def _usage(amounts: Mapping[str, float]) -> Mapping[str, Any]:
    found = {"cpu": f"{amounts['cpu']:g}m", "memory": f"{amounts['memory']:.0f}"}
    return {"resources": found}
