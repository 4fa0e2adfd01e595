"""The configuration with all of Koordinator's plugins that people copy, and what it needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.program.make_scheduler import make_scheduler

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / "examples" / "scheduler-all-plugins.yaml"
EXAMPLE: str = yaml.safe_load(FILE.read_text())["data"]["scheduler-config.yaml"]


class Cluster:
    """One node, and pods one after the other, at a time in seconds since the epoch."""

    def __init__(self) -> None:
        self.scheduler = make_scheduler(read_scheduler_config(EXAMPLE), 1)
        kinds = (*cluster_kinds(self.scheduler), pod_kind(self.scheduler, lambda: 0.0))
        self.kinds = {one.resource.kind: one for one in kinds}
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        self.put("Node", "n1", {"status": {"allocatable": amounts}})

    def put(self, kind: str, key: str, document: dict[str, Any]) -> None:
        namespace, _, name = key.rpartition("/")
        metadata = {"name": name, "namespace": namespace, "uid": name}
        raw = json.dumps({"metadata": metadata, **document}).encode()
        self.kinds[kind].put(key, self.kinds[kind].read(raw))

    def is_placed(self, name: str) -> bool:
        container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulerName": "koord-scheduler", "containers": [container]}
        self.put("Pod", f"shop/{name}", {"spec": spec})
        return isinstance(self.scheduler.decide(0.0), Placement)


def test_a_plain_pod_runs_with_all_of_them_and_nothing_that_they_need() -> None:
    assert Cluster().is_placed("web")


def test_only_load_without_reports_keeps_pods_from_running() -> None:
    cluster = Cluster()
    cluster.put("NodeMetric", "n1", {"spec": {}, "status": {}})
    assert not cluster.is_placed("web")
