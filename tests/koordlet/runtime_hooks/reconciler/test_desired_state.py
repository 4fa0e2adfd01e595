from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from koord_hooks.runner import HookRunner
from koord_hooks.specs import hookimpl
from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.desired_values import DesiredValue, Target
from koord_model.core_sched import CoreSchedGroup, GroupKind
from koord_model.node import NodeView
from koord_model.node_slo import HostApplication, NodeSLO
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS, QoSClass
from koord_model.resctrl import ResctrlLimits
from koord_model.resources import LinuxResources
from koordlet.runtime_hooks.reconciler.desired_state import (
    DesiredState,
    DesiredTasks,
    compute_host_applications,
    compute_kube_qos,
    compute_pod,
    host_application_group,
    pod_scope,
)
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


def level(hooks: HookRunner, record: PodRecord = RECORD, *sandboxes: str) -> DesiredState:
    return compute_pod(record, sandboxes, hooks, NodeView(), V1)


def test_a_request_s_fields_become_knobs_of_the_groups() -> None:
    def pre_run_pod_sandbox(pod: Pod) -> Patch:
        return Patch(resources=LinuxResources(cpu_quota=-1), knobs={"cpu.idle": 1}, why="pod")

    def pre_create_container(container: Container) -> Patch:
        return Patch(resources=LinuxResources(cpu_shares=2, memory_limit=4096), why="container")

    hooks = runner(
        pre_run_pod_sandbox=pre_run_pod_sandbox, pre_create_container=pre_create_container
    )
    levelled = level(hooks)
    assert levelled.scope == pod_scope("u1")
    assert levelled.values == (
        DesiredValue(Target(GROUP, "cpu.cfs_quota_us"), -1, "p: pod", "shop/web-1"),
        DesiredValue(Target(GROUP, "cpu.idle"), 1, "p: pod", "shop/web-1"),
        DesiredValue(Target(f"{GROUP}/c1", "cpu.shares"), 2, "p: container", "shop/web-1"),
        DesiredValue(
            Target(f"{GROUP}/c1", "memory.limit_in_bytes"), 4096, "p: container", "shop/web-1"
        ),
    )
    assert (levelled.tasks, levelled.resctrl, levelled.outcomes_to_log) == ((), None, ())


def test_an_empty_cpu_list_says_nothing_of_a_group() -> None:
    def pre_create_container() -> Patch:
        return Patch(resources=LinuxResources(cpuset_cpus=""))

    assert level(runner(pre_create_container=pre_create_container)).values == ()


def test_wishes_of_tasks_are_kept_apart() -> None:
    value = ResctrlLimits("koordlet-u1")

    def pre_create_container() -> Patch:
        return Patch(resources=LinuxResources(oom_score_adj=5), core_sched=ALONE, resctrl=value)

    levelled = level(runner(pre_create_container=pre_create_container))
    assert levelled.values == ()
    assert levelled.tasks == (DesiredTasks(f"{GROUP}/c1", 5, ALONE),)
    assert levelled.resctrl == value


def test_a_sandbox_is_a_container_without_name_and_keeps_its_oom_score() -> None:
    def pre_create_container(container: Container) -> Patch | None:
        resources = LinuxResources(cpuset_cpus="0", oom_score_adj=5)
        return Patch(resources=resources) if not container.name else None

    levelled = level(runner(pre_create_container=pre_create_container), RECORD, "s1")
    assert [value.target for value in levelled.values] == [Target(f"{GROUP}/s1", "cpuset.cpus")]
    assert levelled.tasks == ()


@pytest.mark.parametrize("handler", ["kata", "kata-qemu", "firecracker"])
def test_pods_in_virtual_machines_are_left_alone(handler: str) -> None:
    def pre_run_pod_sandbox() -> Patch:
        raise AssertionError("not asked")

    pod = Pod("vm", "shop", "u2", cgroup_parent="/kubepods/podu2", runtime_handler=handler)
    levelled = level(runner(pre_run_pod_sandbox=pre_run_pod_sandbox), PodRecord(pod))
    assert levelled.values == ()
    assert handler in levelled.skipped


def test_what_is_wrong_is_told_with_its_subject() -> None:
    def pre_create_container() -> Patch:
        raise ValueError("annotation x is y")

    levelled = level(runner(pre_create_container=pre_create_container))
    [(subject, outcome)] = levelled.outcomes_to_log
    assert subject == {"pod": "shop/web-1", "container": "main"}
    assert outcome.patch.ignored == ("annotation x is y",)


def test_scopes_of_the_systemd_driver() -> None:
    def pre_create_container() -> Patch:
        return Patch(knobs={"cpu.idle": 0})

    pod = Pod("web-1", "shop", "u-1", cgroup_parent="kubepods-burstable-podu_1.slice")
    record = PodRecord(pod, {"c1": Container(pod, "main", "c1")}, runtime="cri-o")
    levelled = compute_pod(
        record, (), runner(pre_create_container=pre_create_container), NodeView(), SYSTEMD
    )
    assert [value.target.place for value in levelled.values] == [
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1.slice/crio-c1.scope"
    ]


def test_class_groups() -> None:
    def level_kube_qos_hook(kube_qos: KubeQoS) -> Patch | None:
        return Patch(knobs={"cpu.idle": 1}) if kube_qos is KubeQoS.BEST_EFFORT else None

    levelled = compute_kube_qos(runner(reconcile_kube_qos=level_kube_qos_hook), NodeView(), SYSTEMD)
    assert [value.target.place for value in levelled.values] == [
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


def test_host_applications_are_levelled() -> None:
    def hook(application: HostApplication) -> Patch:
        return Patch(knobs={"cpu.idle": 1}, why=application.name)

    view = NodeView(slo=NodeSLO(host_applications=(HostApplication("scan", QoSClass.BE),)))
    levelled = compute_host_applications(runner(reconcile_host_application=hook), view, V1)
    [value] = levelled.values
    assert (value.target, value.why) == (Target("host-best-effort/scan", "cpu.idle"), "p: scan")
