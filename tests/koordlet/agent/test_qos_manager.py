"""The deciding side as koordlet runs it: modes and gates, others' strategies, and nothing written.

The whole agent works in this process, on a node in memory; only root's rights, core
scheduling and traffic control are stood in for.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import grpc
import grpc.aio
import pytest
import yaml
from koord_hooks.protocol import request_type, response_type
from koord_hooks.stages import Stage, rpc_path
from koord_host.core_sched import CoreSched
from koord_host.knobs.layout import Driver, Layout
from koord_host.netlink import TrafficReport
from koord_host.planning.desired_values import DesiredValue, Target
from koord_kube.client import Client, Cluster
from koord_kube.protocol.resources import NODE_SLOS, NODES
from koord_model.qos import KubeQoS
from koord_proto import hook_pb2 as pb
from koord_service.log_deduplicator import LogDeduplicator
from koordlet.agent.agent import Agent
from koordlet.agent.states_informer import StatesInformer
from koordlet.qos_manager import strategy_loop, strategy_table
from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    EvictionVictim,
    Plan,
    StrategyMode,
    StrategyView,
)
from koordlet.qos_manager.core.strategy_runner import StrategyState
from koordlet.states_informer.node_objects import ClusterState
from prometheus_client import generate_latest

from tests.support.deciding_node import FragileNode
from tests.support.fake_node import PodSpec, StandInRuntime
from tests.support.fake_node.cri import pod_list
from tests.support.fake_node.kept import settings_of
from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE
from tests.support.waiting import until

LAYOUT = Layout(2, Driver.CGROUPFS)
WATERMARK = "/proc/sys/vm/watermark_scale_factor"
SYSTEM = "system_config"
POD = PodSpec("web", KubeQoS.BURSTABLE, "LS", 2)
PRE_RUN = Stage.PRE_RUN_POD_SANDBOX


def nodeslo(factor: int | None = 150, **modes: str) -> dict[str, Any]:
    """Asks for a sysctl that stands at 10, and has strategies in modes."""
    strategies = {name: {"mode": mode} for name, mode in modes.items()}
    return {
        "systemStrategy": {} if factor is None else {"watermarkScaleFactor": factor},
        "extensions": {"pykoord": {"strategies": strategies}},
    }


@dataclass
class Running:
    """A koordlet that runs, its node, and how to change what is asked of it."""

    agent: Agent
    files: FragileNode
    directory: Path

    def ask(self, slo: dict[str, Any]) -> None:
        """Another NodeSLO in the file."""
        half = self.directory / "slo.part"
        half.write_text(yaml.safe_dump({"kind": "NodeSLO", "spec": slo}))
        half.replace(self.directory / "slo.yaml")

    @property
    def watermark(self) -> str:
        return self.files.plain.texts[WATERMARK].strip()

    def state(self, name: str) -> StrategyState:
        assert self.agent._deciding is not None
        [found] = (one for one in self.agent._deciding.decider.states() if one.name == name)
        return found

    def decided(self, name: str) -> list[str]:
        """What stands decided by a strategy."""
        assert self.agent._deciding is not None
        found = self.agent._deciding.decided.decisions.find(lambda key: key.strategy == name)
        return [one.decision.outcome for one in found.standing]

    def metric(self, name: str, strategy: str) -> float:
        lines = generate_latest(self.agent._metrics.registry).decode().splitlines()
        of_name = (one for one in lines if one.startswith(f"koordlet_{name}{{"))
        [line] = (one for one in of_name if f'strategy="{strategy}"' in one)
        return float(line.rpartition(" ")[2])


@asynccontextmanager
async def running(
    slo: dict[str, Any], *gates: str, cluster: StatesInformer | None = None, **settings: Any
) -> AsyncIterator[Running]:
    """koordlet on a node with one pod, with rounds a tenth of a second apart."""
    with TemporaryDirectory(prefix="koord-", dir="/tmp") as name:
        directory, files = Path(name), FragileNode(2)
        runtime = StandInRuntime(files, LAYOUT)
        config = POD.sandbox_request(LAYOUT).config
        runtime.make_pod_group(config)
        runtime.run_sandbox(config)
        runtime.create(POD.container_request(LAYOUT))
        (directory / "pods.json").write_bytes(pod_list([POD]))
        often = dict.fromkeys(
            ("reconcile_interval_seconds", "cpu_suppress_interval_seconds"), 0.1
        ) | dict.fromkeys(("runtime_hooks_reconcile_interval", "kubelet_sync_interval"), 0.1)
        given = {
            "nodeslo_file": str(directory / "slo.yaml") if cluster is None else "",
            "pod_list_source": str(directory / "pods.json"),
            "runtime_hooks_addr": str(directory / "koordlet.sock"),
            "runtime_hooks_config_path": str(directory / "hookserver.d"),
            "enable_nri_runtime_hook": False,
            "status_address": "none",
            "metrics_address": "",
            "tsdb_path": "none",
            "feature_gates": tuple(f"{gate}=true" for gate in gates),
            **often,
        }
        asked = settings_of(files, directory, Driver.CGROUPFS, **(given | settings))
        made = Running.__new__(Running)
        made.files, made.directory = files, directory
        made.ask(slo)
        with stood_in(files):
            made.agent = Agent(asked, files, cluster)
            async with asyncio.TaskGroup() as group:
                work = group.create_task(made.agent.serve())
                try:
                    yield made
                finally:
                    work.cancel()


def stood_in(files: FragileNode) -> Any:
    """What needs root, or is not of files."""
    cookies: Callable[..., CoreSched] = partial(CoreSched, prctl=files.prctl)
    traffic = lambda *_, **__: SimpleNamespace(level=lambda *_: TrafficReport())  # noqa: E731
    return patch.multiple("koordlet.agent.runtime_hooks", CoreSched=cookies, HostTraffic=traffic)


@pytest.fixture(autouse=True)
def _as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordlet.agent.agent.os.geteuid", lambda: 0)
    monkeypatch.setattr(strategy_loop, "_SETTLE_SECONDS", 0.2)


# ---- modes and gates


async def every_mode(node: Running, ask: Callable[[dict[str, Any]], None]) -> None:
    """On, shadow, off and on again, while it runs."""
    await until(lambda: node.watermark == "150", "it is on by default")
    ask(nodeslo(system_config="shadow"))
    await until(lambda: node.watermark == "10", "a shadow writes nothing, and what it wrote goes")
    assert node.state(SYSTEM).mode is StrategyMode.SHADOW
    assert node.metric("strategy_mode", SYSTEM) == 1
    ask(nodeslo(200, system_config="shadow"))
    said = "vm.watermark_scale_factor is to be 200"
    await until(lambda: node.decided(SYSTEM) == [said], "a shadow decides")
    assert node.watermark == "10"
    ask(nodeslo(200, system_config="off"))
    await until(lambda: node.state(SYSTEM).mode is StrategyMode.OFF, "it is off")
    await until(lambda: node.decided(SYSTEM) == [], "nothing of it stands")
    rounds = node.state(SYSTEM).rounds
    await asyncio.sleep(0.3)
    assert node.state(SYSTEM).rounds == rounds
    ask(nodeslo(200, system_config="on"))
    await until(lambda: node.watermark == "200", "it is on again")
    assert (node.state(SYSTEM).mode, node.state(SYSTEM).reason) == (StrategyMode.ON, "")


async def test_modes_change_while_it_runs_as_the_file_says() -> None:
    async with running(nodeslo(), "SystemConfig") as node:
        await every_mode(node, node.ask)


class NoKubelet:
    """Nobody asks it: a file says which pods run."""

    name = "no kubelet"

    async def configz(self) -> bytes:
        raise OSError("there is none")

    async def close(self) -> None:
        pass


@asynccontextmanager
async def in_cluster() -> AsyncIterator[tuple[KubeApi, StatesInformer]]:
    with TemporaryDirectory() as directory:
        async with KubeApi() as api:
            client = Client(Cluster(api.url))
            state = ClusterState(client, "n1", f"{directory}/cluster.json", lambda _: None)
            kubelet: Any = NoKubelet()
            api.put(NODES, {"metadata": {"name": "n1"}})
            yield (
                api,
                StatesInformer("n1", client, state, kubelet, LogDeduplicator(), ask_kubelet=False),
            )


async def test_modes_change_while_it_runs_as_the_api_server_says() -> None:
    async with in_cluster() as (api, cluster):

        def ask(slo: dict[str, Any]) -> None:
            api.put(NODE_SLOS, {"metadata": {"name": "n1"}, "spec": slo})

        ask(nodeslo())
        async with running({}, "SystemConfig", cluster=cluster) as node:
            await every_mode(node, ask)
            api.delete(NODE_SLOS, "n1")
            await until(lambda: node.watermark == "10", "without a NodeSLO all is put back")


async def test_a_gate_that_is_off_switches_off_whatever_the_nodeslo_says() -> None:
    async with running(nodeslo(system_config="on")) as node:
        await until(lambda: node.state("cpu_suppress").rounds > 3, "others decide")
        found = node.state(SYSTEM)
        assert (found.enabled, found.mode, found.rounds) == (False, StrategyMode.OFF, 0)
        assert found.reason == "disabled; enable with --feature-gates=SystemConfig=true"
        assert node.watermark == "10"


# ---- others' strategies


@dataclass(frozen=True, slots=True)
class TheirSettings:
    percent: int = 1


def module(plan: Callable[[StrategyView, Any, Any], Plan]) -> Any:
    return SimpleNamespace(
        GATE="Theirs",
        INTERVAL=0.1,
        Settings=TheirSettings,
        settings=lambda _: TheirSettings(),
        plan=plan,
    )


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Entry points by name; what waits in them is let go in the end."""
    found: dict[str, Any] = {}

    class Point(EntryPoint):
        def load(self) -> Any:
            return found[self.name]

    points = lambda group: [Point(name, f"their.{name}", group) for name in found]  # noqa: E731
    monkeypatch.setattr(strategy_table, "entry_points", points)
    yield found
    found.clear()


def evict_all(view: StrategyView, *_: Any) -> Plan:
    """Wishes a knob and a sysctl of everybody, and that all pods go."""
    said = Decision("all pods go")
    wishes = (
        DesiredValue(Target(view.pods[0].group, "cpu.shares"), 7) if view.pods else None,
        DesiredValue(Target("vm.min_free_kbytes", "sysctl"), "99999"),
    )
    victims = tuple(EvictionVictim(pod, 1.0) for pod in view.pods)
    return Plan(
        tuple(one for one in wishes if one is not None),
        (said,),
        (EvictionClaim("Theirs", "memory", 1.0, victims, said, opt_in=False, forced=True),),
    )


async def test_a_strategy_of_others_works_beside_ours(theirs: dict[str, Any]) -> None:
    theirs["theirs"] = module(evict_all)
    async with running(nodeslo(), "SystemConfig", evict_dry_run=True) as node:
        group = POD.group(LAYOUT)
        weight = f"{LAYOUT.cgroup_root}/{group}/cpu.weight"
        before = node.files.read(weight)
        await until(lambda: node.files.read(weight) != before, "its wish is written")
        await until(lambda: node.watermark == "150", "and ours")
        assert node.state("theirs").mode is StrategyMode.ON
        node.ask(nodeslo(theirs="off"))
        await until(lambda: node.files.read(weight) == before, "what it wished is put back")
        assert node.watermark == "150"


async def test_where_nothing_is_written_all_are_shadows(theirs: dict[str, Any]) -> None:
    theirs["theirs"] = module(evict_all)
    settings = {"read_only": True, "memory_evict_cool_time_seconds": 0.0}
    async with in_cluster() as (api, cluster):
        api.put(NODE_SLOS, {"metadata": {"name": "n1"}, "spec": nodeslo(theirs="on")})
        async with running({}, "SystemConfig", cluster=cluster, **settings) as node:
            await until(lambda: bool(node.decided(SYSTEM)), "ours decides")
            await until(lambda: "all pods go" in node.decided("theirs"), "theirs decides")
            await until(lambda: len(node.decided("theirs")) > 1, "what became of the claim is told")
            await asyncio.sleep(0.5)
            for name in ("theirs", SYSTEM):
                assert node.state(name).mode is StrategyMode.SHADOW
                assert node.metric("strategy_mode", name) == 1
            deciding = node.agent._deciding
            assert deciding is not None
            evictor: Any = deciding.decider._evictor
            assert (evictor.recent(), evictor.evicting()) == ((), frozenset())
        assert [one for one in api.asked if "eviction" in str(one)] == []
    assert node.files.plain.writes == []
    # The kubelet's and the runtime's alone, as the pod began.
    assert [
        path
        for path, _ in node.files.cgroups.writes
        if "weight" not in path and "cpu.max" not in path
    ] == []


async def test_with_nothing_written_the_file_is_followed_all_the_same() -> None:
    async with running(nodeslo(), "SystemConfig", read_only=True) as node:
        await until(lambda: bool(node.decided(SYSTEM)), "it decides")
        node.ask(nodeslo(200))
        said = ["vm.watermark_scale_factor is to be 200"]
        await until(lambda: node.decided(SYSTEM) == said, "another NodeSLO counts")
        assert node.watermark == "10"


# ---- strategies that fail


def fail(*_: Any) -> Plan:
    raise ZeroDivisionError("percent of nothing")


def spin(seconds: float) -> Callable[..., Plan]:
    """Reckons and reckons, with the interpreter's lock."""

    def plan(*_: Any) -> Plan:
        ends = time.thread_time() + seconds
        while time.thread_time() < ends:
            pass
        return Plan(decisions=(Decision("reckoned"),))

    return plan


async def test_one_that_raises_costs_the_others_nothing(theirs: dict[str, Any]) -> None:
    theirs["theirs"] = module(fail)
    async with running(nodeslo(), "SystemConfig") as node:
        await until(lambda: node.watermark == "150", "ours is done")
        await until(lambda: node.state("theirs").failures > 2, "it fails, over and over")
        found = node.state("theirs")
        assert found.reason == "failed: ZeroDivisionError: percent of nothing"
        assert (found.overruns, found.wishes) == (0, 0)
        assert node.metric("strategy_failures_total", "theirs") >= 3
        rounds = node.state(SYSTEM).rounds
        await until(lambda: node.state(SYSTEM).rounds > rounds, "ours goes on")
        assert node.state(SYSTEM).failures == 0


async def test_one_that_takes_too_long_costs_the_others_nothing(theirs: dict[str, Any]) -> None:
    theirs["theirs"] = module(spin(0.15))
    async with running(nodeslo(), "SystemConfig") as node:
        await until(lambda: node.watermark == "150", "ours is done")
        await until(lambda: node.state("theirs").overruns > 1, "it overruns")
        assert node.state("theirs").reason == "took more than 100 ms of CPU"
        assert node.decided("theirs") == []
        assert node.metric("strategy_overruns_total", "theirs") >= 2
        assert node.state(SYSTEM).overruns == 0


async def test_one_that_does_not_come_back_is_given_up_until_it_does(
    theirs: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(strategy_loop, "_SILENT_SECONDS", 0.5)
    over = threading.Event()

    def wait(*_: Any) -> Plan:
        over.wait(PATIENCE)
        return Plan()

    theirs["tardy"] = module(wait)
    try:
        async with running(nodeslo(), "SystemConfig") as node:
            await until(lambda: bool(node.state("tardy").overruns), "it is given up")
            assert node.state("tardy").reason.startswith("has not come back for 0.5 s")
            node.ask(nodeslo(170))
            await until(lambda: node.watermark == "170", "ours goes on")
            assert node.metric("strategy_overruns_total", "tardy") == 1
            over.set()
            await until(lambda: node.state("tardy").rounds > 1, "it came back, and is asked again")
    finally:
        over.set()
    lines = [one for one in caplog.records if "tardy" in str(getattr(one, "fields", ""))]
    assert len(lines) == 1


async def test_hooks_are_answered_while_one_reckons(theirs: dict[str, Any]) -> None:
    """A strategy of pure Python has the interpreter, but not for itself."""
    theirs["theirs"] = module(spin(1.5))
    async with running(nodeslo(), "SystemConfig", hook_plugins=("all",)) as node:
        await until(lambda: node.agent._registration.written, "hooks are served")
        deciding = node.agent._deciding
        assert deciding is not None
        rounds: Any = deciding.decider._rounds
        async with grpc.aio.insecure_channel(f"unix:{node.directory}/koordlet.sock") as channel:
            call = channel.unary_unary(
                rpc_path(PRE_RUN),
                request_serializer=request_type(PRE_RUN).SerializeToString,
                response_deserializer=response_type(PRE_RUN).FromString,
            )
            await call(sandbox(), timeout=PATIENCE)
            await until(lambda: rounds.running == "theirs", "it reckons")
            took = []
            while rounds.running == "theirs":
                began = time.perf_counter()
                await call(sandbox(), timeout=PATIENCE)
                took.append(time.perf_counter() - began)
        assert len(took) >= 5, took
        assert sorted(took)[len(took) // 2] < 0.25, took


def sandbox() -> pb.PodSandboxHookRequest:
    request = pb.PodSandboxHookRequest(
        labels={"koordinator.sh/qosClass": "BE"},
        annotations={"node.koordinator.sh/resources": json.dumps({})},
        cgroup_parent=f"/{POD.group(LAYOUT)}",
    )
    request.pod_meta.name, request.pod_meta.uid = "asked", "asked-1"
    return request
