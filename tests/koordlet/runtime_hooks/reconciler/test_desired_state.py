from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from koord_hooks.runner import HookRunner
from koord_hooks.specs import hookimpl
from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.desired_values import Target
from koord_model.core_sched import CoreSchedGroup, GroupKind
from koord_model.node import NodeView
from koord_model.node_slo import HostApplication
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS, QoSClass
from koord_model.resctrl import ResctrlLimits
from koord_model.resources import LinuxResources
from koordlet.runtime_hooks.reconciler.desired_state import (
    DesiredState,
    DesiredTasks,
    compute_kube_qos,
    compute_pod,
    pod_scope,
)
from koordlet.states_informer.state.cgroup_paths import host_application_group
from koordlet.states_informer.state.pod_inventory import PodRecord

V1 = Layout(1, Driver.CGROUPFS)
SYSTEMD = Layout(2, Driver.SYSTEMD)
POD = Pod("web-1", "shop", "u1", cgroup_parent="/kubepods/podu1")
MAIN = Container(POD, "main", "c1")
RECORD = PodRecord(POD, {"c1": MAIN})
GROUP = "kubepods/podu1"
ALONE = CoreSchedGroup(GroupKind.POD, "u1")


def runner(**hooks: Callable[..., Any]) -> HookRunner:
    plugin = SimpleNamespace(**{name: hookimpl(hook) for name, hook in hooks.items()})
    return HookRunner([("p", plugin)])


def computed(
    record: PodRecord = RECORD, *sandboxes: str, layout: Layout = V1, **hooks: Callable[..., Any]
) -> DesiredState:
    return compute_pod(record, sandboxes, runner(**hooks), NodeView(), layout)


def test_a_request_s_fields_become_knobs_of_the_groups():
    on_pod = Patch(resources=LinuxResources(cpu_quota=-1), knobs={"cpu.idle": 1}, why="pod")
    limits = LinuxResources(cpu_shares=2, memory_limit=4096)
    on_container = Patch(resources=limits, why="container")
    found = computed(pre_run_pod_sandbox=lambda: on_pod, pre_create_container=lambda: on_container)
    assert found.scope == pod_scope("u1")
    assert [(one.target.place, one.target.knob, one.value, one.why) for one in found.values] == [
        (GROUP, "cpu.cfs_quota_us", -1, "p: pod"),
        (GROUP, "cpu.idle", 1, "p: pod"),
        (f"{GROUP}/c1", "cpu.shares", 2, "p: container"),
        (f"{GROUP}/c1", "memory.limit_in_bytes", 4096, "p: container"),
    ]
    assert {one.pod for one in found.values} == {"shop/web-1"}
    assert (found.tasks, found.resctrl, found.groups, found.outcomes_to_log) == ((), None, (), ())


def test_an_empty_cpu_list_says_nothing_of_a_group():
    patch = Patch(resources=LinuxResources(cpuset_cpus=""))
    assert computed(pre_create_container=lambda: patch).values == ()


def test_desired_values_of_tasks_are_apart():
    resctrl = ResctrlLimits("koordlet-u1")
    patch = Patch(resources=LinuxResources(oom_score_adj=5), core_sched=ALONE, resctrl=resctrl)
    found = computed(pre_create_container=lambda: patch)
    assert found.values == ()
    assert found.tasks == (DesiredTasks(f"{GROUP}/c1", 5, ALONE),)
    assert (found.resctrl, found.groups) == (resctrl, (GROUP, f"{GROUP}/c1"))


def test_a_sandbox_is_a_container_without_name_and_keeps_its_oom_score():
    def pre_create_container(container: Container) -> Patch | None:
        resources = LinuxResources(cpuset_cpus="0", oom_score_adj=5)
        return Patch(resources=resources) if not container.name else None

    found = computed(RECORD, "s1", pre_create_container=pre_create_container)
    assert [value.target for value in found.values] == [Target(f"{GROUP}/s1", "cpuset.cpus")]
    assert found.tasks == ()


@pytest.mark.parametrize("handler", ["kata", "kata-qemu", "firecracker"])
def test_pods_in_virtual_machines_are_left_alone(handler):
    record = PodRecord(replace(POD, runtime_handler=handler), RECORD.containers)
    idle = lambda: Patch(knobs={"cpu.idle": 1})  # noqa: E731
    found = computed(record, pre_run_pod_sandbox=idle, pre_create_container=idle)
    assert found.values == ()
    assert handler in found.skipped


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"runtime_class": "secure"}, 'runtime class "secure": the pod may run in a virtual'),
        ({"cgroup_parent": "/"}, 'cgroup "/" is not the pod\'s own'),
        ({"cgroup_parent": "/kubepods/burstable"}, 'cgroup "/kubepods/burstable" is not'),
    ],
)
def test_groups_that_may_be_of_others_are_left_alone(changes, why):
    record = PodRecord(replace(POD, **changes), RECORD.containers)
    idle = lambda: Patch(knobs={"cpu.idle": 1})  # noqa: E731
    found = computed(record, pre_run_pod_sandbox=idle, pre_create_container=idle)
    assert found.values == ()
    assert found.skipped.startswith(why)


def test_what_is_wrong_is_to_be_logged_with_its_subject():
    def pre_create_container() -> Patch:
        raise ValueError("annotation x is y")

    [(subject, outcome)] = computed(pre_create_container=pre_create_container).outcomes_to_log
    assert subject == {"pod": "shop/web-1", "container": "main"}
    assert outcome.patch.ignored == ("annotation x is y",)


def test_scopes_of_the_systemd_driver():
    pod = Pod("web-1", "shop", "u-1", cgroup_parent="kubepods-burstable-podu_1.slice")
    record = PodRecord(pod, {"c1": Container(pod, "main", "c1")}, runtime="cri-o")
    idle = lambda: Patch(knobs={"cpu.idle": 0})  # noqa: E731
    found = computed(record, layout=SYSTEMD, pre_create_container=idle)
    assert [value.target.place for value in found.values] == [
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1.slice/crio-c1.scope"
    ]


def test_class_groups() -> None:
    def reconcile_kube_qos(kube_qos: KubeQoS) -> Patch | None:
        return Patch(knobs={"cpu.idle": 1}) if kube_qos is KubeQoS.BEST_EFFORT else None

    found = compute_kube_qos(runner(reconcile_kube_qos=reconcile_kube_qos), NodeView(), SYSTEMD)
    assert [value.target.place for value in found.values] == [
        "kubepods.slice/kubepods-besteffort.slice"
    ]


@pytest.mark.parametrize(
    ("application", "group"),
    [
        (HostApplication("nginx", QoSClass.LS), "host-latency-sensitive/nginx"),
        (HostApplication("scan", QoSClass.BE), "host-best-effort/scan"),
        (HostApplication("agent", QoSClass.SYSTEM), "agent"),
        (
            HostApplication("a", base="CgroupRoot", parent_dir="up/", relative_path="/here"),
            "up/here",
        ),
        (HostApplication("a", base="Kubepods", relative_path="here"), "kubepods/here"),
        (HostApplication("a", base="KubepodsBesteffort"), "kubepods/besteffort"),
    ],
)
def test_where_host_applications_are(application: HostApplication, group: str) -> None:
    assert host_application_group(application, V1) == group
