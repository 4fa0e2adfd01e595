"""Koordlet keeps a real node as an NRI plugin: what the proxy gives, without any proxy.

Two containerds, as NRI changed between them: 1.7 (NRI 0.6) and the newest there is.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from koord_model.qos import KubeQoS

from tests.integration.conftest import assert_sound
from tests.support import kubepods
from tests.support.cri import Cri
from tests.support.koordlet_programs import NodeKoordlet
from tests.support.kubelet import Kubelet, expected, settles
from tests.support.kubepods import LAYOUT, Kubepods
from tests.support.newer_containerd import Containerd, NotToBeHadError, programs
from tests.support.pod_cases import BE, CASES, CLASSES, LS, PART_OF_A_GPU, devices
from tests.support.processes import until
from tests.support.proxy import Proxy

pytestmark = [
    pytest.mark.containerd,
    pytest.mark.skipif(kubepods.why_not() is not None, reason=kubepods.why_not() or "-"),
]

ADDRESS = "0000:3b:00.2"
RDMA = LS.like("rdma", annotations=devices(rdma=[{"minor": 0, "id": ADDRESS}]))


@dataclass
class Node:
    """A containerd with NRI, and a kubelet that talks to it; no koordlet yet."""

    containerd: Containerd
    kubelet: Kubelet
    cri: Cri
    directory: Path
    sys: Path

    def koordlet(self, *flags: str) -> NodeKoordlet:
        socket = f"--runtime-hooks-nri-socket-path={self.containerd.nri_address}"
        sys = f"--sys-root-dir={self.sys}"
        return NodeKoordlet(self.directory, socket, sys, "--idle-besteffort", *flags)


@pytest.fixture(scope="module", params=["trixie", "sid"])
def machine(request: pytest.FixtureRequest) -> Iterator[tuple[Containerd, Kubelet]]:
    try:
        where = programs(request.param)
    except NotToBeHadError as reason:
        pytest.skip(str(reason))
    with (
        Kubepods() as groups,
        Containerd(programs=where, nri_timeout=30.0) as containerd,
    ):
        yield containerd, Kubelet(groups)
        containerd.remove_all_pods()
    assert containerd.leftovers() == []


@pytest.fixture
def node(machine: tuple[Containerd, Kubelet]) -> Iterator[Node]:
    containerd, kubelet = machine
    with (
        tempfile.TemporaryDirectory(prefix="pykoord-it-") as name,
        containerd.cri() as cri,
    ):
        directory = Path(name)
        yield Node(containerd, kubelet, cri, directory, rdma_devices(directory / "sys"))
        for pod in list(kubelet.pods):
            kubelet.remove(cri, pod)


@pytest.fixture
def device_files() -> Iterator[None]:
    """What GPU and RDMA pods are given, where the host has no such thing."""
    with ExitStack() as stack:
        for path in ("/dev/infiniband", "/usr/local/vgpu", "/tmp/vgpulock"):
            _missing(stack, Path(path), Path.mkdir, Path.rmdir)
        for path in ("/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"):
            _missing(stack, Path(path), _make_null, Path.unlink)
        _missing(stack, Path("/usr/local/vgpu/libvgpu.so"), Path.touch, Path.unlink)
        yield


def _missing(
    stack: ExitStack, path: Path, make: Callable[[Path], object], remove: Callable[[Path], object]
) -> None:
    if not path.exists():
        make(path)
        stack.callback(remove, path)


def _make_null(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))


def rdma_devices(sys: Path) -> Path:
    """A sysfs in which there is one RDMA device."""
    verbs = sys / "class/infiniband_verbs/uverbs0"
    verbs.mkdir(parents=True)
    device = sys / "devices" / ADDRESS
    device.mkdir(parents=True)
    (verbs / "device").symlink_to(device)
    return sys


def registered(koordlet: NodeKoordlet, times: int = 1) -> None:
    until(lambda: len(koordlet.events("nri connected")) >= times, "koordlet is registered")


def all_settle(kubelet: Kubelet) -> None:
    for pod in kubelet.pods:
        settles(partial(kubelet.seen, pod), expected(pod.case))


@pytest.mark.usefixtures("device_files")
def test_pods_get_what_their_rows_say(node: Node) -> None:
    with node.koordlet() as koordlet:
        registered(koordlet)
        pods = {case.name: node.kubelet.start(node.cri, case) for case in (*CASES, RDMA)}
        all_settle(node.kubelet)
        for qos in KubeQoS:
            group = LAYOUT.kube_qos_group(qos)
            settles(partial(node.kubelet.files, group, CLASSES[qos]), CLASSES[qos])
        inside = Path(f"/proc/{pods[PART_OF_A_GPU.name].pid}/root")
        assert (inside / "usr/local/vgpu/libvgpu.so").exists()
        assert (inside / "tmp/vgpulock").is_dir()
        inside = Path(f"/proc/{pods[RDMA.name].pid}/root")
        for name in ("rdma_cm", "uverbs0"):
            assert (inside / "dev/infiniband" / name).stat().st_rdev == os.makedev(1, 3)
        for pod in pods.values():
            reported = [
                event["reason"]
                for event in koordlet.events("field ignored")
                if event.get("pod") == f"default/{pod.name}"
            ]
            assert len(reported) == len(pod.case.reported), reported
        koordlet.comes_to_rest()
        assert koordlet.written_more_than_once() == {}
        assert koordlet.complaints("field ignored") == []
        koordlet.finish()


def test_what_the_host_lacks_costs_no_pod(node: Node) -> None:
    if Path("/usr/local/vgpu").exists() or Path("/dev/infiniband").exists():
        pytest.skip("this host has such devices")
    with node.koordlet() as koordlet:
        registered(koordlet)
        node.kubelet.start(node.cri, PART_OF_A_GPU)
        node.kubelet.start(node.cri, RDMA)
        all_settle(node.kubelet)
        for what in ("mount ignored", "device ignored"):
            reported = koordlet.events(what)
            assert len(reported) == 2
            assert all("No such file or directory" in one["reason"] for one in reported)
        koordlet.finish()


def test_why_a_pod_is_as_it_is_also_after_a_restart(node: Node) -> None:
    with node.koordlet() as koordlet:
        registered(koordlet)
        pod = node.kubelet.start(node.cri, BE)
        all_settle(node.kubelet)
        before = koordlet.why(pod.name)
        # No proxy is here, and none is missed.
        status = koordlet.koordctl("status", "--address=127.0.0.1:1")
        assert "not installed, koordlet uses NRI" in status
        assert f"connected to {node.containerd.nri_address}, " in status
        koordlet.stop()
        koordlet.start()
        registered(koordlet, times=2)
        until(lambda: koordlet.why(pod.name).cgroups, "the pod is known")
        after = koordlet.why(pod.name)
        koordlet.finish()
    for found in (before, after):
        [created] = [one for one in found.hooks if one.hook == "PreCreateContainer"]
        assert (created.transport, created.pod) == ("NRI", f"default/{pod.name}")
        fields = {one.field: one.answered for plugin in created.plugins for one in plugin.fields}
        assert fields["cpu_shares"] == 512
        [shares] = [one for one in found.cgroups[0].knobs if one.knob == "cpu.shares"]
        assert shares.value == 512


def test_pods_older_than_koordlet_are_levelled(node: Node) -> None:
    # What only a start can give: environment, scores lower than they were.
    for case in CASES:
        if not case.process or case is BE:
            node.kubelet.start(node.cri, case)
    with node.koordlet() as koordlet:
        all_settle(node.kubelet)
        koordlet.comes_to_rest()
        assert koordlet.complaints("field ignored") == []
        assert koordlet.written_more_than_once() == {}
        koordlet.finish()


def test_a_containerd_that_restarts_is_joined_again(node: Node) -> None:
    with node.koordlet() as koordlet:
        registered(koordlet)
        first = node.kubelet.start(node.cri, BE)
        all_settle(node.kubelet)
        node.containerd.stop()
        until(lambda: koordlet.events("nri connection ended"), "koordlet notices")
        node.kubelet.kubepods.write(first.container_group, "cpu.shares", 77)
        node.containerd.start()
        registered(koordlet, 2)
        node.cri.wait_until_ready()
        node.kubelet.start(node.cri, BE)
        node.kubelet.start(node.cri, LS)
        all_settle(node.kubelet)
        known = (
            "nri connection ended",
            "changed by somebody else",
            "nri not available yet, waiting",
        )
        assert koordlet.complaints(*known) == []
        koordlet.finish()


def test_a_koordlet_that_is_killed_comes_back_and_remembers(node: Node) -> None:
    pod = node.kubelet.start(node.cri, BE)
    found = node.kubelet.seen(pod)
    with node.koordlet() as koordlet:
        all_settle(node.kubelet)
        koordlet.kill()
        koordlet.flags.append("--restore-on-stop")
        koordlet.start()
        registered(koordlet, 2)
        # Twice at a runtime, its second registration would be an error.
        started = node.kubelet.start(node.cri, LS)
        all_settle(node.kubelet)
        assert len(koordlet.events("nri connected")) == 2
        assert koordlet.complaints() == []
        koordlet.finish()
    assert node.kubelet.seen(pod) == found
    # What the runtime was asked for stays; pods' groups are as the kubelet made them.
    assert node.kubelet.files(started.group, {"cpu.cfs_quota_us": 0}) == {
        "cpu.cfs_quota_us": 50_000
    }


@pytest.mark.usefixtures("device_files")
def test_asked_by_the_proxy_and_by_nri(node: Node) -> None:
    with node.koordlet() as koordlet, Proxy(node.directory, node.containerd.address) as proxy:
        registered(koordlet)
        proxy.wait_for_server("koordlet")
        with proxy.cri() as cri:
            for case in CASES:
                node.kubelet.start(cri, case)
            all_settle(node.kubelet)
            koordlet.comes_to_rest()
            assert koordlet.written_more_than_once() == {}
            assert koordlet.complaints("field ignored") == []
            for pod in list(node.kubelet.pods):
                node.kubelet.remove(cri, pod)
        assert_sound(proxy)
        koordlet.finish()
