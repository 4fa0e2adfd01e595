"""The node as koordlet opens it: what it finds, manages and restores."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from koord_hooks.stages import Stage
from koord_host.detect import DetectError
from koord_host.planning.desired_values import DesiredValue, Target
from koord_model import keys
from koord_model.qos import KubeQoS
from koord_service.sqlite_state import InUseError
from koordlet.agent import runtime_hooks
from koordlet.agent.agent import Agent
from koordlet.agent.config import KoordletSettings
from koordlet.agent.runtime_hooks import ManagedNode, find_layout, follow_layout
from koordlet.qos_manager.plan_queue import NodePlan

from tests.support.node import NodeFixture, PodSpec
from tests.support.node.fixture import VERBS
from tests.support.node.pods import JOB
from tests.support.processes import PATIENCE
from tests.support.text_tree import TextTree

STATE = "/var/lib/kubelet/cpu_manager_state"
LS = PodSpec("ls", KubeQoS.BURSTABLE, "LS", 2)
CACHE = {keys.ANNOTATION_RESCTRL: {"mb": {"schemata": {"percent": 20}}}}
JOB = replace(JOB, annotations={**JOB.annotations, **CACHE})
LIMITED = "50000 100000"


def main(node: NodeFixture, pod: PodSpec, file: str) -> str:
    """What a file of the pod's container contains."""
    return node.read(pod.container_group(node.layout), file)


async def started(node: NodeFixture, managed: ManagedNode, pod: PodSpec) -> None:
    node.start(pod)
    managed.reconcile_loop.saw(Stage.POST_START_CONTAINER, pod.container(node.layout))
    await managed.reconcile_loop.reconcile()


def rules(directory: Path, slo: object) -> str:
    """A rules file with this NodeSLO."""
    (directory / "rules.yaml").write_text(json.dumps({"kind": "NodeSLO", "spec": slo}))
    return str(directory / "rules.yaml")


BANDWIDTH = {"systemStrategy": {"totalNetworkBandwidth": "1G"}}


@pytest.fixture
def agent(
    node: NodeFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Agent]]:
    """Makes koordlet's agent, as root, with its files in the test's directory."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    places = {
        "runtime_hooks_addr": str(tmp_path / "k.sock"),
        "runtime_hooks_config_path": str(tmp_path),
        "runtime_hooks_nri_socket_path": str(tmp_path / "nri.sock"),
    }
    with ExitStack() as stack:

        def make(**settings: str | float) -> Agent:
            made = Agent(node.settings(**places, **settings), node.files)
            if made._node is not None:
                stack.callback(made._node.shut_down)
            return made

        yield make


class TestWhatIsFound:
    async def test_knobs_and_devices(self, node):
        kernel = node.start_koordlet().reconcile_loop.view.kernel
        assert {"cpu.shares", "cpu.idle", "memory.limit_in_bytes"} <= kernel.knobs
        assert not {"cpu.bvt_warp_ns", "net_cls.classid"} & kernel.knobs
        assert (kernel.core_sched, kernel.resctrl) == (True, True)
        assert kernel.verbs == {VERBS: "uverbs0"}

    async def test_a_node_without_cgroups_is_an_error_with_the_solution(self, node):
        with pytest.raises(DetectError, match="--cgroup-root-dir"):
            node.start_koordlet(cgroup_version="auto", cgroup_root_dir="/not/there")

    async def test_rules_hold_before_the_first_round(self, node, tmp_path):
        managed = node.start_koordlet(nodeslo_file=rules(tmp_path, BANDWIDTH))
        assert managed.reconcile_loop.view.slo.total_network_bandwidth == 10**9

    async def test_resctrl_that_is_mounted_later_is_used(self, node):
        node.files._has_resctrl = False
        managed = node.start_koordlet("resctrl")
        await started(node, managed, JOB)
        node.files._has_resctrl = True
        await managed.reconcile_loop.reconcile()
        assert managed.reconcile_loop.has_cache_group(f"koordlet-{JOB.uid}")


@pytest.mark.parametrize(("static", "cpus"), [(True, "1-15"), (False, "0-15")])
async def test_cpusets_that_a_static_kubelet_sets_stay(node, words, static, cpus):
    if static:
        node.files.plain.texts[STATE] = '{"policyName": "static", "entries": {}}'
    managed = node.start_koordlet("cpusetallocator", resource_force_update_seconds=0)
    await started(node, managed, LS)
    assert main(node, LS, "cpuset.cpus") == "0-15"
    node.write(LS.container_group(node.layout), "cpuset.cpus", "1-15")
    for _ in range(3):
        await managed.reconcile_loop.reconcile()
    assert main(node, LS, "cpuset.cpus") == cpus
    left = [(one["knob"], one["pod"]) for _, one in words("left as another process set it")]
    assert left == ([("cpuset.cpus", "shop/ls")] if static else [])


async def test_a_pod_in_a_virtual_machine_is_left_alone_with_one_line(node, words, caplog):
    caplog.set_level("INFO", "pykoord")
    loop = node.start_koordlet("all").reconcile_loop
    node.start(JOB)
    loop.saw(Stage.PRE_RUN_POD_SANDBOX, JOB.pod(node.layout, runtime_handler="kata"))
    loop.saw(Stage.POST_START_CONTAINER, JOB.container(node.layout))
    for _ in range(3):
        await loop.reconcile()
    [(_, fields)] = words("left alone")
    assert fields["pod"] == "shop/job"
    assert main(node, JOB, "cpu.max") == "max 100000"


class TestTheState:
    @pytest.mark.parametrize("restored", [True, False])
    async def test_changes_are_journalled_and_undone_on_shutdown_only_if_configured(
        self, node, tmp_path, restored
    ):
        settings = {"restore_on_stop": restored, "nodeslo_file": rules(tmp_path, BANDWIDTH)}
        with node.koordlet("batchresource", "resctrl", "tcnetworkqos", **settings) as managed:
            await started(node, managed, JOB)
            assert main(node, JOB, "cpu.max") == LIMITED
            assert node.files.traffic is not None
        assert ("cpu.cfs_quota_us", 50_000) in {(one.knob, one.new) for one in node.journal()}
        assert main(node, JOB, "cpu.max") == ("max 100000" if restored else LIMITED)
        assert node.files.exists(f"/sys/fs/resctrl/koordlet-{JOB.uid}") is not restored
        assert (node.files.traffic is None) is restored

    async def test_a_state_directory_that_cannot_be_is_logged_once_and_koordlet_works(
        self, node, tmp_path, words
    ):
        (tmp_path / "state").write_text("a file where a directory belongs")
        managed = node.start_koordlet("batchresource")
        await started(node, managed, JOB)
        await started(node, managed, LS)
        assert main(node, JOB, "cpu.max") == LIMITED
        said = [event for event, _ in words("state database cannot be used", "journal")]
        assert sorted(said) == ["journal", "state database cannot be used"]


async def test_a_second_koordlet_leaves_the_node_alone_and_answers_hooks(
    node, agent, words, batch_container, batch_answer
):
    node.start_koordlet()
    with pytest.raises(InUseError, match="another process uses this database"):
        node.start_koordlet()
    second = agent()
    [(_, fields)] = words("not writing kernel files, only answering hooks")
    assert "another process uses this database" in fields["reason"]
    ask = second._server._handler(Stage.PRE_CREATE_CONTAINER).unary_unary
    assert ask is not None
    assert await ask(batch_container, None) == batch_answer  # type: ignore[arg-type, misc]
    assert second._nri is None
    await asyncio.sleep(0)


async def test_hooks_are_not_answered_while_original_values_are_restored(agent, tmp_path):
    one = agent()
    seen: list[bool] = []

    def shut_down() -> None:
        with socket.socket(socket.AF_UNIX) as client:
            seen.append(client.connect_ex(str(tmp_path / "k.sock")) == 0)

    assert one._node is not None
    one._node = replace(one._node, shut_down=shut_down)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(one.serve())
        while not (tmp_path / "koordlet.json").exists():
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
    assert seen == [False]


@pytest.mark.parametrize(
    ("runtime", "has_nri"), [("containerd", True), ("cri-o", True), ("docker", False)]
)
def test_runtimes_with_nri(agent, runtime, has_nri):
    assert (agent(default_runtime_type=runtime)._nri is not None) == has_nri


async def test_what_strategies_left_is_restored_by_a_koordlet_without_strategies(node, agent):
    be = "kubepods/besteffort"
    quota = DesiredValue(Target(be, "cpu.cfs_quota_us"), 50_000, "suppressed")
    plan = NodePlan({"cpu_suppress": (quota,)})
    for interval, wanted, found in ((1.0, plan, LIMITED), (1.0, None, LIMITED), (0.0, None, "max")):
        managed = agent(collect_res_used_interval=interval)._node
        assert managed is not None
        if wanted is not None:
            managed.plan_queue.put(wanted)
        await managed.reconcile_loop.reconcile()
        await managed.reconcile_loop.finish(managed.shut_down)
        assert node.read(be, "cpu.max").startswith(found)


# ---- the kubelet's cgroups, found later than koordlet starts

CONFIG, ROOT = "/var/lib/kubelet/config.yaml", "/sys/fs/cgroup"
STARTED = {f"{ROOT}/kubepods/podu/c/cgroup.procs": "7\n", f"{ROOT}/kubepods/cgroup.procs": ""}


@pytest.mark.parametrize(
    ("at_start", "later", "restarts"),
    [
        pytest.param({}, {}, False, id="nothing is known yet"),
        pytest.param({}, STARTED, True, id="systemd was assumed"),
        pytest.param({}, {CONFIG: "kind: KubeletConfiguration"}, True, id="a configuration"),
        pytest.param({CONFIG: "kind: KubeletConfiguration"}, STARTED, False, id="as configured"),
        pytest.param(
            {CONFIG: "cgroupDriver: systemd"}, STARTED, True, id="the runtime said another"
        ),
        pytest.param(STARTED, {CONFIG: "cgroupDriver: systemd"}, False, id="seen, not yet changed"),
    ],
)
async def test_koordlet_restarts_once_the_kubelets_cgroups_are_others(
    at_start, later, restarts, words, monkeypatch
):
    monkeypatch.setattr(runtime_hooks, "_LAYOUT_SECONDS", 0.001)
    files = TextTree({f"{ROOT}/cgroup.procs": "", **at_start})
    settings = KoordletSettings(cgroup_version="2")
    layout, stopped = find_layout(settings, files), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(follow_layout(settings, files, layout, stopped.set))
        await asyncio.sleep(0.1)
        assert not stopped.is_set()
        files.texts |= later
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE if restarts else 0.2):
                await stopped.wait()
        task.cancel()
    assert stopped.is_set() is restarts
    said = [str(fields["cgroups"]) for _, fields in words("kubelet has other cgroups, restarting")]
    assert [line.split(",")[0] for line in said] == ["cgroupfs"] * restarts


async def test_a_driver_that_changes_leaves_the_old_groups_behind(monkeypatch):
    monkeypatch.setattr(runtime_hooks, "_LAYOUT_SECONDS", 0.001)
    old, new = f"{ROOT}/kubepods/podu", f"{ROOT}/kubepods.slice/kubepods-podv.slice"
    files = TextTree({f"{ROOT}/kubepods/cgroup.procs": "", f"{old}/cgroup.procs": "7\n"})
    settings, stopped = KoordletSettings(cgroup_version="2"), asyncio.Event()
    layout = find_layout(settings, files)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(follow_layout(settings, files, layout, stopped.set))
        await asyncio.sleep(0.05)
        top = f"{ROOT}/kubepods.slice/cgroup.procs"
        files.texts |= {f"{old}/cgroup.procs": "", top: "", f"{new}/cgroup.procs": "8\n"}
        await stopped.wait()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "connecting"),
        ({"read_only": True}, "off, with --read-only"),
        ({"default_runtime_type": "docker"}, "docker has no NRI"),
        ({"enable_nri_runtime_hook": False}, "off, with --enable-nri-runtime-hook=false"),
    ],
)
def test_the_status_page_says_how_hooks_arrive(agent, settings, reason, tmp_path):
    found = agent(**settings)._status_document()
    hooks = found["hooks"]
    assert (hooks["nri"]["connected"], hooks["nri"]["reason"]) == (False, reason)
    assert hooks["socket"] == str(tmp_path / "k.sock")
    # Not serving yet: the proxy must not find it.
    assert hooks["registration"] == ""
    assert "batchresource" in hooks["plugins"]
    assert found["health"]["status"] in ("ok", "degraded")


async def test_the_status_page_says_what_nri_waits_for(agent, tmp_path):
    made = agent()
    await made._nri._attempt()
    reason = made._status_document()["hooks"]["nri"]["reason"]
    assert reason == f"{tmp_path}/nri.sock: no runtime listens there"


def test_the_status_page_without_cgroups(agent):
    found = agent(cgroup_version="auto", cgroup_root_dir="/not/there")._status_document()
    assert found["health"]["status"] == "degraded"
    nri = found["hooks"]["nri"]
    assert nri["reason"] == "koordlet does not write to this node; its log says why"
