import json

from koord_model.keys import ANNOTATION_RESOURCE_STATUS, LABEL_QOS
from koord_model.node import SharedPool, Topology
from koord_model.pod import Pod
from koordlet.states_informer.kubelet_cpus import KubeletCPUs
from koordlet.states_informer.state.share_pools import ReservedCPUs, topology

NONE = KubeletCPUs()
NODES = {0: frozenset(range(4)), 2: frozenset(range(8, 12))}


def pod(qos: str, status: str) -> Pod:
    return Pod("p", "n", f"{qos}{status}", {LABEL_QOS: qos}, {ANNOTATION_RESOURCE_STATUS: status})


def cpus(text: str) -> str:
    return json.dumps({"cpuset": text})


def test_an_empty_node_shares_all_its_cpus() -> None:
    expected = (SharedPool(0, "0-3"), SharedPool(2, "8-11"))
    assert topology(NODES, [], NONE) == Topology(expected, online="0-3,8-11")


def test_exclusive_pods_take_their_cpus_out() -> None:
    pods = [pod("LSE", cpus("0-1")), pod("LSR", cpus("9")), pod("LS", cpus("2"))]
    assert [pool.cpuset for pool in topology(NODES, pods, NONE).shared_pools] == ["2-3", "8,10-11"]


def test_what_cannot_be_read_takes_nothing() -> None:
    assert topology(NODES, [pod("LSE", "{"), pod("LSR", cpus("x"))], NONE) == topology(
        NODES, [], NONE
    )


def test_the_kubelet_s_own_assignments_are_nobody_else_s() -> None:
    found = topology(NODES, [], KubeletCPUs("static", frozenset({0, 8})))
    assert [pool.cpuset for pool in found.shared_pools] == ["1-3", "9-11"]
    assert found.kubelet_policy == "static"


def test_cpus_that_the_node_keeps_for_itself_are_shared_by_nobody() -> None:
    aside = ReservedCPUs(frozenset({0, 8, 9}), "8-9")
    found = topology(NODES, [], NONE, aside)
    assert [pool.cpuset for pool in found.shared_pools] == ["1-3", "10-11"]
    assert (found.system_cpuset, found.online) == ("8-9", "0-3,8-11")
    unknown = topology(NODES, None, NONE, aside)
    assert (unknown.shared_pools, unknown.system_cpuset) == ((), "8-9")
