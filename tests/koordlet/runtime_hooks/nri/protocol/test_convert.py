"""NRI's pods and containers as hooks see them."""

from __future__ import annotations

from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources
from koord_proto import nri_pb2 as pb
from koordlet.runtime_hooks.nri.protocol.convert import to_container, to_env, to_pod, to_resources

from tests.support.nri_limits import resources

SANDBOX = pb.PodSandbox(
    id="s1",
    name="web",
    uid="u-1",
    namespace="shop",
    labels={"koordinator.sh/qosClass": "BE"},
    annotations={"a": "b"},
    runtime_handler="runc",
    ips=["10.0.0.7", "fd00::7"],
    linux=pb.LinuxPodSandbox(
        cgroup_parent="/kubepods/besteffort/podu-1",
        pod_resources=resources(cpu_shares=2, memory_limit=64 << 20),
        pod_overhead=resources(memory_limit=1 << 20),
    ),
)
POD = Pod(
    name="web",
    namespace="shop",
    uid="u-1",
    labels={"koordinator.sh/qosClass": "BE"},
    annotations={"a": "b"},
    cgroup_parent="/kubepods/besteffort/podu-1",
    runtime_handler="runc",
    resources=LinuxResources(cpu_shares=2, memory_limit=64 << 20),
    overhead=LinuxResources(memory_limit=1 << 20),
    ip="10.0.0.7",
)


def test_pod():
    assert to_pod(SANDBOX) == POD


def test_container():
    container = pb.Container(
        id="c1",
        name="main",
        annotations={"x": "y"},
        env=["A=1", "B=2=3"],
        linux=pb.LinuxContainer(
            resources=resources(cpu_quota=-1, cpuset_cpus="0-1"),
            oom_score_adj=pb.OptionalInt(value=0),
        ),
    )
    assert to_container(SANDBOX, container) == Container(
        pod=POD,
        name="main",
        id="c1",
        annotations={"x": "y"},
        resources=LinuxResources(cpu_quota=-1, cpuset_cpus="0-1", oom_score_adj=0),
        env={"A": "1", "B": "2=3"},
    )


def test_what_is_not_there_is_unset():
    assert to_resources(pb.LinuxResources()) == LinuxResources()
    assert to_container(pb.PodSandbox(), pb.Container()) == Container(
        pod=Pod(name="", namespace="", uid=""), name=""
    )


def test_zero_is_not_unset():
    given = pb.LinuxResources(cpu=pb.LinuxCPU(shares=pb.OptionalUInt64()))
    assert to_resources(given) == LinuxResources(cpu_shares=0)


def test_variables():
    assert to_env(["A=1", "A=2", "BARE", "E="]) == {"A": "2", "BARE": "", "E": ""}
