"""Hook servers that were away are asked again, and what they want then is set."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from koord_hooks.stages import Stage
from koord_model.patch import Patch
from koord_model.resources import LinuxResources
from koord_proto import cri_pb2 as cri
from koord_proto import hook_pb2 as pb
from koord_proxy import repairer
from koord_proxy.contract.runtime_client import RuntimeCallError
from koord_proxy.cri.calls import CriApi
from koord_proxy.dispatcher import Dispatcher
from koord_proxy.docker.calls import DockerApi
from koord_proxy.hook_targets import HookError
from koord_proxy.interceptor import SkipRule
from koord_proxy.metrics import Metrics
from koord_proxy.repairer import Repairer, missed_when_made
from koord_proxy.rules.records import MissedHookCall, RecordKind, RuntimeRecord
from koord_proxy.rules.registration import FailurePolicy
from koord_proxy.store import RecordStore

from tests.support.interception import SKIP, Hooks

AWAY = HookError("unavailable", "away", reached=False)
SHARES = Patch(resources=LinuxResources(cpu_shares=7))


def missed(stage: Stage = Stage.PRE_CREATE_CONTAINER, server: str = "hooks") -> MissedHookCall:
    return MissedHookCall(stage.value, server, "away", 1700000000.5)


def container(*went_without: MissedHookCall) -> RuntimeRecord:
    hook_request = pb.ContainerResourceHookRequest(
        pod_meta={"name": "job", "namespace": "batch"},
        container_meta={"name": "main", "id": "c"},
        container_resources={"cpu_shares": 2, "cpu_period": 100_000},
    )
    return RuntimeRecord(
        RecordKind.CONTAINER, "c", hook_request, "s", list(went_without) or [missed()]
    )


def pod(*went_without: MissedHookCall) -> RuntimeRecord:
    hook_request = pb.PodSandboxHookRequest(pod_meta={"name": "job", "namespace": "batch"})
    marks = list(went_without) or [missed(Stage.PRE_RUN_POD_SANDBOX)]
    return RuntimeRecord(RecordKind.POD, "s", hook_request, missed=marks)


class FakeRuntime:
    """Takes updates, or fails, or lets something happen in between."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, bytes]] = []
        self.error: Exception | None = None
        self.meanwhile: Callable[[], None] = lambda: None

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def update(self, name: str, message: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.updates.append((name, message))
        self.meanwhile()


class Bench:
    def __init__(self, *hooks: Hooks, docker: bool = False) -> None:
        self.store = RecordStore("")
        self.hooks = hooks[0]
        self.dispatcher = Dispatcher(Metrics(), asyncio.TaskGroup())
        self.dispatcher.replace(hooks)
        self.runtime = FakeRuntime()
        self.repairer = Repairer(
            api=DockerApi(self.store) if docker else CriApi(),
            store=self.store,
            dispatcher=self.dispatcher,
            connect=lambda: self.runtime,
        )

    async def repaired(self, record: RuntimeRecord) -> RuntimeRecord:
        self.store.put(record)
        await self.repairer.look()
        return record

    @property
    def asked(self) -> list[Stage]:
        return [stage for stage, _ in self.hooks.asked]

    @property
    def limits(self) -> list[Any]:
        """What the runtime was asked to set, as CRI has it."""
        parse = cri.UpdateContainerResourcesRequest.FromString
        return [parse(message).linux for _, message in self.runtime.updates]


async def test_limits_are_set_and_remembered():
    bench = Bench(Hooks(wants=SHARES))
    record = await bench.repaired(container())
    assert bench.asked == [Stage.PRE_CREATE_CONTAINER]
    assert bench.limits == [cri.LinuxContainerResources(cpu_shares=7, cpu_period=100_000)]
    assert record.missed == []
    assert record.hook_request.container_resources.cpu_shares == 7
    await bench.repairer.look()
    assert len(bench.asked) == 1


async def test_dockers_too():
    bench = Bench(Hooks(wants=SHARES), docker=True)
    record = await bench.repaired(container())
    assert bench.runtime.updates == [("c", b'{"CpuShares":7}')]
    assert record.missed == []


@pytest.mark.parametrize(
    ("make", "stages", "wants"),
    [
        (container, [Stage.PRE_CREATE_CONTAINER], Patch()),
        (
            container,
            [Stage.PRE_CREATE_CONTAINER, Stage.PRE_START_CONTAINER, Stage.POST_START_CONTAINER],
            Patch(),
        ),
        (pod, [Stage.PRE_RUN_POD_SANDBOX], Patch()),
        # Hooks that come after change nothing.
        (container, [Stage.POST_START_CONTAINER], SHARES),
    ],
)
async def test_asked_in_order_and_nothing_is_set_where_nothing_is_wanted(make, stages, wants):
    bench = Bench(Hooks(wants=wants))
    record = await bench.repaired(make(*map(missed, stages)))
    assert bench.asked == stages
    assert (record.missed, bench.runtime.updates) == ([], [])
    assert make is pod or record.hook_request.container_resources.cpu_shares == 2


@pytest.mark.parametrize(
    ("make", "wants", "left_out"),
    [
        (container, Patch(resources=SHARES.resources, env={"A": "hunter2"}), "env[A]"),
        (pod, Patch(annotations={"a": "1"}), "annotations[a]"),
    ],
)
async def test_what_cannot_be_changed_any_more_stays_named(make, wants, left_out):
    bench = Bench(Hooks(wants=wants))
    record = await bench.repaired(make())
    [left] = record.missed
    assert (left.stage, left.server, left.at) == (bench.asked[0], "hooks", missed().at)
    assert left_out in left.reason
    assert "hunter2" not in left.reason
    if make is container:
        assert record.hook_request.container_resources.cpu_shares == 7
        assert dict(record.hook_request.container_envs) == {}
    else:
        assert dict(record.hook_request.annotations) == {}
    # Said once, nobody is asked again.
    await bench.repairer.look()
    assert len(bench.asked) == 1


async def test_only_those_who_missed_it_are_asked():
    other = Hooks("other")
    bench = Bench(Hooks(wants=SHARES), other)
    await bench.repaired(container())
    assert other.asked == []


@pytest.mark.parametrize("server", ["nobody", "in-process"])
async def test_no_other_server_is_asked(server):
    bench = Bench(Hooks(), Hooks("in-process", waits=False))
    record = await bench.repaired(container(missed(server=server)))
    assert len(record.missed) == 1


@pytest.mark.parametrize("policy", list(FailurePolicy))
@pytest.mark.parametrize("wants", [SHARES, AWAY], ids=["away", "goes away again"])
async def test_one_that_is_away_is_waited_for(policy, wants):
    bench = Bench(Hooks(wants=wants, policy=policy))
    if wants is SHARES:
        bench.hooks.breaker.failed(0)
    record = await bench.repaired(container())
    assert (len(bench.asked), len(record.missed)) == (int(wants is AWAY), 1)
    bench.hooks.wants = SHARES
    bench.hooks.breaker.probe_answered()
    await bench.repairer.look()
    assert record.missed == []


@pytest.mark.parametrize("error", [RuntimeCallError("exited"), KeyError("defect")])
async def test_a_runtime_that_refuses_is_asked_again_later(error, monkeypatch):
    bench = Bench(Hooks(wants=SHARES))
    bench.runtime.error = error
    other = container(missed(Stage.POST_START_CONTAINER))
    other.id = "d"
    bench.store.put(other)
    record = await bench.repaired(container())
    assert record.missed == [missed()]
    assert record.hook_request.container_resources.cpu_shares == 2
    # Others do not wait for it.
    assert other.missed == []
    asked = len(bench.asked)
    bench.runtime.error = None
    await bench.repairer.look()
    assert len(bench.asked) == asked
    later = time.monotonic() + repairer.FIRST_PAUSE
    monkeypatch.setattr(time, "monotonic", lambda: later)
    await bench.repairer.look()
    assert record.missed == []


async def test_an_update_of_the_clients_in_between_counts():
    bench = Bench(Hooks(wants=SHARES))
    record = container()
    theirs = pb.ContainerResourceHookRequest(container_resources={"cpu_shares": 99})

    def update() -> None:
        record.hook_request = theirs
        bench.runtime.meanwhile = lambda: None

    bench.runtime.meanwhile = update
    await bench.repaired(record)
    assert record.hook_request is theirs
    assert len(record.missed) == 1
    # It is looked at again, with what holds now.
    bench.hooks.wants = Patch()
    await bench.repairer.look()
    assert bench.hooks.asked[-1][1].container_resources.cpu_shares == 99
    assert record.missed == []


async def test_one_that_has_ended_is_not_brought_back():
    bench = Bench(Hooks(wants=SHARES))
    bench.runtime.meanwhile = lambda: bench.store.drop(RecordKind.CONTAINER, "c")
    await bench.repaired(container())
    assert bench.store.records(RecordKind.CONTAINER) == []


class TestWhenMade:
    """What something went without that was made while the proxy did not look."""

    def stages(self, record: RuntimeRecord, hooks: Hooks, skip: str = "") -> list[tuple[str, str]]:
        found = missed_when_made(Bench(hooks).dispatcher, SkipRule(skip, "true"), record)
        return [(one.stage, one.server) for one in found]

    async def test_the_stages_of_its_making_that_somebody_wants(self):
        everything = Hooks()
        assert self.stages(pod(), everything) == [("PreRunPodSandbox", "hooks")]
        assert self.stages(container(), everything) == [
            ("PreCreateContainer", "hooks"),
            ("PostStartContainer", "hooks"),
        ]
        few = Hooks(stages=frozenset({Stage.POST_START_CONTAINER}))
        assert self.stages(pod(), few) == []
        assert self.stages(container(), few) == [("PostStartContainer", "hooks")]

    async def test_none_of_exempt_pods(self):
        record = pod()
        record.hook_request.labels[SKIP] = "true"
        assert self.stages(record, Hooks(), SKIP) == []

    async def test_none_of_plugins_in_here(self):
        assert self.stages(pod(), Hooks(waits=False)) == []
