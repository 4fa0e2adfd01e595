from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from koord_manager.metrics_apis.core.pods import PodIndex, read_pod
from koord_manager.metrics_apis.core.reports import UsageReport, report_of
from koord_manager.node_metric.core.store import StoredMetric
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koord_model.times import rfc3339

NOW = 1_790_000_000.0
STRATEGY = ColocationStrategy()


def usage(cpu: Any = "250m", memory: Any = "64Mi") -> dict[str, Any]:
    return {"resources": {"cpu": cpu, "memory": memory}}


def report(
    *pods: dict[str, Any], age: float = 30, heard: float = 20, stale: str = "", **more: Any
) -> UsageReport | None:
    status = {"updateTime": rfc3339(NOW - age), "nodeMetric": {"nodeUsage": usage()}}
    encoded = msgspec.json.encode(status | {"podsMetric": pods} | more)
    kept = StoredMetric("n1", "u", "", 1, 1, 0.0, encoded, stale)
    return report_of(kept, STRATEGY, NOW - heard, NOW)


def pod(*containers: str, age: float = 3600, **spec: Any) -> Any:
    meta = {"name": "a", "namespace": "ns", "creationTimestamp": rfc3339(NOW - age)}
    made = {"nodeName": "n1", "containers": [{"name": name} for name in containers]}
    return read_pod(json.dumps({"metadata": meta, "spec": made | spec}).encode())


def reported(**more: Any) -> dict[str, Any]:
    return {"namespace": "ns", "name": "a", "podUsage": usage(), **more}


def found(given: dict[str, Any], of: Any) -> dict[str, tuple[str, str]]:
    made = report(given)
    assert made is not None
    return {one.name: (one.usage.cpu, one.usage.memory) for one in made.containers(of)}


def with_containers(**containers: Any) -> dict[str, Any]:
    return {"extensions": {"pykoord": {"containers": containers}}}


BOTH = with_containers(a={"cpu": "1", "memory": "1Gi"}, b={"cpu": "2m", "memory": "3Mi"})


def test_the_only_container_uses_what_the_pod_does() -> None:
    assert found(reported(), pod("web")) == {"web": ("250m", "64Mi")}


def test_several_containers_are_as_reported_and_finished_ones_are_left_out() -> None:
    wanted = {"a": ("1", "1Gi"), "b": ("2m", "3Mi")}
    assert found(reported(**BOTH), pod("a", "b")) == wanted
    sidecar = [{"name": "b", "restartPolicy": "Always"}, {"name": "setup"}]
    assert found(reported(**BOTH), pod("a", initContainers=sidecar)) == wanted


@pytest.mark.parametrize(
    ("given", "of"),
    [
        (reported(), pod("a", "b")),  # koordlet of Koordinator
        (reported(**with_containers(a={"cpu": "1", "memory": "1Gi"})), pod("a", "b")),
        (reported(**with_containers(a={"cpu": "1"}, b={"cpu": "1"})), pod("a", "b")),
        (reported(extensions=7), pod("a", "b")),
        (reported(podUsage={"resources": {"cpu": "1"}}), pod("a")),
        (reported(podUsage=usage(cpu="-1")), pod("a")),
        (reported(podUsage=usage(memory="many")), pod("a")),
        (reported(name="b"), pod("a")),
        (reported(), pod("a", age=10)),  # the one of this name before it
    ],
)
def test_what_is_not_known_of_all_containers_is_not_shown(given: dict[str, Any], of: Any) -> None:
    assert found(given, of) == {}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ((0.5, 1 << 30), ("500m", "1Gi")),
        (("1e-3", "1e3"), ("1m", "1k")),
        ((2, "0"), ("2", "0")),
    ],
)
def test_amounts_are_written_as_kubernetes_does(
    given: tuple[Any, Any], shown: tuple[str, str]
) -> None:
    assert found(reported(podUsage=usage(*given)), pod("a")) == {"a": shown}


def test_a_report_is_of_the_nodes_clock_but_not_of_the_future() -> None:
    for age, heard, wanted in ((30, 20, 30), (-600, 20, 20)):
        made = report(age=age, heard=heard)
        assert made is not None
        assert (NOW - made.time, made.window) == (wanted, 300)
    made = report(updateTime="yesterday")
    assert made is not None
    assert made.time == NOW - 20


def test_an_old_report_is_none() -> None:
    assert report(age=15 * 60) is not None
    assert report(age=15 * 60 + 1) is None
    assert report(stale=rfc3339(NOW)) is None
    assert report(podsMetric=7) is None


def test_pods_are_found_by_namespace_as_they_come_and_go() -> None:
    index, first = PodIndex(), pod("web")
    index.changed("ns/a", None, first)
    assert [*index.of("ns")] == [*index.of()] == [index.get("ns", "a")] == [first]
    waiting = pod("web", nodeName="")
    index.changed("ns/a", first, waiting)
    assert [*index.of("ns")] == [*index.of()] == []
