"""Best-effort pods together: usage, request, real limit."""

from __future__ import annotations

import json

import pytest
from koord_model.demand import Demand
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU, LABEL_QOS
from koordlet.metrics_advisor.collectors import beresource
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.koordlet.metrics_advisor.collectors.used_node import Group, Rounds, UsedNode, pod, values

BE = "kubepods/besteffort"
USAGE, REQUEST, LIMIT = (("node_be", "cpu", word) for word in ("usage", "request", "real-limit"))
SECOND = 10**9


def batch(uid: str, milli: int, qos: str = "BE") -> PodRecord:
    """A batch pod with one container, c1."""
    return pod(uid, above=BE, labels={LABEL_QOS: qos}, demand=Demand(requests={BATCH_CPU: milli}))


def put_cpus(node: UsedNode, group: str, cpus: str) -> None:
    name = "cpuset.cpus" if node.layout.version == 1 else "cpuset.cpus.effective"
    node.tree.texts[node.path(group, "cpuset", name)] = f"{cpus}\n"


def put_quota(node: UsedNode, quota: int, period: int = 100_000) -> None:
    if node.layout.version == 1:
        node.tree.texts[node.path(BE, "cpu", "cpu.cfs_quota_us")] = f"{quota}\n"
        node.tree.texts[node.path(BE, "cpu", "cpu.cfs_period_us")] = f"{period}\n"
    else:
        word = "max" if quota < 0 else str(quota)
        node.tree.texts[node.path(BE, "cpu", "cpu.max")] = f"{word} {period}\n"


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest) -> UsedNode:
    """Eight CPUs for best-effort pods, no quota."""
    made = UsedNode(request.param)
    made.put(BE, Group(SECOND))
    put_cpus(made, BE, "0-7")
    put_quota(made, -1)
    return made


@pytest.fixture
def rounds(node: UsedNode) -> Rounds:
    return Rounds(beresource.Collector(node.sources))


def test_usage_is_in_millicores_of_the_group_above_all(node: UsedNode, rounds: Rounds) -> None:
    assert USAGE not in values(rounds.look())
    node.put(BE, Group(4 * SECOND))
    assert values(rounds.look(seconds=2.0))[USAGE] == pytest.approx(1500.0)
    assert rounds.look(seconds=0.001).samples == []
    node.put(BE, Group(0))
    assert USAGE not in values(rounds.look())


def test_request_is_batch_cpu_of_class_be(rounds: Rounds) -> None:
    other = pod("u9", demand=Demand(requests={BATCH_CPU: 5000, "cpu": 1000}))
    pods = batch("u1", 500), batch("u2", 1500), batch("u3", 4000, "LS"), other
    assert values(rounds.look(*pods))[REQUEST] == 2000.0
    assert values(rounds.look())[REQUEST] == 0.0


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (json.dumps({"containers": {"c1": {"requests": {BATCH_CPU: "700"}}}}), 700.0),
        ("{", 0.0),
    ],
)
def test_a_pod_that_no_kubelet_listed_says_its_request_itself(
    rounds: Rounds, spec: str, expected: float
) -> None:
    told = pod(
        above=BE,
        labels={LABEL_QOS: "BE"},
        annotations={ANNOTATION_EXTENDED_RESOURCE_SPEC: spec},
    )
    assert values(rounds.look(told))[REQUEST] == expected


@pytest.mark.parametrize(
    ("quota", "group", "container", "expected"),
    [
        (-1, "0-7", None, 8000.0),
        (250_000, "0-7", None, 2500.0),
        (900_000, "0-7", None, 8000.0),
        (-1, "0-7", "2,4", 2000.0),
        (150_000, "0-7", "2,4", 1500.0),
        (-1, "0-1", "0-7", 2000.0),
        (-1, "", "0-3", 4000.0),
        (-1, "", None, None),
    ],
)
def test_real_limit_is_the_least_of_cpusets_and_quota(
    node: UsedNode,
    rounds: Rounds,
    quota: int,
    group: str,
    container: str | None,
    expected: float | None,
) -> None:
    put_quota(node, quota)
    put_cpus(node, BE, group)
    put_cpus(node, f"{BE}/podu1", "0")
    put_cpus(node, "kubepods/podu2/c1", "0")
    if container is not None:
        put_cpus(node, f"{BE}/podu1/c1", container)
    found = rounds.look(batch("u1", 1), pod("u2"))
    assert values(found).get(LIMIT) == expected
    assert found.partial == ()


def test_another_period(node: UsedNode, rounds: Rounds) -> None:
    put_quota(node, 100_000, 50_000)
    assert values(rounds.look())[LIMIT] == 2000.0


def test_a_node_without_best_effort_pods(rounds: Rounds, node: UsedNode) -> None:
    node.remove(BE)
    found = rounds.look()
    assert (values(found), found.partial) == ({REQUEST: 0.0}, ())


def test_what_cannot_be_read_harms_no_other(rounds: Rounds, node: UsedNode) -> None:
    put_cpus(node, BE, "many")
    put_quota(node, 300_000)
    rounds.look()
    found = rounds.look()
    assert values(found) == {REQUEST: 0.0, USAGE: 0.0, LIMIT: 3000.0}
    assert len(found.partial) == 1
    assert "is no CPU list" in found.partial[0]
