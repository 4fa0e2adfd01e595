"""Applications outside Kubernetes: where their cgroups are, what they use."""

from __future__ import annotations

import pytest
from koord_model.node_slo import HostApplication
from koord_model.qos import QoSClass
from koordlet.metrics_advisor.collectors import hostapplication

from tests.koordlet.metrics_advisor.collectors.used_node import (
    SECOND,
    Group,
    Rounds,
    UsedNode,
    values,
)

CPU = "host_application_cpu_usage"
MEMORY = "host_application_memory_usage"
NGINX = HostApplication("nginx", QoSClass.LS)
PLACE = "host-latency-sensitive/nginx"


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest) -> UsedNode:
    made = UsedNode(request.param)
    made.put(PLACE, Group(SECOND, anonymous=100, file=3000))
    return made


def test_what_an_application_uses_and_that_one_does_not_run(node: UsedNode) -> None:
    rounds = Rounds(hostapplication.Collector(node.sources))
    both = NGINX, HostApplication("other")
    memory = {(MEMORY, "nginx"): 100.0, (f"{MEMORY}_with_page_cache", "nginx"): 3100.0}
    found = rounds.look(applications=both)
    assert (values(found), found.partial) == (memory, ())
    node.put(PLACE, Group(3 * SECOND, anonymous=100, file=3000))
    found = rounds.look(applications=both, seconds=4.0)
    assert values(found) == memory | {(CPU, "nginx"): pytest.approx(0.5)}


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
def test_where_it_is(node: UsedNode, application: HostApplication, group: str) -> None:
    node.put(group, Group(anonymous=7))
    rounds = Rounds(hostapplication.Collector(node.sources))
    assert values(rounds.look(applications=(application,)))[MEMORY, application.name] == 7.0


def test_two_may_name_the_same_group(node: UsedNode) -> None:
    rounds = Rounds(hostapplication.Collector(node.sources))
    twin = HostApplication("twin", base="CgroupRoot", relative_path=PLACE)
    rounds.look(applications=(NGINX, twin))
    node.put(PLACE, Group(2 * SECOND))
    found = values(rounds.look(applications=(NGINX, twin)), CPU)
    assert found == {("nginx",): pytest.approx(1.0), ("twin",): pytest.approx(1.0)}
