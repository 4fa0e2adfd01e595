"""Koordlet keeps a real node behind the proxy: every plugin, down to the kernel's files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from koord_model.qos import KubeQoS

from tests.integration.conftest import assert_sound
from tests.support import kubepods
from tests.support.containerd import Containerd
from tests.support.cri import Cri
from tests.support.koordlet_programs import NodeKoordlet
from tests.support.kubelet import Kubelet, Pod, expected, settles
from tests.support.kubepods import LAYOUT, Kubepods
from tests.support.pod_cases import CASES, CLASSES, PodCase
from tests.support.proxy import Proxy

pytestmark = [
    pytest.mark.containerd,
    pytest.mark.skipif(kubepods.why_not() is not None, reason=kubepods.why_not() or "-"),
]


@dataclass
class Node:
    """What runs, with a pod of each row of the table."""

    koordlet: NodeKoordlet
    kubelet: Kubelet
    cri: Cri
    pods: dict[str, Pod]


@pytest.fixture(scope="module")
def node(containerd: Containerd) -> Iterator[Node]:
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="pykoord-it-"))
        kubelet = Kubelet(stack.enter_context(Kubepods()))
        stack.callback(containerd.remove_all_pods)
        koordlet = stack.enter_context(NodeKoordlet(Path(name), "--idle-besteffort"))
        proxy = stack.enter_context(Proxy(Path(name), containerd.address))
        proxy.wait_for_server("koordlet")
        cri = stack.enter_context(proxy.cri())
        pods = {case.name: kubelet.start(cri, case) for case in CASES}
        yield Node(koordlet, kubelet, cri, pods)
        print(koordlet.said)
        assert_sound(proxy)
        koordlet.finish()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pod_gets_what_its_row_says(node: Node, case: PodCase) -> None:
    pod = node.pods[case.name]
    settles(lambda: node.kubelet.seen(pod), expected(case))


@pytest.mark.parametrize("qos", KubeQoS)
def test_a_classs_group_gets_what_the_rules_say(node: Node, qos: KubeQoS) -> None:
    group = LAYOUT.kube_qos_group(qos)
    settles(lambda: node.kubelet.files(group, CLASSES[qos]), CLASSES[qos])


def test_why_a_pod_is_as_it_is(node: Node) -> None:
    """Hooks gave it its limits, and no strategy has ever heard of it."""
    pod = node.pods["be"]
    found = node.koordlet.why(pod.name)
    [created] = [one for one in found.hooks if one.hook == "PreCreateContainer"]
    assert (created.transport, created.container) == ("hook protocol", "main")
    [batch] = [one for one in created.plugins if one.plugin == "batchresource"]
    assert "batch-cpu request 500 → cpu.shares 512" in batch.why
    assert ("cpu_shares", 512) in [(one.field, one.answered) for one in batch.fields]
    of_pod, main = found.cgroups
    assert (of_pod.group, main.container) == (pod.group, "main")
    for group in (of_pod, main):
        [shares] = [one for one in group.knobs if one.knob == "cpu.shares"]
        assert (shares.value, shares.desired, shares.owner) == (512, 512, "hooks")
        assert "batch-cpu request 500 → cpu.shares 512" in shares.why


def test_what_cannot_be_used_is_one_line(node: Node) -> None:
    for pod in node.pods.values():
        reported = [
            event["reason"]
            for event in node.koordlet.events("field ignored")
            if event.get("pod") == f"default/{pod.name}"
        ]
        assert len(reported) == len(pod.case.reported), reported
        for key in pod.case.reported:
            [line] = [one for one in reported if key in one]
            assert f"pod default/{pod.name}" in line


def test_nothing_else_is_complained_of(node: Node) -> None:
    assert node.koordlet.complaints("field ignored") == []


def test_each_change_is_a_line_and_none_is_made_twice(node: Node) -> None:
    node.koordlet.comes_to_rest()
    assert node.koordlet.written_more_than_once() == {}
    [line] = [
        one
        for one in node.koordlet.journal()
        if one.group == node.pods["be"].group and one.knob == "cpu.shares"
    ]
    assert (line.owner, line.old, line.new) == ("hooks", 2, 512)
    assert line.pod == f"default/{node.pods['be'].name}"
    assert "batch-cpu request 500 → cpu.shares 512" in line.why
    assert line.time.endswith("Z")
