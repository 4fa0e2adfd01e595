"""Applications outside Kubernetes: where their cgroups are, what they use."""

from __future__ import annotations

import pytest
from koord_model.node_slo import HostApplication
from koord_model.qos import QoSClass
from koordlet.metrics_advisor.collectors import hostapplication

from tests.koordlet.metrics_advisor.collectors.used_node import Group, Rounds, UsedNode, values

CPU = "host_application_cpu_usage"
MEMORY = "host_application_memory_usage"
WITH_CACHE = "host_application_memory_usage_with_page_cache"
NGINX = HostApplication("nginx", QoSClass.LS)
SECOND = 10**9


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest) -> UsedNode:
    made = UsedNode(request.param)
    made.put("host-latency-sensitive/nginx", Group(SECOND, anonymous=100, file=3000))
    return made


@pytest.fixture
def rounds(node: UsedNode) -> Rounds:
    return Rounds(hostapplication.Collector(node.sources))


def test_what_an_application_uses(node: UsedNode, rounds: Rounds) -> None:
    memory = {(MEMORY, "nginx"): 100.0, (WITH_CACHE, "nginx"): 3100.0}
    assert values(rounds.look(applications=(NGINX,))) == memory
    node.put("host-latency-sensitive/nginx", Group(3 * SECOND, anonymous=100, file=3000))
    found = values(rounds.look(applications=(NGINX,), seconds=4.0))
    assert found == memory | {(CPU, "nginx"): pytest.approx(0.5)}


@pytest.mark.parametrize(
    ("application", "group"),
    [
        (HostApplication("job", QoSClass.BE), "host-best-effort/job"),
        (HostApplication("own"), "own"),
        (HostApplication("x", base="CgroupRoot", relative_path="a/b"), "a/b"),
        (
            HostApplication("x", base="Kubepods", parent_dir="/p/", relative_path="x"),
            "kubepods/p/x",
        ),
    ],
)
def test_where_it_is(
    node: UsedNode, rounds: Rounds, application: HostApplication, group: str
) -> None:
    node.put(group, Group(anonymous=7))
    found = values(rounds.look(applications=(application,)))
    assert found[MEMORY, application.name] == 7.0


def test_one_that_does_not_run_has_no_samples(node: UsedNode, rounds: Rounds) -> None:
    found = rounds.look(applications=(HostApplication("other"), NGINX))
    assert len(found.samples) == 2
    assert found.partial == ()


def test_two_may_name_the_same_group(node: UsedNode, rounds: Rounds) -> None:
    twin = HostApplication("twin", base="CgroupRoot", relative_path="host-latency-sensitive/nginx")
    rounds.look(applications=(NGINX, twin))
    node.put("host-latency-sensitive/nginx", Group(2 * SECOND))
    found = values(rounds.look(applications=(NGINX, twin)), CPU)
    assert found == {("nginx",): pytest.approx(1.0), ("twin",): pytest.approx(1.0)}


def test_one_that_started_anew(node: UsedNode, rounds: Rounds) -> None:
    rounds.look(applications=(NGINX,))
    node.put("host-latency-sensitive/nginx", Group(5))
    assert values(rounds.look(applications=(NGINX,)), CPU) == {}
    assert rounds.look(applications=(NGINX,), seconds=1e-9).samples == []


def test_what_cannot_be_read_is_told(node: UsedNode, rounds: Rounds) -> None:
    file = node.path("host-latency-sensitive/nginx", "memory", "memory.stat")
    node.tree.texts[file] = "garbage"
    rounds.look(applications=(NGINX,))
    found = rounds.look(applications=(NGINX,))
    assert values(found) == {(CPU, "nginx"): 0.0}
    assert len(found.partial) == 1
