"""Pods that dockerd runs get what koordlet wants, in docker's records and in the kernel."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import docker
import pytest
from koord_demo.cgroups import mounts

from tests.integration.conftest import assert_sound
from tests.support import kubepods
from tests.support.cgroups import oom_score_adj, read_values
from tests.support.docker_pods import MODE, CriDockerd, DockerPod
from tests.support.dockerd import IMAGE, Dockerd, why_not
from tests.support.koordlet_programs import NodeKoordlet
from tests.support.kubelet import settles
from tests.support.pod_cases import BE, CASES, LS, LSR, MIB, PodCase
from tests.support.proxy import Proxy

_WHY_NOT = why_not() or kubepods.why_not()

pytestmark = [
    pytest.mark.containerd,
    pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "-"),
]

SWAP = "memory.memsw.limit_in_bytes"

_DOCKERS_NAMES = {
    "cpu.shares": "CpuShares",
    "cpu.cfs_quota_us": "CpuQuota",
    "cpuset.cpus": "CpusetCpus",
    "memory.limit_in_bytes": "Memory",
    SWAP: "MemorySwap",
}
_UNSAID = {("CpuQuota", 0): -1, ("CpusetCpus", ""): "0-1"}
"""Values that docker assumes for what it did not get."""


@dataclasses.dataclass
class Node:
    """What runs: koordlet with all plugins, a proxy, and at it a kubelet's pods."""

    proxy: Proxy
    cri: CriDockerd
    pods: dict[str, tuple[DockerPod, str]]
    """By the name of their case, with the container's id."""


@pytest.fixture(scope="module")
def node(dockerd: Dockerd) -> Iterator[Node]:
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pykoord-it-")))
        stack.callback(dockerd.remove_all_containers)
        koordlet = stack.enter_context(NodeKoordlet(directory, "--idle-besteffort"))
        proxy = stack.enter_context(Proxy(directory, dockerd.address, MODE))
        proxy.wait_for_server("koordlet")
        cri = stack.enter_context(CriDockerd(proxy.address, dockerd.cgroup_root))
        pods = {case.name: cri.run(case) for case in CASES}
        yield Node(proxy, cri, pods)
        for pod, _ in pods.values():
            cri.remove(pod)
        left = [pod["name"] for pod in proxy.pods()]
        assert not {f"default/{pod.name}" for pod, _ in pods.values()} & {*left}
        assert_sound(proxy)
        koordlet.finish()


@pytest.fixture
def direct(dockerd: Dockerd) -> Iterator[CriDockerd]:
    """cri-dockerd at dockerd itself."""
    with CriDockerd(dockerd.address, dockerd.cgroup_root) as client:
        yield client


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> PodCase:
    found: PodCase = request.param
    return found


def files(place: str, wanted: Mapping[str, object]) -> dict[str, object]:
    """What a group's files hold, as those that are to hold something."""
    found: dict[str, object] = {}
    for file, value in wanted.items():
        path = mounts()[file.partition(".")[0]] / place.lstrip("/") / file
        found[file] = type(value)(path.read_text().strip())  # type: ignore[call-arg]
    return found


def of_process(pid: int, wanted: Mapping[str, object]) -> dict[str, object]:
    variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
    known: dict[str, object] = dict(one.split("=", 1) for one in variables if one)
    known["oom_score_adj"] = oom_score_adj(pid)
    return {name: known.get(name) for name in wanted}


def in_container(case: PodCase) -> dict[str, object]:
    """What is expected in the container's group: what limits memory is not to be had as swap."""
    memory = case.container.get("memory.limit_in_bytes")
    counted = (mounts()["memory"] / SWAP).exists()
    return {**case.container, **({SWAP: memory} if memory and counted else {})}


def in_pod(case: PodCase) -> dict[str, object]:
    """What is expected in the pod's group.

    cri-dockerd does not pass on what a pod asks for as a whole, so that its quota stays the
    kubelet's until koordlet sees the kubelet's list of pods.
    """
    scaled = case.cpu_limit and case.pod.get("cpu.cfs_quota_us", -1) != -1
    kubelets = {"cpu.cfs_quota_us": case.cpu_limit * 100} if scaled else {}
    return {**case.pod, **kubelets}


# What is made.


def test_a_pod_gets_what_its_row_says(node: Node, case: PodCase) -> None:
    pod, container = node.pods[case.name]
    pid = node.cri.pid(container)
    wanted = (in_container(case), in_pod(case), dict(case.process))

    def seen() -> tuple[dict[str, object], ...]:
        place = f"{pod.parent}/{container}"
        return files(place, wanted[0]), files(pod.parent, wanted[1]), of_process(pid, wanted[2])

    settles(seen, wanted)


def test_docker_says_the_same(node: Node, case: PodCase) -> None:
    reported = node.cri.reported(node.pods[case.name][1])
    wanted = {_DOCKERS_NAMES[file]: value for file, value in in_container(case).items()}
    assert {name: _UNSAID.get((name, reported[name]), reported[name]) for name in wanted} == wanted


def test_without_the_proxy_there_is_what_the_kubelet_asked_for(direct: CriDockerd) -> None:
    for case, wanted in (
        (BE, {"cpu.shares": 2, "cpu.cfs_quota_us": -1, "cpuset.cpus": "0-1"}),
        (LSR, {"cpu.cfs_quota_us": 100_000, "cpuset.cpus": "0-1"}),
    ):
        pod, container = direct.run(case)
        assert files(f"{pod.parent}/{container}", wanted) == wanted
        assert read_values(direct.pid(container)).memory_limit == (case.memory_limit or -1)
        direct.remove(pod)


def test_pods_are_known_and_managed(node: Node) -> None:
    known = {pod["id"]: pod for pod in node.proxy.pods()}
    for pod, container in node.pods.values():
        shown = known[pod.sandbox]
        assert (shown["name"], shown["managed"]) == (f"default/{pod.name}", True)
        (shown,) = shown["containers"]
        assert (shown["id"], shown["name"], shown["managed"]) == (container, "main", True)


# Updates.


def test_update_in_the_kubelets_view_keeps_the_hooks_values(node: Node) -> None:
    pod, container = node.cri.run(BE)
    # No hook gives a batch pod CPUs of its own.
    wanted = {file: value for file, value in in_container(BE).items() if file != "cpuset.cpus"}
    updates: tuple[dict[str, int | str], ...] = (
        {"CpuPeriod": 100_000, "CpuShares": 2},
        # In place, to less and to more than the hook's.
        {"CpuPeriod": 100_000, "CpuShares": 3, "CpuQuota": 9_000, "Memory": 77 * MIB},
        {"CpuPeriod": 100_000, "CpuShares": 9999, "CpuQuota": 99_000, "Memory": 777 * MIB},
        # As its CPU manager does, which sends nothing else.
        {"CpusetCpus": "0"},
    )
    for update in updates:
        node.cri.update(container, **update)
        assert files(f"{pod.parent}/{container}", wanted) == wanted, update
        reported = node.cri.reported(container)
        assert {file: reported[_DOCKERS_NAMES[file]] for file in wanted} == wanted, update
    assert read_values(node.cri.pid(container)).cpuset == "0"
    node.cri.remove(pod)


def test_cpus_of_its_own_outlast_the_cpu_managers(node: Node) -> None:
    pod, container = node.cri.run(LSR)
    node.cri.update(container, CpusetCpus="0")
    assert files(f"{pod.parent}/{container}", in_container(LSR)) == in_container(LSR)
    node.cri.remove(pod)


def test_what_no_hook_wants_is_updated_as_asked(node: Node) -> None:
    pod, container = node.cri.run(LS)
    node.cri.update(container, Memory=80 * MIB, CpuShares=300)
    wanted = {**in_container(LS), "cpu.shares": 300, "memory.limit_in_bytes": 80 * MIB}
    wanted |= {SWAP: 80 * MIB} if SWAP in wanted else {}
    assert files(f"{pod.parent}/{container}", wanted) == wanted
    node.cri.remove(pod)


def test_a_person_may_use_names_and_short_ids(node: Node) -> None:
    pod, container = node.cri.run(BE)
    with docker_package(node.cri) as client:
        for reference in (pod.container_name("main"), container[:12]):
            client.api.update_container(reference, cpu_shares=99)
            assert read_values(node.cri.pid(container)).cpu_shares == 512
        client.api.remove_container(pod.container_name("main"), force=True)
    assert container not in node.proxy.containers()
    node.cri.remove(pod)
    assert pod.sandbox not in {one["id"] for one in node.proxy.pods()}


# What is none of Kubernetes'.


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("web", {}),
        ("k8s_main_pod_default_0000_0", {}),
        ("k8s_POD_pod_default_0000_0", {"koordinator.sh/qosClass": "BE"}),
        ("labelled", {"io.kubernetes.docker.type": "container"}),
    ],
    ids=["other", "a container's name", "a sandbox's name", "a label"],
)
def test_other_containers_are_left_alone(
    node: Node, direct: CriDockerd, name: str, labels: dict[str, str]
) -> None:
    pods, said = node.proxy.pods(), len(node.proxy.events())
    shown = []
    for at in (direct, node.cri):
        with docker_package(at) as client:
            container = client.containers.run(
                IMAGE, name=name, labels=labels, detach=True, network_mode="none"
            )
            container.update(cpu_shares=99)
            reported = {**at.reported(container.id), "Hostname": "its id"}
            shown.append((read_values(at.pid(container.id)), reported))
            container.stop(timeout=5)
            assert node.proxy.pods() == pods
            container.remove()
    assert shown[0] == shown[1]
    assert node.proxy.pods() == pods
    assert [one for one in node.proxy.events()[said:] if one["level"] != "debug"] == []


@contextlib.contextmanager
def docker_package(at: CriDockerd) -> Iterator[docker.DockerClient]:
    """Anybody's client."""
    with contextlib.closing(docker.DockerClient(base_url=f"unix://{at.address}")) as client:
        yield client
