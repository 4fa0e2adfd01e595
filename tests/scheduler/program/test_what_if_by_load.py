"""Where pods would go in a cluster that reports what it uses."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from koord_scheduler.program.what_if import kinds, what_if
from koordctl.schedule import lines
from koordctl.scheduler_documents import WhatIfDocument

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {multiPoint: {enabled: [{name: LoadAwareScheduling, weight: 100}]}}
"""


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "10", "pods": "9"}}}


def metric(name: str, cpu: str, minute: int) -> dict[str, Any]:
    usage = {"nodeUsage": {"resources": {"cpu": cpu, "memory": "0"}}}
    status = {"updateTime": f"2026-01-01T00:{minute:02}:00Z", "nodeMetric": usage}
    return {"metadata": {"name": name}, "status": status}


def placed(metrics: list[dict[str, Any]], pods: int) -> WhatIfDocument:
    resources = {"requests": {"cpu": "2"}}
    spec = {"containers": [{"name": "c", "resources": resources}]}
    asked = [{"metadata": {"name": f"w{number}"}, "spec": spec} for number in range(pods)]
    cluster = {"Node": [node("n1"), node("n2")], "NodeMetric": metrics}
    given = {kind: [json.dumps(one).encode() for one in each] for kind, each in cluster.items()}
    return msgspec.convert(what_if(given, asked, CONFIG), WhatIfDocument)


def test_each_pod_counts_with_its_estimate() -> None:
    found = placed([metric("n1", "3", 10), metric("n2", "1", 10)], 5)
    assert [one.node for one in found.pods] == ["n2", "n2", "n1", "n2", "n1"]
    assert "  n2: cpu usage 78 % > threshold 65 %" in list(
        lines(placed([metric("n1", "9", 10), metric("n2", "6100m", 10)], 1))
    )


def test_the_newest_report_says_what_time_it_is() -> None:
    found = placed([metric("n1", "1", 6), metric("n2", "5", 10)], 1)
    assert [one.node for one in found.pods] == [""], "n1's is too old, n2 is busy"


def test_reports_are_read_where_a_profile_asks_for_them() -> None:
    both = [{one.kind for one, _, _ in kinds(config)} for config in ("", CONFIG)]
    assert both[1] - both[0] == {"NodeMetric"}
