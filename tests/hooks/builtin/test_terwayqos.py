import json
from typing import Any

import pytest
from koord_hooks.builtin import terwayqos
from koord_model.keys import ANNOTATION_NETWORK_QOS, LABEL_QOS
from koord_model.node import NodeView
from koord_model.node_slo import Bandwidth, ClassQoS, NetPolicy, NetworkQoS, NodeSLO
from koord_model.patch import NodePatch
from koord_model.pod import Pod
from koord_model.qos import QoSClass

M = 1_000_000
POD_FILE, NODE_FILE = "/var/lib/terway/qos/pod.json", "/var/lib/terway/qos/global_bps_config"


def view(total: int = 100 * M, ls: Any = None, be: Any = None) -> NodeView:
    classes = {
        QoSClass.LS: ClassQoS(network=ls or NetworkQoS()),
        QoSClass.BE: ClassQoS(network=be or NetworkQoS()),
    }
    return NodeView(
        slo=NodeSLO(net_policy=NetPolicy.TERWAY, classes=classes, total_network_bandwidth=total)
    )


def pod(
    qos: str = "", uid: str = "u1", parent: str = "/kubepods/burstable/podu1", **limits: Any
) -> Pod:
    annotations = {ANNOTATION_NETWORK_QOS: json.dumps(limits)} if limits else {}
    return Pod("db-0", "shop", uid, {LABEL_QOS: qos}, annotations, parent)


def of(view: NodeView, *pods: Pod) -> NodePatch:
    patch = terwayqos.reconcile_node(pods, view)
    assert patch is not None
    return patch


def test_other_policies_are_not_its_business_and_no_pods_are_an_empty_object() -> None:
    for policy in (NetPolicy.NONE, NetPolicy.TC):
        assert terwayqos.reconcile_node((pod(),), NodeView(slo=NodeSLO(net_policy=policy))) is None
    assert of(view()).files[POD_FILE] == "{}"


def test_the_nodes_file_is_in_bytes_a_second_percent_too() -> None:
    ls = NetworkQoS(
        True, Bandwidth(10), Bandwidth(bits=80 * M), Bandwidth(20), Bandwidth(bits=90 * M)
    )
    be = NetworkQoS(True, Bandwidth(bits=1), Bandwidth(30), Bandwidth(bits=16), Bandwidth(100))
    assert of(view(ls=ls, be=be)).files[NODE_FILE] == (
        "hw_tx_bps_max 12500000\n"
        "hw_rx_bps_max 12500000\n"
        "offline_l1_tx_bps_min 2500000\n"
        "offline_l1_tx_bps_max 11250000\n"
        "offline_l1_rx_bps_min 1250000\n"
        "offline_l1_rx_bps_max 10000000\n"
        "offline_l2_tx_bps_min 2\n"
        "offline_l2_tx_bps_max 12500000\n"
        "offline_l2_rx_bps_min 0\n"
        "offline_l2_rx_bps_max 3750000\n"
    )


def test_a_class_that_is_not_enabled_has_nothing() -> None:
    lines = of(view(ls=NetworkQoS(False, Bandwidth(10)))).files[NODE_FILE].splitlines()
    assert [line for line in lines if not line.endswith(" 0")] == [
        "hw_tx_bps_max 12500000",
        "hw_rx_bps_max 12500000",
    ]


def test_pods_are_listed_by_uid_as_koordinator_spells_them() -> None:
    second = pod("BE", "u2", "/kubepods/besteffort/podu2/")
    patch = of(view(), second, pod("LS", ingressLimit="10M", egressLimit="20M"))
    assert patch.files[POD_FILE] == (
        '{"u1":{"podName":"db-0","podNamespace":"shop","podUID":"u1","prio":1,'
        '"cgroupDir":"/sys/fs/cgroup/net_cls/kubepods/burstable/podu1",'
        '"qosConfig":{"ingressBandwidth":1250000,"egressBandwidth":2500000}},'
        '"u2":{"podName":"db-0","podNamespace":"shop","podUID":"u2","prio":2,'
        '"cgroupDir":"/sys/fs/cgroup/net_cls/kubepods/besteffort/podu2",'
        '"qosConfig":{"ingressBandwidth":0,"egressBandwidth":0}}}'
    )
    assert patch.why == "netQOSPolicy terway-qos, 100000000 bit/s, 2 pods"
    assert patch.ignored == ()


@pytest.mark.parametrize(
    ("qos", "parent", "priority"),
    [
        ("SYSTEM", "/kubepods/pod1", 0),
        ("LSE", "/kubepods/pod1", 1),
        ("LSR", "/kubepods/pod1", 1),
        ("LS", "/kubepods/besteffort/pod1", 1),
        ("BE", "/kubepods/burstable/pod1", 2),
        ("", "/kubepods/pod1", 1),
        ("", "/kubepods/burstable/pod1", 1),
        ("odd", "/kubepods.slice/kubepods-besteffort.slice/pod1", 2),
    ],
)
def test_priorities(qos: str, parent: str, priority: int) -> None:
    listed = json.loads(of(view(), pod(qos, parent=parent)).files[POD_FILE])
    assert listed["u1"]["prio"] == priority


def test_a_pod_with_an_annotation_of_no_use_is_listed_without_limits() -> None:
    patch = of(view(), pod("LS", ingressLimit="much"))
    assert json.loads(patch.files[POD_FILE])["u1"]["qosConfig"] == {
        "ingressBandwidth": 0,
        "egressBandwidth": 0,
    }
    [line] = patch.ignored
    assert line.startswith(
        'pod shop/db-0: annotation koordinator.sh/networkQOS: ingressLimit: "much"'
    )


@pytest.mark.parametrize(
    ("bandwidth", "reported"),
    [
        (Bandwidth(bits=100 * M + 1), "100000001 bits a second is out of range"),
        (Bandwidth(bits=-1), "-1 bits a second is out of range"),
        (Bandwidth(101), "101 percent; expected 0 to 100"),
    ],
)
def test_a_rate_of_no_use_counts_as_unset(bandwidth: Bandwidth, reported: str) -> None:
    patch = of(view(be=NetworkQoS(True, egress_limit=bandwidth)))
    assert "offline_l2_tx_bps_max 0\n" in patch.files[NODE_FILE]
    [line] = patch.ignored
    assert line.startswith("NodeSLO: resourceQOSStrategy.beClass.networkQOS.egressLimit: ")
    assert reported in line
