import pytest
from koord_host.knobs.layout import Driver, Layout, ScopePrefix
from koord_host.knobs.table import KNOBS
from koord_model.qos import KubeQoS

V1, V2 = Layout(1, Driver.CGROUPFS), Layout(2, Driver.SYSTEMD)


@pytest.mark.parametrize(
    ("layout", "knob", "place", "path"),
    [
        (V1, "cpu.shares", "kubepods/pod1", "/sys/fs/cgroup/cpu/kubepods/pod1/cpu.shares"),
        (V2, "cpu.shares", "kubepods.slice", "/sys/fs/cgroup/kubepods.slice/cpu.weight"),
        (V1, "cpu.shares", "", "/sys/fs/cgroup/cpu/cpu.shares"),
        (V2, "cpu.shares", "", "/sys/fs/cgroup/cpu.weight"),
        (V2, "net_cls.classid", "a", ""),
        (V1, "oom_score_adj", "7", "/proc/7/oom_score_adj"),
        (V2, "oom_score_adj", "kubepods/pod1/c 1 7@35", "/proc/7/oom_score_adj"),
        (V1, "sysctl", "kernel.sched_core", "/proc/sys/kernel/sched_core"),
        (V1, "file", "/var/lib/x.json", "/var/lib/x.json"),
    ],
)
def test_paths(layout: Layout, knob: str, place: str, path: str) -> None:
    assert layout.path(KNOBS[knob], place) == path


def test_groups_of_pods() -> None:
    assert V1.pod_group(KubeQoS.GUARANTEED, "1-2") == "kubepods/pod1-2"
    assert V1.pod_group(KubeQoS.BEST_EFFORT, "1-2") == "kubepods/besteffort/pod1-2"
    assert V2.pod_group(KubeQoS.GUARANTEED, "1-2") == "kubepods.slice/kubepods-pod1_2.slice"
    burstable = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice"
    assert V2.pod_group(KubeQoS.BURSTABLE, "1-2") == burstable
    assert V2.group_of_parent("kubepods-burstable-pod1_2.slice") == burstable
    assert V2.group_of_parent("/kubepods/burstable/pod1") == "kubepods/burstable/pod1"


def test_groups_of_containers() -> None:
    assert V1.container_group("p", "c", ScopePrefix.CONTAINERD) == "p/c"
    assert V1.container_group("p", "c", ScopePrefix.CRIO) == "p/crio-c"
    assert V2.container_group("p", "c", ScopePrefix.DOCKER) == "p/docker-c.scope"
