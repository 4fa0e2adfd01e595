import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_hooks.builtin import tcnetworkqos
from koord_model.keys import ANNOTATION_NETWORK_QOS, LABEL_QOS
from koord_model.node import Kernel, NodeView
from koord_model.node_slo import Bandwidth, ClassQoS, NetPolicy, NetworkQoS, NodeSLO
from koord_model.patch import NodePatch, Patch
from koord_model.pod import Pod
from koord_model.qos import QoSClass
from koord_model.traffic import Traffic, TrafficClass, TrafficMember, classid, handle

M = 1_000_000
V1 = Kernel(knobs=frozenset({"net_cls.classid"}))
BURSTABLE, BEST_EFFORT = "/kubepods/burstable/pod", "/kubepods/besteffort/pod"


def asks(request: Bandwidth | None = None, limit: Bandwidth | None = None) -> NetworkQoS:
    return NetworkQoS(
        True, egress_request=request or Bandwidth(), egress_limit=limit or Bandwidth()
    )


def view(
    ls: NetworkQoS | None = None,
    be: NetworkQoS | None = None,
    total: int = 100 * M,
    policy: NetPolicy = NetPolicy.TC,
    kernel: Kernel = V1,
) -> NodeView:
    classes = {
        QoSClass.LS: ClassQoS(network=ls or NetworkQoS()),
        QoSClass.BE: ClassQoS(network=be or NetworkQoS()),
    }
    slo = NodeSLO(net_policy=policy, classes=classes, total_network_bandwidth=total)
    return NodeView(slo=slo, kernel=kernel)


USUAL = view(asks(Bandwidth(40), Bandwidth(80)), asks(Bandwidth(bits=20 * M), Bandwidth(50)))


def pod(
    qos: str = "", ip: str = "10.0.0.7", parent: str = BURSTABLE, uid: str = "u1", **limits: Any
) -> Pod:
    annotations = {ANNOTATION_NETWORK_QOS: json.dumps(limits)} if limits else {}
    return Pod(f"pod-{uid}", "shop", uid, {LABEL_QOS: qos}, annotations, parent + uid, ip=ip)


def of(view: NodeView, *pods: Pod) -> NodePatch:
    patch = tcnetworkqos.reconcile_node(pods, view)
    assert patch is not None
    return patch


def classes(patch: NodePatch) -> dict[str, TrafficClass]:
    assert patch.traffic is not None
    return {one.name: one for one in patch.traffic.classes}


def test_the_nodes_classes() -> None:
    patch = of(USUAL)
    assert patch.traffic == Traffic(
        100 * M,
        (
            TrafficClass("system", 2, 1, 40 * M, 100 * M, default=True),
            TrafficClass("ls", 3, 2, 40 * M, 80 * M),
            TrafficClass("be", 4, 3, 20 * M, 50 * M),
        ),
    )
    assert patch.why == (
        "netQOSPolicy tc, 100000000 bit/s: system 40000000 up to 100000000,"
        " ls 40000000 up to 80000000, be 20000000 up to 50000000"
    )
    assert patch.ignored == ()


@pytest.mark.parametrize("policy", [NetPolicy.NONE, NetPolicy.TERWAY])
def test_other_policies_are_not_its_business(policy: NetPolicy) -> None:
    assert tcnetworkqos.reconcile_node((pod(),), view(policy=policy)) is None
    assert tcnetworkqos.pre_run_pod_sandbox(pod("LS"), view(policy=policy)) is None


@pytest.mark.parametrize("total", [0, -1])
def test_without_the_nodes_bandwidth_nothing_is_shaped_and_it_says_so(total: int) -> None:
    with pytest.raises(ValueError, match=f"totalNetworkBandwidth is {total}, .*no traffic is shap"):
        tcnetworkqos.reconcile_node((), view(total=total))
    assert tcnetworkqos.pre_run_pod_sandbox(pod("LS"), view(total=total)) is None


def promised(patch: NodePatch) -> tuple[list[float], list[float]]:
    """Rates and ceilings of system, ls and be, in Mbit/s."""
    found = [classes(patch)[name] for name in ("system", "ls", "be")]
    return [one.rate / M for one in found], [one.ceil / M for one in found]


def test_what_is_not_set_is_a_hundredth_promised_and_no_limit() -> None:
    for one in (view(), view(asks(), asks()), view(NetworkQoS(False, egress_limit=Bandwidth(9)))):
        assert promised(of(one)) == ([98, 1, 1], [100, 100, 100])


def test_promises_that_do_not_fit_are_cut_for_be_first() -> None:
    patch = of(view(asks(Bandwidth(70)), asks(Bandwidth(60))))
    assert promised(patch) == ([1, 70, 29], [100, 100, 100])
    [line] = patch.ignored
    assert line == (
        "NodeSLO: resourceQOSStrategy.beClass.networkQOS.egressRequest: 60000000 bits a second do"
        " not fit into an egressLimit of 100000000 and the 29000000 that others leave of 100000000"
        " (cut to what fits)"
    )
    none_starves = of(view(asks(Bandwidth(100)), asks(Bandwidth(100))))
    assert promised(none_starves)[0] == [1, 98, 1]
    patch = of(view(asks(Bandwidth(50), Bandwidth(bits=30 * M))))
    assert promised(patch) == ([69, 30, 1], [100, 30, 100])
    assert "do not fit into an egressLimit of 30000000" in patch.ignored[0]


def test_values_of_no_use_count_as_unset() -> None:
    patch = of(view(asks(Bandwidth(120)), asks(limit=Bandwidth(bits=101 * M))))
    assert promised(patch) == ([98, 1, 1], [100, 100, 100])
    where = "NodeSLO: resourceQOSStrategy"
    assert patch.ignored == (
        f"{where}.lsClass.networkQOS.egressRequest: 120 percent; expected 0 to 100 (ignored)",
        (
            f"{where}.beClass.networkQOS.egressLimit: 101000000 bits a second is out of range;"
            " expected 0 to the node's totalNetworkBandwidth of 100000000 (ignored)"
        ),
    )


@pytest.mark.parametrize(
    ("qos", "ip", "parent", "name"),
    [
        ("SYSTEM", "10.0.0.7", BURSTABLE, "system"),
        ("LSE", "10.0.0.7", BURSTABLE, "ls"),
        ("LSR", "10.0.0.7", BURSTABLE, "ls"),
        ("LS", "", BEST_EFFORT, "ls"),
        ("BE", "", BURSTABLE, "be"),
        ("", "10.0.0.7", "/kubepods/pod", "ls"),
        ("", "10.0.0.7", BURSTABLE, "ls"),
        ("", "10.0.0.7", BEST_EFFORT, "be"),
        ("", "", BEST_EFFORT, "system"),
        ("odd", "", BURSTABLE, "system"),
    ],
)
def test_who_is_in_which_class(qos: str, ip: str, parent: str, name: str) -> None:
    found = classes(of(USUAL, pod(qos, ip, parent)))
    assert [name for name, one in found.items() if one.members] == [name]


def test_members_are_named_by_address_and_cgroup() -> None:
    two = pod("LS", "fd00::2", uid="u2")
    found = classes(of(USUAL, two, pod("LS")))
    assert found["ls"].members == (
        TrafficMember("shop/pod-u1", "10.0.0.7", "kubepods/burstable/podu1"),
        TrafficMember("shop/pod-u2", "fd00::2", "kubepods/burstable/podu2"),
    )


class TestPodsWithALimit:
    @pytest.mark.parametrize(
        ("qos", "limit", "others", "own", "rest"),
        [
            ("LS", "50M", 3, (10, 50), 30),
            ("BE", "2M", 0, (2, 2), 18),
            ("BE", "1G", 0, (10, 50), 10),
            *(("LS", nothing, 0, None, 40) for nothing in ("0", 0, None, "")),
        ],
    )
    def test_it_has_a_class_of_its_own_and_a_share_of_the_promise(
        self, qos: str, limit: Any, others: int, own: tuple[int, int] | None, rest: float
    ) -> None:
        beside = [pod(qos, uid=f"o{number}") for number in range(others)]
        patch = of(USUAL, *beside, pod(qos, egressLimit=limit))
        found = classes(patch)
        assert found[qos.lower()].rate == rest * M
        assert len(found) == 3 + (own is not None)
        assert ("1 with a limit of their own" in patch.why) == (own is not None)
        if own is not None:
            one = found["pod shop/pod-u1"]
            assert (one.rate, one.ceil, one.parent) == (own[0] * M, own[1] * M, 1)
            assert one.priority == found[qos.lower()].priority
            assert [member.pod for member in one.members] == ["shop/pod-u1"]
            assert len(found[qos.lower()].members) == others

    def test_a_limit_on_ingress_is_reported(self) -> None:
        patch = of(USUAL, pod("LS", ingressLimit="10M", egressLimit="20M"))
        assert "pod shop/pod-u1" in classes(patch)
        [line] = patch.ignored
        assert line == (
            "pod shop/pod-u1: annotation koordinator.sh/networkQOS: ingressLimit 10000000 is not"
            " supported by netQOSPolicy tc; expected egressLimit alone, or netQOSPolicy terway-qos"
            " (ignored)"
        )

    @pytest.mark.parametrize(
        ("text", "reported"),
        [
            ("{", "annotation koordinator.sh/networkQOS: "),
            ('{"egressLimit": "fast"}', 'egressLimit: "fast" is not a valid quantity'),
            ('{"egressLimit": "-1"}', 'egressLimit: "-1" is out of range; expected 0 to '),
            ('{"egressLimit": "1E"}', 'egressLimit: "1E" is out of range'),
            ('{"egressLimit": [1]}', "Expected"),
        ],
    )
    def test_a_bad_value_is_reported_and_the_pod_stays_in_its_class(
        self, text: str, reported: str
    ) -> None:
        bad = Pod(
            "db", "shop", "u1", {LABEL_QOS: "LS"}, {ANNOTATION_NETWORK_QOS: text}, "/k", ip="::1"
        )
        patch = of(USUAL, bad)
        assert len(classes(patch)["ls"].members) == 1
        [line] = patch.ignored
        assert line.startswith("pod shop/db: annotation koordinator.sh/networkQOS: ")
        assert reported in line
        sandbox = tcnetworkqos.pre_run_pod_sandbox(bad, USUAL)
        assert sandbox is not None
        assert sandbox.ignored == (line,)
        assert sandbox.knobs == {"net_cls.classid": 0x10003}

    def test_numbers_are_the_same_whoever_else_is_there(self) -> None:
        pods = [pod("LS", uid=f"u{number}", egressLimit="1M") for number in range(50)]
        all_of_them = {one.name: one.minor for one in classes(of(USUAL, *pods)).values()}
        for each in pods:
            name = f"pod shop/{each.name}"
            assert classes(of(USUAL, each))[name].minor == all_of_them[name]
        assert len(set(all_of_them.values())) == 53
        assert all(0x10 <= minor <= 0xFFFF for name, minor in all_of_them.items() if " " in name)

    def test_where_two_meet_the_later_takes_the_next(self) -> None:
        seen: dict[int, str] = {}
        for number in range(5000):
            uid = f"u{number}"
            minor = tcnetworkqos._minors([uid])[uid]
            if minor in seen:
                break
            seen[minor] = uid
        first, second = sorted([seen[minor], uid])
        assert tcnetworkqos._minors([second, first]) == {first: minor, second: minor + 1}


def sandbox(asked: Pod, view: NodeView = USUAL) -> Patch:
    return tcnetworkqos.pre_run_pod_sandbox(asked, view) or Patch()


def test_net_cls_says_the_class() -> None:
    assert sandbox(pod("BE", ip="")) == Patch(
        knobs={"net_cls.classid": 65540}, why="class be → net_cls.classid 65540 (1:4)"
    )
    assert sandbox(pod("SYSTEM")).knobs == {"net_cls.classid": 65538}
    assert sandbox(pod("", parent=BEST_EFFORT)).knobs == {"net_cls.classid": 65540}
    limited = pod("LS", ip="", egressLimit="1M")
    [minor] = [one.minor for one in classes(of(USUAL, limited)).values() if " " in one.name]
    patch = sandbox(limited)
    assert patch.knobs == {"net_cls.classid": handle(minor)}
    assert patch.why.startswith("egressLimit 1000000 → net_cls.classid ")
    assert classid(minor) in patch.why


def test_net_cls_waits_until_the_class_is_certain() -> None:
    assert sandbox(pod("", ip="")) == Patch()
    patch = sandbox(pod("", ip="", ingressLimit="1M"))
    assert (patch.knobs, len(patch.ignored)) == ({}, 1)
    assert sandbox(pod("LS"), view(kernel=Kernel())) == Patch(), "the kernel has no such file"


@given(
    st.integers(24_000, 10**12),
    st.integers(0, 100),
    st.integers(0, 100),
    st.integers(0, 100),
    st.lists(
        st.tuples(st.sampled_from(["LS", "BE", "SYSTEM"]), st.integers(0, 10**10)), max_size=6
    ),
)
def test_promises_always_fit(
    total: int, ls: int, be: int, limit: int, pods: list[tuple[str, int]]
) -> None:
    listed = [
        pod(qos, uid=f"u{number}", egressLimit=str(bits)) for number, (qos, bits) in enumerate(pods)
    ]
    patch = of(view(asks(Bandwidth(ls)), asks(Bandwidth(be), Bandwidth(limit)), total), *listed)
    found = classes(patch)
    # Below 8000 bits a second nothing is promised, so that very small shares add up to more.
    least = 8000 * len(found)
    assert sum(one.rate for one in found.values()) <= max(total, least) + least
    assert all(8000 <= one.rate <= one.ceil <= total for one in found.values())
    if total >= 100 * 8000 * 10:
        assert sum(one.rate for one in found.values()) <= total
