"""Numbers of gangs that wait, have started, or are being bound."""

from __future__ import annotations

import pytest
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.plugins.coscheduling.gang_metrics import GangMetrics
from koord_scheduler.plugins.coscheduling.gangs_document import gangs_document
from koord_scheduler.plugins.coscheduling.plugin import Coscheduling
from prometheus_client import CollectorRegistry

from tests.support.gangs import GangCluster


def test_gangs_by_state_and_as_rows() -> None:
    cluster, registry = GangCluster("n1", cpus=2), CollectorRegistry()
    registry.register(GangMetrics(cluster.scheduler.gangs))
    cluster.pod_group("none", 1)
    cluster.gang("a", 2)
    cluster.gang("b", 1, minimum=3)
    first, second = (one for one in cluster.decisions() if isinstance(one, Placement))

    def gangs(state: str) -> float | None:
        return registry.get_sample_value("pykoord_scheduler_gangs", {"state": state})

    assert [gangs(state) for state in ("waiting", "started", "empty")] == [1, 1, 1]
    assert registry.get_sample_value("scheduler_waiting_gang_group_number") == 1
    for one in (first, second):
        cluster.bind(one)
    assert registry.get_sample_value("scheduler_waiting_gang_group_number") == 0
    rows = {one["name"]: one for one in gangs_document(cluster.scheduler)["gangs"]}
    assert (rows["d/a"]["bound"], rows["d/a"]["why"]) == (2, "")
    assert (rows["d/b"]["min"], rows["d/b"]["members"], rows["d/b"]["waiting"]) == (3, 1, 1)
    assert "needs 3 pods: 1 there" in rows["d/b"]["why"]


def test_each_gang_says_what_its_group_lacks() -> None:
    cluster = GangCluster("n1")
    groups = '["d/a", "d/b"]'
    cluster.gang("a", 2, groups=groups)
    cluster.gang("b", 1, 2, groups=groups)
    cluster.gang("alone", 1)
    assert cluster.placed() == ["alone-0"]
    rows = {one["name"]: one for one in gangs_document(cluster.scheduler)["gangs"]}
    lacks = "gang d/b needs 2 pods: 1 there (once-satisfied)"
    assert {name: row["why"] for name, row in rows.items()} == {
        "d/a": lacks,
        "d/b": lacks,
        "d/alone": "",
    }
    assert {name: row["waiting"] for name, row in rows.items()} == {
        "d/a": 2,
        "d/b": 1,
        "d/alone": 0,
    }
    assert rows["d/a"]["policy"] == "Strict, once-satisfied"


def test_services_show_a_gang_and_all_gangs() -> None:
    cluster = GangCluster("n1")
    cluster.gang("a", 2)
    services = Coscheduling().services(cluster.scheduler.nodes)
    every = services["/gangs"]({})
    assert every.keys() == {"d/a"}
    assert services["/gang/:namespace/:name"]({"namespace": "d", "name": "a"}) == every["d/a"]
    assert every["d/a"]["createTime"] == "1970-01-01T00:00:00Z"
    with pytest.raises(LookupError, match="cannot find gang d/b"):
        services["/gang/:namespace/:name"]({"namespace": "d", "name": "b"})
