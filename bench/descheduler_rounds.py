"""Cost of a descheduler's round over 5,000 nodes of 30 pods, in the planner alone, without API.

``python -m bench.descheduler_rounds`` measures and writes bench/results/descheduler_rounds.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import get_context
from typing import Any

from koord_descheduler.config.descheduler_config import read_descheduler_config
from koord_descheduler.framework.round import RoundSettings
from koord_descheduler.planner.cluster import ClusterModel
from koord_descheduler.program.round_planner import RoundPlanner
from koord_model.times import rfc3339
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_service import memory

from bench import report
from bench.cache import resident_mib
from bench.report import Measure

NODES, PODS = 5_000, 30
_APPS = 500
_NOW = 1_700_000_000.0
_SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: LoadAwareScheduling, weight: 5}]}}}]
"""
_CONFIG = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
profiles:
  - plugins:
      balance: {enabled: [{name: LowNodeLoad}]}
      evict: {enabled: [{name: DefaultEvictor}], disabled: [{name: "*"}]}
      filter: {enabled: [{name: DefaultEvictor}], disabled: [{name: "*"}]}
    pluginConfig:
      - name: LowNodeLoad
        args:
          lowThresholds: {cpu: 40, memory: 90}
          highThresholds: {cpu: 70, memory: 95}
          anomalyCondition: {consecutiveAbnormalities: 1}
"""
Document = Mapping[str, Any]


class LoadedCluster:
    """Nodes of 64 cores with 30 pods each; ``hot`` of them use three quarters of their CPU."""

    def __init__(self, hot: int) -> None:
        memory.keep_freed()  # as the program does
        memory.collect_young_only()
        self.model = ClusterModel(read_scheduler_config(_SCHEDULER))
        self._kinds = {kind.name: kind for kind in self.model.kinds(lambda: 0.0)}
        self.model.scheduler.tick(_NOW, _NOW)
        for number in range(NODES):
            self._node(number, 1.6 if number < hot else 0.5)
        config = read_descheduler_config(_CONFIG)
        profiles = [profile.profile for profile in config.profiles]
        self.planner = RoundPlanner(self.model, profiles, [], RoundSettings())

    def _node(self, number: int, cores: float) -> None:
        name = f"node-{number}"
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": amounts, "conditions": ready}
        labels = {"kubernetes.io/hostname": name}
        self._put("Node", name, {"metadata": {"name": name, "labels": labels}, "status": status})
        pods = [f"app{one % _APPS}-{one}" for one in range(number * PODS, (number + 1) * PODS)]
        for pod in pods:
            self._pod(pod, name)
        used = [{"namespace": "team", "name": pod, "podUsage": _usage(cores)} for pod in pods]
        info = {"nodeUsage": _usage(1 + cores * PODS), "systemUsage": _usage(1)}
        status = {"updateTime": rfc3339(_NOW - 10), "nodeMetric": info, "podsMetric": used}
        self._put("NodeMetric", name, {"metadata": {"name": name}, "status": status})

    def _pod(self, name: str, node: str) -> None:
        app, since = name.partition("-")[0], rfc3339(_NOW - 3600)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app}
        container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": since}
            for kind in ("PodScheduled", "Ready")
        ]
        document = {
            "metadata": {
                "name": name,
                "namespace": "team",
                "uid": name,
                "labels": {"app": app},
                "creationTimestamp": since,
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": {"nodeName": node, "containers": [container]},
            "status": {"phase": "Running", "startTime": since, "conditions": conditions},
        }
        self._put("Pod", f"team/{name}", document)

    def _put(self, kind: str, key: str, document: Document) -> None:
        found = self._kinds[kind]
        found.put(key, found.read(json.dumps(document).encode()))

    def round(self) -> tuple[float, int]:
        """Plan once; returns CPU seconds and the number of moves."""
        began = time.process_time()
        plan = self.planner.plan(_NOW)
        return time.process_time() - began, len(plan.moves)


def _usage(cores: float) -> Document:
    amounts = {"cpu": f"{int(cores * 1000)}m", "memory": f"{int(cores * 1000)}Mi"}
    return {"resources": amounts}


def _rounds(hot: int) -> tuple[float, float, int, float]:
    """CPU seconds of the first and of the next round, moves of the first, and MiB at the end."""
    cluster = LoadedCluster(hot)
    first, moves = cluster.round()
    next_one, _ = cluster.round()
    return first, next_one, moves, resident_mib()


def _apart(function: Callable[..., Any], *arguments: Any) -> Any:
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def measure() -> Iterator[Measure]:
    first, again, moves, resident = _apart(_rounds, 0)
    assert not moves
    yield Measure("a first round, nothing to do", "s of CPU", first, "", None, 0.5)
    yield Measure("the next, nothing to do", "s of CPU", again, "", None, 0.5)
    yield Measure("memory", "MiB", resident, "", None, 500)
    hot = 67
    first, _, moves, _ = _apart(_rounds, hot)
    name = f"a round with {moves} moves off {hot} hot nodes"
    yield Measure(name, "s of CPU", first, "", None, 3)


def main() -> None:
    measures = list(measure())
    print(report.table(measures))
    settings = {"nodes": NODES, "pods": f"{NODES * PODS}", "plugin": "LowNodeLoad"}
    report.write(measures, "descheduler_rounds", settings)


if __name__ == "__main__":
    main()
