"""Rounds: what plugins want of everything there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from koord_hooks.runner import HookRunner, load
from koord_hooks.specs import hookimpl
from koord_host.knobs.layout import Driver
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_host.planning.outcomes import Outcome
from koord_model.node import NodeView
from koord_model.node_slo import HostApplication, NodeSLO
from koord_model.patch import NodePatch, Patch
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS, QoSClass
from koord_model.resources import LinuxResources
from koord_model.traffic import Traffic
from koordlet.runtime_hooks.reconciler.desired_state import DesiredState
from koordlet.runtime_hooks.reconciler.reconciler import HOOKS, NodeReconciler, ReconcileResult
from koordlet.runtime_hooks.reconciler.tasks import TaskReconciler
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.node import NodeFixture

VIEW = NodeView()
BE = "kubepods/besteffort"


def runner(**hooks: Callable[..., Any]) -> HookRunner:
    plugin = SimpleNamespace(**{name: hookimpl(hook) for name, hook in hooks.items()})
    return HookRunner([("p", plugin)])


def record(name: str, **limits: int) -> PodRecord:
    pod = Pod(name, "shop", name, cgroup_parent=f"/{BE}/pod{name}")
    resources = LinuxResources(**limits)  # type: ignore[arg-type]
    main = Container(pod, "main", f"{name}-main", resources=resources)
    return PodRecord(replace(pod, resources=resources), {main.id: main})


class Bench(NodeFixture):
    """A reconciler on a node with the pods a, b and c, and clocks that stand still."""

    def __init__(self, hooks: HookRunner, driver: Driver = Driver.CGROUPFS) -> None:
        super().__init__(version=1, driver=driver)
        for name in "abc":
            for part in ("main", "sandbox"):
                self.files.cgroups.make_group(f"{BE}/pod{name}/{name}-{part}")
        self.logged: list[DesiredState] = []
        self.shaped: list[tuple[Traffic | None, str]] = []
        self.apply = self.executor()
        self.reconciler = NodeReconciler(
            hooks,
            self.layout,
            self.files,
            self.apply,
            TaskReconciler(HOOKS, self.files, self.layout, lambda: self.steady, 60.0),
            self.logged.append,
            lambda traffic, why: self.shaped.append((traffic, why)),
        )

    def round(self, *records: PodRecord, view: NodeView = VIEW, **more: Any) -> ReconcileResult:
        return self.reconciler.reconcile_all(records, view, **more)

    def shares(self, *groups: str) -> list[str]:
        return [self.read(group, "cpu.shares") for group in groups]

    def disturb(self, *groups: str, value: int = 7) -> None:
        """Another process sets their shares."""
        for group in groups:
            self.write(group, "cpu.shares", value)

    def want(self, *groups: str) -> None:
        """A strategy wants shares of groups."""
        values = tuple(DesiredValue(Target(group, "cpu.shares"), 100, "test") for group in groups)
        self.apply.set_desired(Owner("strategy", Priority.STRATEGY), "strategy", values)


def shares(value: int) -> Callable[..., Patch]:
    def hook() -> Patch:
        return Patch(resources=LinuxResources(cpu_shares=value))

    return hook


def test_everything_there_is_is_reconciled():
    def reconcile_kube_qos(kube_qos: KubeQoS) -> Patch | None:
        return Patch(knobs={"cpu.idle": 1}) if kube_qos is KubeQoS.BEST_EFFORT else None

    def pre_create_container(container: Container) -> Patch:
        return Patch(resources=LinuxResources(cpu_shares=300 if container.name else 200))

    def reconcile_node(pods: tuple[Pod, ...]) -> NodePatch:
        names = ",".join(pod.name for pod in pods)
        sysctls = {"kernel.sched_core": "1"}
        return NodePatch(sysctls, {"/agent": names}, Traffic(9, ()), why="test")

    bench = Bench(
        runner(
            reconcile_kube_qos=reconcile_kube_qos,
            reconcile_host_application=shares(500),
            pre_run_pod_sandbox=shares(100),
            pre_create_container=pre_create_container,
            reconcile_node=reconcile_node,
        )
    )
    scan = "host-best-effort/scan"
    bench.files.cgroups.make_group(scan)
    slo = NodeSLO(host_applications=(HostApplication("scan", QoSClass.BE),))
    bench.round(record("a"), record("b"), view=NodeView(slo=slo))
    assert bench.read(BE, "cpu.idle") == "1"
    # Pod c is not known.
    groups = scan, *(f"{BE}/{one}" for one in ("poda", "poda/a-main", "podb/b-sandbox", "podc"))
    assert bench.shares(*groups) == ["500", "100", "300", "200", "1024"]
    assert bench.files.read("/proc/sys/kernel/sched_core") == "1\n"
    assert bench.files.read("/agent") == "a,b"
    assert bench.shaped == [(Traffic(9, ()), "p: test")]


def test_plugins_are_called_again_only_for_what_has_changed():
    called: list[str] = []

    def pre_run_pod_sandbox(pod: Pod) -> None:
        called.append(pod.name)

    bench = Bench(runner(pre_run_pod_sandbox=pre_run_pod_sandbox))
    a, b = record("a"), record("b")
    for records, view, expected in (
        ((a, b), VIEW, "ab"),
        ((a, b), VIEW, ""),
        ((a, replace(b, containers={})), VIEW, "b"),
        ((a, b), replace(VIEW, cpu_normalization_ratio=2.0), "ab"),
    ):
        bench.round(*records, view=view)
        assert "".join(called) == expected
        called.clear()


def test_a_pod_that_vanishes_half_way_stops_no_other_and_is_no_problem():
    bench = Bench(runner(pre_run_pod_sandbox=shares(100), pre_create_container=shares(300)))

    def vanish(path: str, text: str) -> None:
        bench.files.cgroups.before_write = None
        bench.files.remove_group(f"{BE}/podb")

    bench.files.cgroups.before_write = vanish
    done = bench.round(record("a"), record("b"), record("c"))
    gone = {one.target.place for one in done.writes.results if one.outcome is Outcome.GONE}
    assert gone == {f"{BE}/podb{part}" for part in ("", "/b-main", "/b-sandbox")}
    assert not any(one.alert for one in done.writes.results)
    for name in "ac":
        groups = f"{BE}/pod{name}", f"{BE}/pod{name}/{name}-main"
        assert bench.shares(*groups) == ["100", "300"]


def test_a_defect_about_one_pod_stops_no_other(monkeypatch):
    limited = NodeReconciler._limited

    def fail(self: NodeReconciler, one: PodRecord) -> PodRecord:
        if one.pod.name == "b":
            raise KeyError("defect")
        return limited(self, one)

    monkeypatch.setattr(NodeReconciler, "_limited", fail)
    bench = Bench(runner(pre_run_pod_sandbox=shares(100)))
    for _ in range(2):
        done = bench.round(*map(record, "abc"))
        assert done.defects == ("shop/b: KeyError: 'defect'",)
    assert bench.shares(*(f"{BE}/pod{name}" for name in "abc")) == ["100", "1024", "100"]


def test_a_pod_that_was_never_there_is_no_problem():
    bench = Bench(runner(pre_run_pod_sandbox=shares(100)))
    done = bench.round(record("ghost"), record("a"))
    assert {one.target.place for one in done.writes.news} == {f"{BE}/poda"}


def test_of_a_pod_that_ended_nothing_is_desired_any_more():
    bench = Bench(runner(pre_run_pod_sandbox=shares(100)))
    bench.round(record("a"), record("b"))
    bench.round(record("b"))
    bench.steady += 61
    assert {one.target.place for one in bench.apply.apply().results} == {f"{BE}/podb"}


def test_files_of_hooks_are_checked_when_due_or_when_the_runtime_may_have_set_them():
    bench, a = Bench(runner(pre_run_pod_sandbox=shares(100))), record("a")
    bench.round(a)
    for touched, found in ((set(), "7"), ({"a"}, "100")):
        bench.disturb(f"{BE}/poda")
        bench.round(a, touched=touched)
        assert bench.shares(f"{BE}/poda") == [found]


POD_A = (f"{BE}/poda", f"{BE}/poda/a-main", f"{BE}/poda/a-sandbox")
OTHERS = (BE, f"{BE}/podb", f"{BE}/podb/b-main")
OTHER_VIEW = {"view": replace(VIEW, cpu_normalization_ratio=2.0)}


@pytest.mark.parametrize(
    ("limits", "more", "checked"),
    [
        pytest.param({}, {}, (), id="not due"),
        pytest.param({}, {"touched": {"a"}}, POD_A, id="touched by its runtime"),
        pytest.param({"cpu_quota": 50_000}, {}, POD_A, id="changed"),
        pytest.param({}, OTHER_VIEW, (), id="another view of the node"),
    ],
)
def test_files_of_a_pod_are_checked_before_they_are_due_if_its_runtime_may_have_set_them(
    limits, more, checked
):
    bench, a, b = Bench(runner()), record("a"), record("b")
    bench.want(*POD_A, *OTHERS)
    bench.round(a, b)
    bench.disturb(*POD_A, *OTHERS, value=1024)
    done = bench.round(record("a", **limits) if limits else a, b, **more)
    for group in (*POD_A, *OTHERS):
        assert bench.shares(group) == ["100" if group in checked else "1024"], group
    assert {one.reason for one in done.writes.results} <= {""}, "the runtime is no drift"


def test_with_systemd_groups_above_pods_are_checked_each_time():
    slices = ("kubepods.slice", "kubepods.slice/kubepods-besteffort.slice")
    pod = f"{slices[1]}/kubepods-besteffort-poda.slice"
    bench = Bench(runner(), Driver.SYSTEMD)
    bench.files.cgroups.make_group(pod)
    found = bench.shares(*slices, pod)
    bench.want(*slices, pod)
    bench.round()
    for group, shares in zip((*slices, pod), found, strict=True):
        bench.disturb(group, value=int(shares))
    done = bench.round()
    assert bench.shares(*slices, pod) == ["100", "100", found[2]]
    assert {one.reason for one in done.writes.results} == {""}, "systemd is no drift"


@pytest.mark.parametrize(
    ("quotas", "divided"),
    [
        pytest.param(("100000", "100000"), ["50000", "50000"], id="both have one"),
        pytest.param(("-1", "100000"), ["-1", "50000"], id="one container has no limit"),
        pytest.param(("-1", "-1"), ["-1", "-1"], id="CPUs of the kubelet's"),
    ],
)
def test_only_a_quota_that_a_group_has_is_divided(quotas, divided):
    bench = Bench(load(["cpunormalization"]))
    for group, quota in zip(POD_A, quotas, strict=False):
        bench.write(group, "cpu.cfs_quota_us", quota)
    bench.round(record("a", cpu_quota=100_000), **OTHER_VIEW)
    assert [bench.read(group, "cpu.cfs_quota_us") for group in POD_A[:2]] == divided


def test_what_is_wrong_is_logged_when_plugins_are_called_not_each_round():
    def pre_run_pod_sandbox(pod: Pod) -> Patch:
        raise ValueError("annotation x is y")

    bench = Bench(runner(pre_run_pod_sandbox=pre_run_pod_sandbox))
    a = record("a")
    bench.round(a)
    bench.round(a)
    assert [one.scope for one in bench.logged if one.outcomes_to_log and one.pod] == ["pod a"]


def test_a_value_that_is_not_desired_any_more_stays():
    wanted: list[Patch | None] = [Patch(knobs={"cpu.idle": 1})]
    bench = Bench(runner(pre_run_pod_sandbox=lambda pod: wanted[0]))
    bench.round(record("a"))
    wanted[0] = None
    bench.round(record("a"))
    assert bench.read(f"{BE}/poda", "cpu.idle") == "1"
    bench.steady += 61
    assert bench.apply.apply().results == ()


def test_what_cannot_wait_is_let_in_between_two_pods():
    order: list[str] = []

    def pre_run_pod_sandbox(pod: Pod) -> None:
        order.append(pod.name)

    bench = Bench(runner(pre_run_pod_sandbox=pre_run_pod_sandbox))
    bench.round(*map(record, "abc"), between=lambda: order.append("-"))
    assert "".join(order) == "-a-b-c"
