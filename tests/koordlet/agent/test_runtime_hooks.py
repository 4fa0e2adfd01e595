"""The node side as it is wired: what it finds, what it keeps, what it lets go of."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from koord_hooks.runner import load
from koord_hooks.stages import Stage
from koord_host.detect import DetectError
from koord_host.knobs.layout import Driver
from koord_host.planning.desired_values import DesiredValue, Target
from koord_host.resource_executor.baselines import InUseError
from koord_host.resource_executor.journal import read
from koord_model import keys
from koord_model.qos import KubeQoS
from koord_proto import hook_pb2 as pb
from koordlet.agent.agent import Agent
from koordlet.agent.config import KoordletSettings
from koordlet.agent.runtime_hooks import ManagedNode
from koordlet.qos_manager.plan_queue import NodePlan

from tests.koordlet.conftest import Keep, Words
from tests.koordlet.runtime_hooks.reconciler.test_reconcile_loop import (
    JOB,
    LAYOUT,
    QUOTA,
    Bench,
    main_of,
    pod_of,
)
from tests.support.fake_node import FakeNode, PodSpec
from tests.support.fake_node.kept import VERBS, kept, settings_of
from tests.support.processes import PATIENCE

STATE = "/var/lib/kubelet/cpu_manager_state"
LS = PodSpec("ls", KubeQoS.BURSTABLE, "LS", 2)
LSE = PodSpec(
    "lse",
    KubeQoS.GUARANTEED,
    "LSE",
    2,
    annotations={keys.ANNOTATION_RESOURCE_STATUS: {"cpuset": "2-3"}},
)


def cpus(bench: Bench, pod: PodSpec) -> str:
    return bench.read(f"{pod.group(LAYOUT)}/{pod.name}-main/cpuset.cpus")


async def started(bench: Bench, node: ManagedNode, pod: PodSpec) -> None:
    bench.start(pod)
    node.reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(pod))
    await node.reconcile_loop.reconcile()


async def ended(bench: Bench, node: ManagedNode, pod: PodSpec) -> None:
    bench.node.remove_group(pod.group(LAYOUT))
    node.reconcile_loop.saw(Stage.POST_STOP_POD_SANDBOX, pod_of(pod))
    await node.reconcile_loop.reconcile()


class TestWhatIsFound:
    async def test_knobs_and_devices(self, keep: Keep) -> None:
        kernel = keep(Bench().node).reconcile_loop.view.kernel
        assert {"cpu.shares", "cpu.idle", "memory.limit_in_bytes"} <= kernel.knobs
        assert "cpu.bvt_warp_ns" not in kernel.knobs
        assert "net_cls.classid" not in kernel.knobs
        assert (kernel.core_sched, kernel.resctrl) == (True, True)
        assert kernel.verbs == {VERBS: "uverbs0"}

    async def test_a_node_without_cgroups_is_an_error_with_the_way_out(self, keep: Keep) -> None:
        with pytest.raises(DetectError, match="--cgroup-root-dir"):
            keep(FakeNode(), cgroup_version="auto", cgroup_root_dir="/not/there")

    async def test_rules_hold_before_the_first_round(self, keep: Keep, tmp_path: Path) -> None:
        rules = tmp_path / "rules.yaml"
        rules.write_text("kind: NodeSLO\nspec: {systemStrategy: {totalNetworkBandwidth: 1G}}\n")
        reconcile_loop = keep(Bench().node, nodeslo_file=str(rules)).reconcile_loop
        assert reconcile_loop.view.slo.total_network_bandwidth == 10**9

    async def test_resctrl_that_is_mounted_later_is_used(self, keep: Keep) -> None:
        pod = PodSpec(
            "web", annotations={keys.ANNOTATION_RESCTRL: {"mb": {"schemata": {"percent": 20}}}}
        )
        bench = Bench()
        bench.node._has_resctrl = False
        node = keep(bench.node, "resctrl")
        await started(bench, node, pod)
        bench.node._has_resctrl = True
        await node.reconcile_loop.reconcile()
        assert node.reconcile_loop.has_cache_group(f"koordlet-{pod.uid}")


class TestPools:
    async def test_they_shrink_for_a_pod_with_cpus_of_its_own_and_widen_after_it(
        self, keep: Keep
    ) -> None:
        bench = Bench()
        node = keep(bench.node, "cpusetallocator")
        await started(bench, node, LS)
        assert cpus(bench, LS) == "0-15"
        await started(bench, node, LSE)
        assert cpus(bench, LS) == "0-1,4-15"
        assert cpus(bench, LSE) == "2-3"
        await ended(bench, node, LSE)
        assert cpus(bench, LS) == "0-15"

    async def test_beside_a_static_kubelet_its_cpusets_stay(
        self, keep: Keep, words: Callable[..., Words]
    ) -> None:
        bench = Bench()
        bench.node.plain.texts[STATE] = '{"policyName": "static", "entries": {}}'
        node = keep(bench.node, "cpusetallocator", resource_force_update_seconds=0)
        await started(bench, node, LS)
        assert cpus(bench, LS) == "0-15"
        path = f"/sys/fs/cgroup/{LS.group(LAYOUT)}/ls-main/cpuset.cpus"
        bench.node.write(path, "1-15")
        for _ in range(3):
            await node.reconcile_loop.reconcile()
        assert cpus(bench, LS) == "1-15"
        [(_, fields)] = words("left as another process set it")
        assert (fields["knob"], fields["pod"]) == ("cpuset.cpus", "shop/ls")

    async def test_without_one_they_are_set_again(self, keep: Keep) -> None:
        bench = Bench()
        node = keep(bench.node, "cpusetallocator", resource_force_update_seconds=0)
        await started(bench, node, LS)
        path = f"/sys/fs/cgroup/{LS.group(LAYOUT)}/ls-main/cpuset.cpus"
        bench.node.write(path, "1-15")
        await node.reconcile_loop.reconcile()
        assert cpus(bench, LS) == "0-15"


async def test_a_change_of_the_rules_levels_what_runs(keep: Keep, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    text = """\
kind: NodeSLO
spec: {resourceQOSStrategy: {lsClass: {cpuQOS: {enable: true, groupIdentity: %s}}}}
"""
    rules.write_text(text % 2)
    bench = Bench()
    node = keep(bench.node, "groupidentity", nodeslo_file=str(rules))
    await started(bench, node, LS)
    assert bench.read(f"{LS.group(LAYOUT)}/cpu.idle") == "0"
    rules.write_text(text % -1)
    await node.reconcile_loop.reconcile()
    assert bench.read(f"{LS.group(LAYOUT)}/cpu.idle") == "1"
    rules.unlink()
    await node.reconcile_loop.reconcile()
    assert bench.read(f"{LS.group(LAYOUT)}/cpu.idle") == "1", "the last good rules stay"


async def test_a_pod_in_a_virtual_machine_is_left_alone_with_one_line(
    keep: Keep, words: Callable[..., Words], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "pykoord")
    bench = Bench(JOB)
    node = keep(bench.node, "all")
    node.reconcile_loop.saw(Stage.PRE_RUN_POD_SANDBOX, pod_of(JOB, runtime_handler="kata"))
    node.reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(JOB))
    for _ in range(3):
        await node.reconcile_loop.reconcile()
    [(_, fields)] = words("left alone")
    assert fields["pod"] == "shop/job"
    assert bench.read(QUOTA) == "max 100000"


class TestTheState:
    async def test_changes_are_journalled_and_survive_it(self, keep: Keep, tmp_path: Path) -> None:
        bench = Bench()
        await started(bench, keep(bench.node, "batchresource"), JOB)
        changes = {(one.knob, one.new) for one in read(str(tmp_path / "state/journal.jsonl"))}
        assert ("cpu.cfs_quota_us", 50_000) in changes

    @pytest.mark.parametrize(("restored", "found"), [(True, "max"), (False, "50000")])
    async def test_what_was_found_is_put_back_only_where_asked_for(
        self, tmp_path: Path, restored: bool, found: str
    ) -> None:
        bench = Bench()
        settings = settings_of(bench.node, tmp_path, Driver.CGROUPFS, restore_on_stop=restored)
        await run_once(bench, settings)
        assert bench.read(QUOTA) == f"{found} 100000"
        assert bench.node.exists(f"/sys/fs/resctrl/koordlet-{JOB.uid}") is not restored

    @pytest.mark.parametrize("restored", [True, False])
    async def test_traffic_is_left_unshaped_only_where_asked_for(
        self, tmp_path: Path, restored: bool
    ) -> None:
        bench = Bench()
        rules = tmp_path / "rules.yaml"
        bandwidth = {"systemStrategy": {"totalNetworkBandwidth": "1G"}}
        rules.write_text(json.dumps({"kind": "NodeSLO", "spec": bandwidth}))
        settings = settings_of(
            bench.node,
            tmp_path,
            Driver.CGROUPFS,
            restore_on_stop=restored,
            nodeslo_file=str(rules),
        )
        with kept(bench.node, settings, load(["tcnetworkqos"])) as node:
            await node.reconcile_loop.reconcile()
            assert bench.node.traffic is not None
        assert (bench.node.traffic is None) is restored

    async def test_one_that_cannot_be_kept_is_told_once_and_the_node_is_kept(
        self, keep: Keep, tmp_path: Path, words: Callable[..., Words]
    ) -> None:
        (tmp_path / "state").write_text("a file where a directory belongs")
        bench = Bench()
        node = keep(bench.node, "batchresource")
        await started(bench, node, JOB)
        await started(bench, node, LS)
        assert bench.read(QUOTA) == "50000 100000"
        said = [event for event, _ in words("originals", "journal")]
        assert sorted(said) == ["journal", "originals"]


async def run_once(bench: Bench, settings: KoordletSettings) -> None:
    """A koordlet's life: open, level a batch pod with a cache of its own, let go."""
    part = {keys.ANNOTATION_RESCTRL: {"mb": {"schemata": {"percent": 20}}}}
    pod = PodSpec(JOB.name, JOB.kube_qos, JOB.qos, annotations={**JOB.annotations, **part})
    with kept(bench.node, settings, load(["batchresource", "resctrl"])) as node:
        await started(bench, node, pod)
        assert bench.read(QUOTA) == "50000 100000"


class TestTwo:
    async def test_the_second_is_refused(self, keep: Keep) -> None:
        bench = Bench()
        keep(bench.node)
        with pytest.raises(InUseError, match="another process writes to this node"):
            keep(bench.node)

    async def test_the_second_leaves_the_node_alone_and_answers_hooks(
        self,
        keep: Keep,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        words: Callable[..., Words],
        batch_container: pb.ContainerResourceHookRequest,
        batch_answer: pb.ContainerResourceHookResponse,
    ) -> None:
        bench = Bench()
        keep(bench.node)
        monkeypatch.setattr("os.geteuid", lambda: 0)
        agent = Agent(settings_of(bench.node, tmp_path, Driver.CGROUPFS), bench.node)
        [(_, fields)] = words("not writing kernel files, only answering hooks")
        assert "another process writes to this node" in fields["reason"]
        ask = agent._server._handler(Stage.PRE_CREATE_CONTAINER).unary_unary
        assert ask is not None
        assert await ask(batch_container, None) == batch_answer  # type: ignore[arg-type, misc]
        assert agent._nri is None
        await asyncio.sleep(0)


async def test_nobody_is_given_our_values_while_they_are_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    addresses = {
        "runtime_hooks_addr": str(tmp_path / "k.sock"),
        "runtime_hooks_config_path": str(tmp_path),
        "runtime_hooks_nri_socket_path": str(tmp_path / "nri.sock"),
    }
    agent = Agent(settings_of(bench.node, tmp_path, Driver.CGROUPFS, **addresses), bench.node)
    file = tmp_path / "koordlet.json"
    seen: list[bool] = []

    def shut_down() -> None:
        with socket.socket(socket.AF_UNIX) as client:
            seen.append(client.connect_ex(addresses["runtime_hooks_addr"]) == 0)

    assert agent._node is not None
    agent._node = replace(agent._node, shut_down=shut_down)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(agent.serve())
        while not file.exists():
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
    assert seen == [False]


@pytest.mark.parametrize(
    ("runtime", "has_nri"), [("containerd", True), ("cri-o", True), ("docker", False)]
)
def test_nri_is_of_runtimes_that_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str, has_nri: bool
) -> None:
    bench = Bench()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    settings = settings_of(
        bench.node,
        tmp_path,
        Driver.CGROUPFS,
        runtime_hooks_addr=str(tmp_path / "k.sock"),
        default_runtime_type=runtime,
    )
    assert (Agent(settings, bench.node)._nri is not None) == has_nri


async def test_what_strategies_left_is_put_back_where_nothing_is_decided_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(JOB)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    quota = DesiredValue(Target("kubepods/besteffort", "cpu.cfs_quota_us"), 50_000, "suppressed")

    async def run(wanted: NodePlan | None, interval: float) -> str:
        settings = settings_of(
            bench.node,
            tmp_path,
            Driver.CGROUPFS,
            runtime_hooks_addr=str(tmp_path / "k.sock"),
            collect_res_used_interval=interval,
        )
        node = Agent(settings, bench.node)._node
        assert node is not None
        if wanted is not None:
            node.plan_queue.put(wanted)
        await node.reconcile_loop.reconcile()
        await node.reconcile_loop.finish(node.shut_down)
        return bench.read("kubepods/besteffort/cpu.max")

    assert await run(NodePlan({"cpu_suppress": (quota,)}), 1.0) == "50000 100000"
    assert await run(None, 1.0) == "50000 100000"
    assert await run(None, 0.0) == "max 100000"
