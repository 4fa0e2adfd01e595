"""Best-effort pods together: usage, request, real limit."""

from __future__ import annotations

import json

import pytest
from koord_model.demand import Demand
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, LABEL_QOS
from koordlet.metrics_advisor.collectors import beresource
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.koordlet.metrics_advisor.collectors.used_node import (
    SECOND,
    Group,
    Rounds,
    UsedNode,
    pod,
    values,
)

BE = "kubepods/besteffort"
USAGE, REQUEST, LIMIT = (("node_be", "cpu", word) for word in ("usage", "request", "real-limit"))


def batch(uid: str, milli: int, qos: str = "BE") -> PodRecord:
    """A batch pod with one container, c1."""
    return pod(uid, above=BE, labels={LABEL_QOS: qos}, demand=Demand(requests={BATCH_CPU: milli}))


def put_cpus(node: UsedNode, group: str, cpus: str) -> None:
    name = "cpuset.cpus" if node.layout.version == 1 else "cpuset.cpus.effective"
    node.tree.texts[node.path(group, "cpuset", name)] = f"{cpus}\n"


def quota_file(node: UsedNode) -> str:
    return node.path(BE, "cpu", "cpu.cfs_quota_us" if node.layout.version == 1 else "cpu.max")


def put_quota(node: UsedNode, quota: int, period: int) -> None:
    if node.layout.version == 1:
        node.tree.texts[quota_file(node)] = f"{quota}\n"
        node.tree.texts[node.path(BE, "cpu", "cpu.cfs_period_us")] = f"{period}\n"
    else:
        word = "max" if quota < 0 else str(quota)
        node.tree.texts[quota_file(node)] = f"{word} {period}\n"


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest) -> UsedNode:
    made = UsedNode(request.param)
    made.put(BE, Group(SECOND))
    return made


@pytest.fixture
def rounds(node: UsedNode) -> Rounds:
    return Rounds(beresource.Collector(node.sources))


def test_usage_is_in_millicores_of_the_group_above_all(node: UsedNode, rounds: Rounds) -> None:
    rounds.look()
    node.put(BE, Group(4 * SECOND))
    assert values(rounds.look(seconds=2.0))[USAGE] == pytest.approx(1500.0)


def by_annotation(spec: str) -> PodRecord:
    """A pod that no kubelet has listed."""
    annotations = {ANNOTATION_EXTENDED_RESOURCE_SPEC: spec}
    return pod(above=BE, labels={LABEL_QOS: "BE"}, annotations=annotations)


SPEC = json.dumps({"containers": {"c1": {"requests": {BATCH_CPU: "700"}}}})


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ((), 0.0),
        ((batch("u1", 500), batch("u2", 1500)), 2000.0),
        ((batch("u3", 4000, "LS"),), 0.0),
        ((pod("u9", demand=Demand(requests={BATCH_CPU: 5000, "cpu": 1000})),), 0.0),
        ((by_annotation(SPEC),), 700.0),
        ((by_annotation("{"),), 0.0),
    ],
)
def test_request_is_batch_cpu_of_class_be(
    rounds: Rounds, pods: tuple[PodRecord, ...], expected: float
) -> None:
    assert values(rounds.look(*pods))[REQUEST] == expected


@pytest.mark.parametrize(
    ("quota", "group", "container", "expected"),
    [
        ((-1, 100_000), "0-7", None, 8000.0),
        ((250_000, 100_000), "0-7", None, 2500.0),
        ((900_000, 100_000), "0-7", None, 8000.0),
        ((100_000, 50_000), "0-7", None, 2000.0),
        ((-1, 100_000), "0-7", "2,4", 2000.0),
        ((150_000, 100_000), "0-7", "2,4", 1500.0),
        ((-1, 100_000), "0-1", "0-7", 2000.0),
        ((-1, 100_000), "", "0-3", 4000.0),
        ((-1, 100_000), "", None, None),
    ],
)
def test_real_limit_is_the_least_of_cpusets_and_quota(
    node: UsedNode,
    rounds: Rounds,
    quota: tuple[int, int],
    group: str,
    container: str | None,
    expected: float | None,
) -> None:
    put_quota(node, *quota)
    put_cpus(node, BE, group)
    put_cpus(node, f"{BE}/podu1", "0")
    put_cpus(node, "kubepods/podu2/c1", "0")
    if container is not None:
        put_cpus(node, f"{BE}/podu1/c1", container)
    found = rounds.look(batch("u1", 1), pod("u2"))
    assert values(found).get(LIMIT) == expected
    assert found.partial == ()


@pytest.mark.parametrize("content", [OSError(5, "Input/output error"), "x 100000\n", "\n"])
def test_an_unreadable_quota_is_reported_once(
    node: UsedNode, rounds: Rounds, content: str | OSError
) -> None:
    put_quota(node, 150_000, 100_000)
    put_cpus(node, BE, "0-7")
    node.tree.texts[quota_file(node)] = content
    found = rounds.look()
    assert values(found)[LIMIT] == 8000.0
    [line] = found.partial
    assert line.startswith(quota_file(node))
