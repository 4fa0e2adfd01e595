"""Rounds: what plugins want of everything there is, written, and not asked again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from koord_hooks.runner import HookRunner, load
from koord_hooks.specs import hookimpl
from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.desired_values import DesiredValue, Owner, Priority, Target
from koord_host.planning.outcomes import Outcome
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import Journal
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

from tests.support.fake_node import FakeNode

LAYOUT = Layout(1, Driver.CGROUPFS)
VIEW = NodeView()
BE = "kubepods/besteffort"


def runner(**hooks: Callable[..., Any]) -> HookRunner:
    plugin = SimpleNamespace(**{name: hookimpl(hook) for name, hook in hooks.items()})
    return HookRunner([("p", plugin)])


def record(name: str, handler: str = "", **limits: int) -> PodRecord:
    pod = Pod(name, "shop", name, cgroup_parent=f"/{BE}/pod{name}", runtime_handler=handler)
    resources = LinuxResources(**limits)  # type: ignore[arg-type]
    main = Container(pod, "main", f"{name}-main", resources=resources)
    return PodRecord(replace(pod, resources=resources), {main.id: main})


class Bench:
    """A reconciler on a node in memory with the pods a, b and c, and clocks that stand still."""

    def __init__(self, hooks: HookRunner, layout: Layout = LAYOUT) -> None:
        self.node = FakeNode(1)
        for name in "abc":
            for part in ("main", "sandbox"):
                self.node.cgroups.make_group(f"{BE}/pod{name}/{name}-{part}")
        self.told: list[DesiredState] = []
        self.shaped: list[tuple[Traffic | None, str]] = []
        self.now = 0.0
        self.executor = Executor(
            self.node,
            layout,
            Journal("", print),
            BaselineStore("", print),
            clock=lambda: self.now,
            monotonic=lambda: self.now,
        )
        self.reconciler = NodeReconciler(
            hooks,
            layout,
            self.node,
            self.executor,
            TaskReconciler(HOOKS, self.node, layout, lambda: self.now, 60.0),
            self.told.append,
            lambda traffic, why: self.shaped.append((traffic, why)),
        )

    def round(self, *records: PodRecord, view: NodeView = VIEW, **more: Any) -> ReconcileResult:
        return self.reconciler.reconcile_all(records, view, **more)

    def value(self, group: str, file: str) -> str:
        subsystem = file.partition(".")[0]
        return self.node.read(f"/sys/fs/cgroup/{subsystem}/{group}/{file}").strip()


def idle(subject: object) -> Patch:
    return Patch(knobs={"cpu.idle": 1}, why="test")


def shares(value: int) -> Callable[..., Patch]:
    def hook() -> Patch:
        return Patch(resources=LinuxResources(cpu_shares=value))

    return hook


def test_everything_there_is_is_levelled() -> None:
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
    bench.node.cgroups.make_group("host-best-effort/scan")
    slo = NodeSLO(host_applications=(HostApplication("scan", QoSClass.BE),))
    bench.round(record("a"), record("b"), view=NodeView(slo=slo))
    assert bench.value(BE, "cpu.idle") == "1"
    assert bench.value("host-best-effort/scan", "cpu.shares") == "500"
    assert bench.value(f"{BE}/poda", "cpu.shares") == "100"
    assert bench.value(f"{BE}/poda/a-main", "cpu.shares") == "300"
    assert bench.value(f"{BE}/podb/b-sandbox", "cpu.shares") == "200"
    assert bench.value(f"{BE}/podc", "cpu.shares") == "1024", "nobody told of it"
    assert bench.node.read("/proc/sys/kernel/sched_core") == "1\n"
    assert bench.node.read("/agent") == "a,b"
    assert bench.shaped == [(Traffic(9, ()), "p: test")]


def test_plugins_are_asked_again_only_about_what_has_changed() -> None:
    asked: list[str] = []

    def pre_run_pod_sandbox(pod: Pod) -> None:
        asked.append(pod.name)

    bench = Bench(runner(pre_run_pod_sandbox=pre_run_pod_sandbox))
    a, b = record("a"), record("b")
    bench.round(a, b)
    bench.round(a, b)
    assert asked == ["a", "b"]
    bench.round(a, replace(b, containers={}))
    assert asked == ["a", "b", "b"]
    bench.round(a, b, view=replace(VIEW, cpu_normalization_ratio=2.0))
    assert asked == ["a", "b", "b", "a", "b"]


def test_a_pod_that_vanishes_half_way_stops_nobody_else_and_is_no_trouble() -> None:
    bench = Bench(runner(pre_run_pod_sandbox=shares(100), pre_create_container=shares(300)))

    def vanish(path: str, text: str) -> None:
        bench.node.cgroups.before_write = None
        bench.node.remove_group(f"{BE}/podb")

    bench.node.cgroups.before_write = vanish
    done = bench.round(record("a"), record("b"), record("c"))
    assert {one.target.place for one in done.writes.results if one.outcome is Outcome.GONE} == {
        f"{BE}/podb",
        f"{BE}/podb/b-main",
        f"{BE}/podb/b-sandbox",
    }
    assert not any(one.alert for one in done.writes.results)
    for name in "ac":
        assert bench.value(f"{BE}/pod{name}", "cpu.shares") == "100"
        assert bench.value(f"{BE}/pod{name}/{name}-main", "cpu.shares") == "300"


def test_a_defect_about_one_pod_stops_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = NodeReconciler._limited

    def limited(self: NodeReconciler, one: PodRecord) -> PodRecord:
        if one.pod.name == "b":
            raise KeyError("defect")
        return whole(self, one)

    monkeypatch.setattr(NodeReconciler, "_limited", limited)
    bench = Bench(runner(pre_run_pod_sandbox=shares(100)))
    for _ in range(2):
        done = bench.round(*map(record, "abc"))
        assert done.defects == ("shop/b: KeyError: 'defect'",)
    values = [bench.value(f"{BE}/pod{name}", "cpu.shares") for name in "abc"]
    assert values == ["100", "1024", "100"]


def test_a_pod_that_was_never_there_is_no_trouble() -> None:
    bench = Bench(runner(pre_run_pod_sandbox=shares(100)))
    done = bench.round(record("ghost"), record("a"))
    assert done.writes.news == tuple(
        one for one in done.writes.news if one.target.place == f"{BE}/poda"
    )


def test_of_a_pod_that_ended_nothing_is_wished_any_more() -> None:
    bench = Bench(runner(pre_run_pod_sandbox=shares(100)))
    bench.round(record("a"), record("b"))
    bench.round(record("b"))
    bench.now += 61
    places = {one.target.place for one in bench.executor.apply().results}
    assert places == {f"{BE}/podb"}


def test_a_pod_in_a_virtual_machine_is_left_alone_and_its_neighbour_is_not() -> None:
    bench = Bench(runner(pre_run_pod_sandbox=shares(100), pre_create_container=shares(300)))
    bench.round(record("a", handler="kata-qemu"), record("b"))
    assert bench.value(f"{BE}/poda", "cpu.shares") == "1024"
    assert bench.value(f"{BE}/poda/a-main", "cpu.shares") == "1024"
    assert bench.value(f"{BE}/podb", "cpu.shares") == "100"
    [skipped] = [one for one in bench.told if one.skipped]
    assert (skipped.pod, "kata-qemu" in skipped.skipped) == ("shop/a", True)


def test_what_a_runtime_has_set_anew_is_looked_at_again() -> None:
    bench = Bench(runner(pre_run_pod_sandbox=shares(100)))
    a = record("a")
    bench.round(a)
    bench.node.write(f"/sys/fs/cgroup/cpu/{BE}/poda/cpu.shares", "7")
    bench.round(a)
    assert bench.value(f"{BE}/poda", "cpu.shares") == "7", "not due yet"
    bench.round(a, touched={"a"})
    assert bench.value(f"{BE}/poda", "cpu.shares") == "100"


STRATEGY = Owner("strategy", Priority.STRATEGY)


def wants(bench: Bench, *groups: str) -> None:
    """A strategy wishes shares of groups."""
    values = tuple(DesiredValue(Target(group, "cpu.shares"), 100, "test") for group in groups)
    bench.executor.set_desired(STRATEGY, "strategy", values)


def set_anew(bench: Bench, *groups: str) -> None:
    for group in groups:
        bench.node.write(f"/sys/fs/cgroup/cpu/{group}/cpu.shares", "7")


def test_what_strategies_wish_of_a_pod_is_looked_at_again_too() -> None:
    bench = Bench(runner())
    a, b = record("a"), record("b")
    theirs = (f"{BE}/poda", f"{BE}/poda/a-main", f"{BE}/poda/a-sandbox")
    others = (BE, f"{BE}/podb", f"{BE}/podb/b-main")
    wants(bench, *theirs, *others)
    bench.round(a, b)
    set_anew(bench, *theirs, *others)
    done = bench.round(a, b, touched={"a"})
    assert {bench.value(group, "cpu.shares") for group in theirs} == {"100"}
    assert {bench.value(group, "cpu.shares") for group in others} == {"7"}, "not due yet"
    assert {one.reason for one in done.writes.results} == {""}, "the runtime is no stranger"


def test_of_a_pod_that_is_news_they_are_looked_at_again() -> None:
    bench = Bench(runner())
    wants(bench, f"{BE}/poda/a-main")
    bench.round(record("a"))
    set_anew(bench, f"{BE}/poda/a-main")
    bench.round(record("a", cpu_quota=50_000))
    assert bench.value(f"{BE}/poda/a-main", "cpu.shares") == "100"


def test_another_view_of_the_node_is_no_news_of_pods() -> None:
    bench = Bench(runner())
    a = record("a")
    wants(bench, f"{BE}/poda")
    bench.round(a)
    set_anew(bench, f"{BE}/poda")
    bench.round(a, view=replace(VIEW, cpu_normalization_ratio=2.0))
    assert bench.value(f"{BE}/poda", "cpu.shares") == "7"


def test_with_systemd_groups_above_pods_are_looked_at_each_time() -> None:
    slices = ("kubepods.slice", "kubepods.slice/kubepods-besteffort.slice")
    pod = f"{slices[1]}/kubepods-besteffort-poda.slice"
    bench = Bench(runner(), Layout(1, Driver.SYSTEMD))
    bench.node.cgroups.make_group(pod)
    wants(bench, *slices, pod)
    bench.round()
    set_anew(bench, *slices, pod)
    done = bench.round()
    assert [bench.value(group, "cpu.shares") for group in (*slices, pod)] == ["100", "100", "7"]
    assert {one.reason for one in done.writes.results} == {""}, "systemd is no stranger"


class TestQuotas:
    """Of what was asked for, only what a group was given is divided."""

    VIEW = replace(VIEW, cpu_normalization_ratio=2.0)

    @pytest.fixture
    def bench(self) -> Bench:
        return Bench(load(["cpunormalization"]))

    def test_a_quota_that_a_group_has_is_divided(self, bench: Bench) -> None:
        for group in (f"{BE}/poda", f"{BE}/poda/a-main"):
            bench.node.write(f"/sys/fs/cgroup/cpu/{group}/cpu.cfs_quota_us", "100000")
        bench.round(record("a", cpu_quota=100_000), view=self.VIEW)
        assert bench.value(f"{BE}/poda", "cpu.cfs_quota_us") == "50000"
        assert bench.value(f"{BE}/poda/a-main", "cpu.cfs_quota_us") == "50000"

    def test_a_pod_of_which_one_container_has_no_limit_gets_none(self, bench: Bench) -> None:
        main = f"{BE}/poda/a-main"
        bench.node.write(f"/sys/fs/cgroup/cpu/{main}/cpu.cfs_quota_us", "100000")
        bench.round(record("a", cpu_quota=100_000), view=self.VIEW)
        assert bench.value(f"{BE}/poda", "cpu.cfs_quota_us") == "-1"
        assert bench.value(main, "cpu.cfs_quota_us") == "50000"

    def test_a_container_with_cpus_of_the_kubelet_s_gets_none(self, bench: Bench) -> None:
        bench.round(record("a", cpu_quota=100_000), view=self.VIEW)
        assert bench.value(f"{BE}/poda/a-main", "cpu.cfs_quota_us") == "-1"


def test_what_is_wrong_is_told_when_a_pod_is_asked_about_not_each_round() -> None:
    def pre_run_pod_sandbox(pod: Pod) -> Patch:
        raise ValueError("annotation x is y")

    bench = Bench(runner(pre_run_pod_sandbox=pre_run_pod_sandbox))
    a = record("a")
    bench.round(a)
    bench.round(a)
    assert [one.scope for one in bench.told if one.outcomes_to_log and one.pod] == ["pod a"]


def test_a_wish_that_is_gone_leaves_the_value() -> None:
    wanted: list[Patch | None] = [Patch(knobs={"cpu.idle": 1})]
    bench = Bench(runner(pre_run_pod_sandbox=lambda pod: wanted[0]))
    bench.round(record("a"))
    wanted[0] = None
    bench.round(record("a"))
    assert bench.value(f"{BE}/poda", "cpu.idle") == "1"
    bench.now += 61
    assert bench.executor.apply().results == ()


def test_what_cannot_wait_is_let_in_between_two_pods() -> None:
    order: list[str] = []

    def pre_run_pod_sandbox(pod: Pod) -> None:
        order.append(pod.name)

    bench = Bench(runner(pre_run_pod_sandbox=pre_run_pod_sandbox))
    bench.round(*map(record, "abc"), between=lambda: order.append("-"))
    assert "".join(order) == "-a-b-c"
