"""The QoS manager as koordlet runs it: modes and gates, others' strategies, and read-only.

The whole agent works in this process, on a node in memory.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest
import yaml
from koord_hooks.protocol import request_type, response_type
from koord_hooks.stages import Stage, rpc_path
from koord_host.dry_run_files import DryRunFiles
from koord_host.planning.desired_values import DesiredValue, Target
from koord_kube.client import Client, Cluster
from koord_kube.protocol.resources import (
    DEVICES,
    NODE_METRICS,
    NODE_SLOS,
    NODE_TOPOLOGIES,
    NODES,
)
from koord_proto import hook_pb2 as pb
from koord_service.log_deduplicator import LogDeduplicator
from koordlet.agent.agent import READ_ONLY, Agent
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.agent.states_informer import StatesInformer
from koordlet.http_api.documents.node import node_document
from koordlet.metrics_reporter import reporter
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
from koordlet.states_informer.node_objects import NodeObjects
from prometheus_client import generate_latest

from tests.support.kube_api import KubeApi
from tests.support.node import NodeFixture
from tests.support.node.fixture import VERBS
from tests.support.node.pods import WEB as POD
from tests.support.node.pods import pod_list
from tests.support.processes import PATIENCE
from tests.support.waiting import until

WATERMARK = "/proc/sys/vm/watermark_scale_factor"
SYSTEM = "system_config"
PRE_RUN = Stage.PRE_RUN_POD_SANDBOX


def nodeslo(factor: int = 150, **modes: str) -> dict[str, Any]:
    """Asks for a sysctl that is 10 now, and has strategies in modes."""
    strategies = {name: {"mode": mode} for name, mode in modes.items()}
    return {
        "systemStrategy": {"watermarkScaleFactor": factor},
        "extensions": {"pykoord": {"strategies": strategies}},
    }


class RunningAgent:
    """A koordlet that runs, its node, and how to change its rules."""

    def __init__(self, node: NodeFixture, slo: dict[str, Any]) -> None:
        self.node = node
        self.agent: Agent
        self.unwritten: dict[str, str] = {}
        self.ask(slo)

    def ask(self, slo: dict[str, Any]) -> None:
        """Another NodeSLO in the file."""
        half = self.node.directory / "slo.part"
        half.write_text(yaml.safe_dump({"kind": "NodeSLO", "spec": slo}))
        half.replace(self.node.directory / "slo.yaml")

    def would_write(self, path: str, text: str) -> None:
        self.unwritten[path] = text

    @property
    def watermark(self) -> str:
        return self.node.files.plain.texts[WATERMARK].strip()

    @property
    def deciding(self) -> Any:
        return self.agent._deciding

    def state(self, name: str) -> StrategyState:
        [found] = (one for one in self.deciding.decider.states() if one.name == name)
        return found  # type: ignore[no-any-return]

    def decisions(self, name: str) -> list[str]:
        """The outcomes of a strategy's decisions that are in force."""
        found = self.deciding.decided.decisions.find(lambda key: key.strategy == name)
        return [one.decision.outcome for one in found.standing]

    def metric(self, name: str, strategy: str) -> float:
        lines = generate_latest(self.agent._metrics.registry).decode().splitlines()
        of_name = (one for one in lines if one.startswith(f"koordlet_{name}{{"))
        [line] = (one for one in of_name if f'strategy="{strategy}"' in one)
        return float(line.rpartition(" ")[2])


OFTEN = (
    "reconcile_interval_seconds",
    "cpu_suppress_interval_seconds",
    "runtime_hooks_reconcile_interval",
    "kubelet_sync_interval",
)


@asynccontextmanager
async def running(
    slo: dict[str, Any], *gates: str, cluster: StatesInformer | None = None, **settings: Any
) -> AsyncIterator[RunningAgent]:
    """koordlet on a node with one pod, with rounds a tenth of a second apart."""
    with TemporaryDirectory(prefix="koord-", dir="/tmp") as name:
        directory = Path(name)
        node = NodeFixture(directory)
        node.start(POD)
        (directory / "pods.json").write_bytes(pod_list([POD]))
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
            **dict.fromkeys(OFTEN, 0.1),
        }
        made = RunningAgent(node, slo)
        with node.system_calls():
            dry = settings.get("dry_run")
            files = DryRunFiles(node.files, made.would_write) if dry else node.files
            made.agent = Agent(node.settings(**(given | settings)), files, cluster)
            async with asyncio.TaskGroup() as group:
                work = group.create_task(made.agent.serve())
                try:
                    yield made
                finally:
                    work.cancel()


@pytest.fixture(autouse=True)
def _as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordlet.agent.agent.os.geteuid", lambda: 0)
    monkeypatch.setattr(strategy_loop, "_SETTLE_SECONDS", 0.2)


# ---- modes and gates


async def test_modes_change_while_it_runs():
    async with running(nodeslo(), "SystemConfig") as node:
        await until(lambda: node.watermark == "150", "it is on by default")
        node.ask(nodeslo(system_config="shadow"))
        await until(lambda: node.watermark == "10", "a shadow writes nothing; its value is undone")
        assert node.state(SYSTEM).mode is StrategyMode.SHADOW
        assert node.metric("strategy_mode", SYSTEM) == 1
        node.ask(nodeslo(200, system_config="shadow"))
        said = ["vm.watermark_scale_factor is to be 200"]
        await until(lambda: node.decisions(SYSTEM) == said, "a shadow decides")
        assert node.watermark == "10"
        node.ask(nodeslo(200, system_config="off"))
        await until(lambda: node.state(SYSTEM).mode is StrategyMode.OFF, "it is off")
        await until(lambda: node.decisions(SYSTEM) == [], "it has no decisions any more")
        rounds = node.state(SYSTEM).rounds
        await asyncio.sleep(0.3)
        assert node.state(SYSTEM).rounds == rounds
        node.ask(nodeslo(200, system_config="on"))
        await until(lambda: node.watermark == "200", "it is on again")
        assert (node.state(SYSTEM).mode, node.state(SYSTEM).reason) == (StrategyMode.ON, "")


class NoKubelet:
    """A file says which pods run."""

    name = "no kubelet"

    async def configz(self) -> bytes:
        raise OSError("there is none")

    async def close(self) -> None:
        pass


@asynccontextmanager
async def in_cluster(slo: dict[str, Any]) -> AsyncIterator[tuple[KubeApi, StatesInformer]]:
    with TemporaryDirectory() as directory:
        async with KubeApi() as api:
            client = Client(Cluster(api.url))
            state = NodeObjects(client, "n1", f"{directory}/cluster.json", lambda _: None)
            kubelet: Any = NoKubelet()
            api.put(NODES, {"metadata": {"name": "n1"}})
            api.put(NODE_SLOS, {"metadata": {"name": "n1"}, "spec": slo})
            log = LogDeduplicator()
            yield api, StatesInformer("n1", client, state, kubelet, log, ask_kubelet=False)


async def test_the_nodeslo_of_the_api_server_is_followed():
    async with (
        in_cluster(nodeslo()) as (api, cluster),
        running({}, "SystemConfig", cluster=cluster) as node,
    ):
        await until(lambda: node.watermark == "150", "it holds")
        api.put(NODE_SLOS, {"metadata": {"name": "n1"}, "spec": nodeslo(200)})
        await until(lambda: node.watermark == "200", "its change holds")
        api.delete(NODE_SLOS, "n1")
        await until(lambda: node.watermark == "10", "without a NodeSLO all is put back")


async def test_a_gate_that_is_off_switches_off_whatever_the_nodeslo_says():
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
    """Entry points by name."""
    found: dict[str, Any] = {}

    class Point(EntryPoint):
        def load(self) -> Any:
            return found[self.name]

    points = lambda group: [Point(name, f"their.{name}", group) for name in found]  # noqa: E731
    monkeypatch.setattr(strategy_table, "entry_points", points)
    yield found
    found.clear()


def evict_all(view: StrategyView, *_: Any) -> Plan:
    """Desires a knob of a pod and a sysctl, and evicts all pods."""
    said = Decision("all pods go")
    desired = (
        DesiredValue(Target(view.pods[0].group, "cpu.shares"), 7) if view.pods else None,
        DesiredValue(Target("vm.min_free_kbytes", "sysctl"), "99999"),
    )
    victims = tuple(EvictionVictim(pod, 1.0) for pod in view.pods)
    return Plan(
        tuple(one for one in desired if one is not None),
        (said,),
        (EvictionClaim("Theirs", "memory", 1.0, victims, said, opt_in=False, forced=True),),
    )


async def test_a_strategy_of_others_works_beside_ours(theirs):
    theirs["theirs"] = module(evict_all)
    async with running(nodeslo(), "SystemConfig", evict_dry_run=True) as node:
        weight = lambda: node.node.read(POD.group(node.node.layout), "cpu.weight")  # noqa: E731
        before = weight()
        await until(lambda: weight() != before, "its value is written")
        await until(lambda: node.watermark == "150", "and ours")
        assert node.state("theirs").mode is StrategyMode.ON
        node.ask(nodeslo(theirs="off"))
        await until(lambda: weight() == before, "its value is undone")
        assert node.watermark == "150"


async def test_read_only_everything_is_decided_and_nothing_is_changed_or_reported(
    theirs, monkeypatch, caplog
):
    """With all gates, plugins and reports on: no write anywhere but to koordlet's own state."""
    monkeypatch.setattr(reporter, "_FIRST_WITHIN", 0.0)
    theirs["theirs"] = module(evict_all)
    settings = {
        "read_only": True,
        "memory_evict_cool_time_seconds": 0.0,
        "hook_plugins": ("all",),
        "node_topology_sync_interval": 0.1,
        "enable_nri_runtime_hook": True,
    }
    gates = sorted(DEFAULTS.keys() - {"Accelerators"})  # the machine's own, by a driver
    async with in_cluster(nodeslo(theirs="on")) as (api, cluster):
        for kind in (NODE_METRICS, NODE_TOPOLOGIES, DEVICES):
            api.put(kind, {"metadata": {"name": "n1"}})
        async with running({}, *gates, cluster=cluster, **settings) as node:
            before = len(node.node.files.writes)
            await until(lambda: bool(node.decisions(SYSTEM)), "ours decides")
            await until(lambda: "all pods go" in node.decisions("theirs"), "theirs decides")
            await until(lambda: len(node.decisions("theirs")) > 1, "the claim has an outcome")
            await asyncio.sleep(0.5)
            for name in ("theirs", SYSTEM):
                assert node.state(name).mode is StrategyMode.SHADOW
                assert node.metric("strategy_mode", name) == 1
            evictor = node.deciding.decider._evictor
            assert (evictor.recent(), evictor.evicting()) == ((), frozenset())
            assert evictor.why_not == "--read-only"
            assert node_document(node.agent._observing.observed)["read_only"]
            there = {one.name for one in node.node.directory.iterdir()}
            assert there <= {"slo.yaml", "pods.json", "state", "sys", VERBS}, "its own state alone"
    assert {one.verb for one in api.asked} <= {"get", "list", "watch"}
    assert len(node.node.files.writes) == before
    assert [one.fields["reason"] for one in caplog.records if one.message == "read-only"] == [
        READ_ONLY
    ]


async def test_a_dry_run_decides_everything_and_changes_nothing():
    settings = {"dry_run": True, "hook_plugins": ("all",), "enable_nri_runtime_hook": True}
    gates = sorted(DEFAULTS.keys() - {"Accelerators"})
    async with (
        in_cluster(nodeslo()) as (api, cluster),
        running({}, *gates, cluster=cluster, **settings) as node,
    ):
        before = len(node.node.files.writes)
        await until(lambda: node.unwritten.get(WATERMARK) == "150", "a strategy decides")
        assert node.state(SYSTEM).mode is StrategyMode.ON
        assert node.deciding.decider._evictor.why_not == "--dry-run"
        assert node_document(node.agent._observing.observed)["dry_run"]
        status = node.agent._status_document()
        assert (status["mode"], status["hooks"]["registration"]) == ("dry run", "")
        assert status["hooks"]["nri"]["reason"] == "off, with --dry-run"
        there = {one.name for one in node.node.directory.iterdir()}
        assert there <= {"slo.yaml", "pods.json", "state", "sys", VERBS}, "no socket of hooks"
        assert (node.watermark, len(node.node.files.writes)) == ("10", before)
        assert {one.verb for one in api.asked} <= {"get", "list", "watch"}


async def test_read_only_the_file_is_followed_all_the_same():
    async with running(nodeslo(), "SystemConfig", read_only=True) as node:
        await until(lambda: bool(node.decisions(SYSTEM)), "it decides")
        node.ask(nodeslo(200))
        said = ["vm.watermark_scale_factor is to be 200"]
        await until(lambda: node.decisions(SYSTEM) == said, "another NodeSLO counts")
        assert node.watermark == "10"


# ---- strategies that fail


def fail(*_: Any) -> Plan:
    raise ZeroDivisionError("percent of nothing")


def spin(seconds: float) -> Callable[..., Plan]:
    """Computes, with the interpreter's lock."""

    def plan(*_: Any) -> Plan:
        ends = time.thread_time() + seconds
        while time.thread_time() < ends:
            pass
        return Plan(decisions=(Decision("computed"),))

    return plan


_FAILED = "failed: ZeroDivisionError: percent of nothing", []
_LONG = "took more than 100 ms of CPU, runs less often", ["computed"]


@pytest.mark.parametrize(
    ("plan", "counts", "reason", "decided"),
    [
        pytest.param(fail, "failures", *_FAILED, id="fails"),
        pytest.param(spin(0.15), "overruns", *_LONG, id="takes too long"),
    ],
)
async def test_one_that_fails_costs_the_others_nothing(theirs, plan, counts, reason, decided):
    theirs["theirs"] = module(plan)
    async with running(nodeslo(), "SystemConfig") as node:
        await until(lambda: node.watermark == "150", "ours works")
        await until(lambda: getattr(node.state("theirs"), counts) > 1, "it fails, over and over")
        found = node.state("theirs")
        assert (found.reason, found.desired, node.decisions("theirs")) == (reason, 0, decided)
        assert node.metric(f"strategy_{counts}_total", "theirs") >= 2
        rounds = node.state(SYSTEM).rounds
        await until(lambda: node.state(SYSTEM).rounds > rounds, "ours goes on")
        assert getattr(node.state(SYSTEM), counts) == 0


async def test_hooks_are_answered_while_one_computes(theirs):
    """A strategy of pure Python shares the interpreter."""
    computes = threading.Event()

    def plan(*given: Any) -> Plan:
        computes.set()
        found = spin(1.5)(*given)
        computes.clear()
        return found

    theirs["theirs"] = module(plan)
    async with running(nodeslo(), "SystemConfig", hook_plugins=("all",)) as node:
        await until(lambda: node.agent._registration.written, "hooks are served")
        address = f"unix:{node.node.directory}/koordlet.sock"
        async with grpc.aio.insecure_channel(address) as channel:
            call = channel.unary_unary(
                rpc_path(PRE_RUN),
                request_serializer=request_type(PRE_RUN).SerializeToString,
                response_deserializer=response_type(PRE_RUN).FromString,
            )
            await call(sandbox(), timeout=PATIENCE)
            await until(computes.is_set, "it computes")
            took = []
            while computes.is_set():
                began = time.perf_counter()
                await call(sandbox(), timeout=PATIENCE)
                took.append(time.perf_counter() - began)
        assert len(took) >= 5, took
        assert sorted(took)[len(took) // 2] < 0.25, took


def sandbox() -> pb.PodSandboxHookRequest:
    request = pb.PodSandboxHookRequest(
        labels={"koordinator.sh/qosClass": "BE"},
        annotations={"node.koordinator.sh/resources": json.dumps({})},
        cgroup_parent="/kubepods/burstable/podasked-1",
    )
    request.pod_meta.name, request.pod_meta.uid = "asked", "asked-1"
    return request
