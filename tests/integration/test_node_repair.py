"""Koordlet repairs a real node: what came past it, what others changed, and the way back."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from koord_demo.programs import console_script

from tests.support import kubepods
from tests.support.containerd import Containerd
from tests.support.cri import Cri
from tests.support.koordlet_programs import NodeKoordlet
from tests.support.kubelet import Kubelet, Pod, expected, settles
from tests.support.kubepods import CGROUPS, Kubepods
from tests.support.pod_cases import BE, CASES, LS, MIB, PLAIN_BEST_EFFORT, PodCase, batch
from tests.support.processes import PATIENCE, until
from tests.support.proxy import connect

pytestmark = [
    pytest.mark.containerd,
    pytest.mark.skipif(kubepods.why_not() is not None, reason=kubepods.why_not() or "-"),
]


@dataclass
class Node:
    """A containerd and a kubelet with a list of pods; no proxy, and no koordlet yet."""

    kubelet: Kubelet
    cri: Cri
    directory: Path

    @property
    def list(self) -> Path:
        return self.directory / "pods.json"

    def koordlet(self, *flags: str) -> NodeKoordlet:
        return NodeKoordlet(self.directory, f"--pod-list-source={self.list}", *flags)

    def start(self, case: PodCase) -> Pod:
        """A pod that nobody asked koordlet about; the kubelet lists it."""
        pod = self.kubelet.start(self.cri, case)
        self.kubelet.list_pods(self.list)
        return pod

    def settles(self, pod: Pod) -> None:
        settles(lambda: self.kubelet.seen(pod), expected(pod.case))

    def koordctl_restore(self, *flags: str) -> subprocess.CompletedProcess[str]:
        state = str(self.directory / "koordlet")
        command = [console_script("koordctl"), "restore", "--json", "--state", state, *flags]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=PATIENCE
        )


@pytest.fixture(scope="module")
def groups() -> Iterator[Kubepods]:
    with Kubepods() as made:
        yield made


@pytest.fixture
def node(containerd: Containerd, groups: Kubepods) -> Iterator[Node]:
    with (
        tempfile.TemporaryDirectory(prefix="pykoord-it-") as name,
        connect(containerd.address) as cri,
    ):
        kubelet = Kubelet(groups)
        yield Node(kubelet, cri, Path(name))
        containerd.remove_all_pods()
        for pod in kubelet.pods:
            groups.remove_pod(pod.group)


def test_pods_that_came_past_the_proxy_are_levelled(node: Node) -> None:
    pods = [node.start(case) for case in CASES if not case.process]
    with node.koordlet() as koordlet:
        pods.append(node.start(BE))
        for pod in pods:
            node.settles(pod)
        koordlet.comes_to_rest()
        assert koordlet.written_more_than_once() == {}
        # A list that is a moment older than a pod is no surprise.
        known = "field ignored", "cannot list pods, keeping the known ones"
        assert koordlet.complaints(*known) == []
        koordlet.finish()


def test_what_somebody_changes_is_held_and_reported(node: Node) -> None:
    pod = node.start(BE)
    with node.koordlet() as koordlet:
        node.settles(pod)
        node.kubelet.kubepods.write(pod.container_group, "cpu.shares", 1000)
        node.settles(pod)
        [reported] = until(lambda: koordlet.events("changed by somebody else"))
        assert (reported["group"], reported["knob"]) == (pod.container_group, "cpu.shares")
        assert reported["value"] == 1000
        koordlet.finish()


STEPS = [
    # batch-cpu, shares, quota: wider, narrower, the least there is, and far up again.
    (700, 716, 56_000),
    (300, 307, 24_000),
    (10, 10, 1000),
    (900, 921, 72_000),
]


def test_a_changed_annotation_reaches_the_pod_that_runs(node: Node) -> None:
    """Wider first the pod, then the container; narrower the other way: v1 refuses all else."""
    pod = node.start(BE)
    with node.koordlet() as koordlet:
        node.settles(pod)
        for cpu, shares, quota in STEPS:
            wanted = {"cpu.shares": shares, "cpu.cfs_quota_us": quota}
            node.kubelet.list_pods(node.list, batch(main=(cpu, 128 * MIB)))
            for group in (pod.group, pod.container_group):
                settles(partial(node.kubelet.files, group, wanted), wanted)
        assert koordlet.complaints() == []
        koordlet.finish()


def test_a_pod_that_has_ended_is_forgotten_without_a_word(node: Node) -> None:
    pod, other = node.start(BE), node.start(LS)
    with node.koordlet() as koordlet:
        node.settles(pod)
        # For a while the list still has what is gone, as a kubelet's does.
        node.kubelet.remove(node.cri, pod)
        koordlet.comes_to_rest()
        node.kubelet.list_pods(node.list)
        koordlet.comes_to_rest()
        assert koordlet.complaints() == []
        assert other in node.kubelet.pods
        koordlet.finish()


def test_a_list_that_breaks_changes_nothing(node: Node) -> None:
    pod = node.start(BE)
    with node.koordlet() as koordlet:
        node.settles(pod)
        node.list.write_text("{")
        until(
            lambda: koordlet.events("cannot list pods, keeping the known ones"), "koordlet says so"
        )
        node.kubelet.kubepods.write(pod.group, "cpu.shares", 1000)
        node.settles(pod)
        koordlet.finish()


def test_cgroups_mounted_elsewhere(node: Node) -> None:
    """As where koordlet is in a container."""
    pod = node.start(BE)
    elsewhere = node.directory / "host-cgroup"
    elsewhere.symlink_to(CGROUPS)
    with node.koordlet(f"--cgroup-root-dir={elsewhere}") as koordlet:
        node.settles(pod)
        assert koordlet.complaints() == []
        koordlet.finish()


def test_koordctl_puts_back_what_was_found(node: Node) -> None:
    pod, goes = node.start(BE), node.start(PLAIN_BEST_EFFORT)
    found = node.kubelet.seen(pod)
    besteffort = {"cpu.idle": 0, "cpu.shares": 2}
    with node.koordlet("--idle-besteffort") as koordlet:
        node.settles(pod)
        idle = {"cpu.idle": 1}
        settles(partial(node.kubelet.files, "kubepods/besteffort", idle), idle)
        refused = node.koordctl_restore()
        assert refused.returncode == 1
        assert "koordlet is running" in refused.stderr
        node.kubelet.remove(node.cri, goes)
        koordlet.finish()
    kept = node.kubelet.seen(pod)
    assert kept == expected(pod.case)

    foreseen = node.koordctl_restore("--dry-run")
    assert (foreseen.returncode, foreseen.stderr) == (0, "")
    assert node.kubelet.seen(pod) == kept

    done = node.koordctl_restore()
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json.loads(foreseen.stdout)
    fates = {(one["group"], one["knob"]): one["fate"] for one in json.loads(done.stdout)}
    assert fates[pod.group, "cpu.cfs_quota_us"] == "restored"
    assert node.kubelet.seen(pod) == found
    assert node.kubelet.files("kubepods/besteffort", besteffort) == besteffort
    assert [one.owner for one in koordlet.journal()][-1] == "restore"
    # There is nothing left to put back.
    assert json.loads(node.koordctl_restore().stdout) == []


def test_what_is_gone_or_somebody_elses_is_not_put_back(node: Node) -> None:
    stays, goes = node.start(BE), node.start(BE)
    with node.koordlet() as koordlet:
        node.settles(stays)
        node.settles(goes)
        koordlet.finish()
    node.kubelet.remove(node.cri, goes)
    node.kubelet.kubepods.write(stays.group, "cpu.shares", 900)
    fates = {
        (one["group"], one["knob"]): one["fate"]
        for one in json.loads(node.koordctl_restore().stdout)
    }
    assert {fate for (group, _), fate in fates.items() if goes.group in group} == {"gone"}
    assert fates[stays.group, "cpu.shares"] == "skipped"
    assert node.kubelet.files(stays.group, {"cpu.shares": 0}) == {"cpu.shares": 900}
