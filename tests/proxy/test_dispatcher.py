"""The failure contract: whatever hook servers do, what becomes of the call is known."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from koord_hooks.stages import Stage
from koord_proto import hook_pb2 as pb
from koord_proxy import dispatcher as dispatcher_module
from koord_proxy.dispatcher import Dispatcher, DispatchResult
from koord_proxy.hook_targets import HookError, HookServerTarget, NotSubscribedError
from koord_proxy.metrics import Metrics
from koord_proxy.rules.breaker import hook_breaker
from koord_proxy.rules.merge import Field, HookConflict
from koord_proxy.rules.registration import FailurePolicy, parse
from koord_service.breaker import Breaker, BreakerState

from tests.support import hook_server as peer
from tests.support.processes import PATIENCE
from tests.support.waiting import until

CREATE = Stage.PRE_CREATE_CONTAINER
STAGE = CREATE.value
DEADLINE = 0.3
SOONER = 14.0
"""Seconds in which one that was long given up is not probed by itself."""
CLOSED, HALF_OPEN, OPEN = BreakerState.CLOSED, BreakerState.HALF_OPEN, BreakerState.OPEN
UNREACHABLE = HookError("unavailable", "unreachable (so)", reached=False)


class _Over(Exception):
    """The test is over: what still runs is cancelled."""


class Dispatching(Dispatcher):
    """A dispatcher as tests use it."""

    async def create(self) -> DispatchResult:
        """Ask about the creation of a container."""
        return await self.ask(CREATE, hook_request())

    async def under_way(self, server: peer.HookServer) -> asyncio.Task[DispatchResult]:
        """Such a call that has come to a server."""
        call = asyncio.get_running_loop().create_task(self.create())
        await until(lambda: server.asked)
        return call

    def outcomes(self) -> dict[str, int]:
        """Counts by server and outcome."""
        return {
            f"{sample.labels['server']} {sample.labels['outcome']}": int(sample.value)
            for metric in self._metrics.hook_outcomes.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        }


@contextlib.asynccontextmanager
async def dispatching(*targets: Any) -> AsyncIterator[Dispatching]:
    try:
        async with asyncio.TaskGroup() as tasks:
            dispatcher = Dispatching(Metrics(), tasks)
            dispatcher.replace(targets)
            tasks.create_task(dispatcher.probe_forever())
            yield dispatcher
            for target in dispatcher.targets:
                await target.close()
            raise _Over
    except* _Over:
        pass


def hook_request() -> pb.ContainerResourceHookRequest:
    return pb.ContainerResourceHookRequest(
        pod_meta=pb.PodSandboxMetadata(name="job", namespace="batch"),
        container_meta=pb.ContainerMetadata(name="main"),
        container_envs={"SECRET": "hunter2"},
        container_resources=pb.LinuxContainerResources(cpu_shares=2),
        pod_cgroup_parent="/p",
    )


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    return [
        (record.getMessage(), record.fields)
        for record in caplog.records
        if hasattr(record, "fields")
    ]


@pytest.fixture(autouse=True)
def quick_probes(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pykoord")
    monkeypatch.setattr(dispatcher_module, "PROBE_SECONDS", 0.02)


async def never() -> bool:
    return False


def target_of(served: peer.HookServer, *, probed: bool = True, **more: object) -> HookServerTarget:
    file = {
        "remote-endpoint": str(served.socket),
        "runtime-hooks": list(Stage),
        # Lateness is set where it is meant: the machine may be late.
        "timeout": PATIENCE,
        **more,
    }
    target = HookServerTarget(parse(served.name, json.dumps(file).encode()))
    if not probed:
        target.probe = never  # type: ignore[method-assign]
    return target


def hanging(served: peer.HookServer, then: peer.Behaviour = peer.echo) -> threading.Event:
    """Have the server hang until the event is set."""
    event = threading.Event()
    served.behave = peer.waiting(event, then)
    return event


@dataclass(eq=False)
class Scripted:
    """A target that answers at once, with what the test says; with ``hangs`` not at all."""

    name: str
    answer: Any = None
    policy: FailurePolicy = FailurePolicy.IGNORE
    stages: frozenset[Stage] = frozenset(Stage)
    timeout: float | None = None
    waits: bool = True
    breaker: Breaker = field(default_factory=hook_breaker)
    alive: bool = True
    closed: bool = False
    asked: int = 0
    hangs: bool = False

    async def ask(self, stage: Stage, hook_request: Any) -> Any:
        self.asked += 1
        if self.hangs:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return pb.ContainerResourceHookResponse(container_resources=self.answer)

    async def probe(self) -> bool:
        return self.alive

    async def close(self) -> None:
        self.closed = True


def shares(number: int) -> pb.LinuxContainerResources:
    return pb.LinuxContainerResources(cpu_shares=number)


class TestAsking:
    async def test_nobody(self):
        async with dispatching() as dispatcher:
            before = hook_request()
            verdict = await dispatcher.ask(CREATE, before)
        assert verdict.merge.hook_request is before
        assert (verdict.asked, verdict.refusal, verdict.missed) == (0, "", [])

    async def test_all_in_order_each_sees_what_the_ones_before_changed(self, served, other):
        served.behave = peer.wishing(resources={"cpu_shares": 7}, envs={"A": "1"})
        async with dispatching(target_of(served), target_of(other)) as dispatcher:
            verdict = await dispatcher.create()
            assert dispatcher.outcomes() == {"a applied": 1, "b unchanged": 1}
            assert dispatcher._metrics.hook_seconds.labels("a", STAGE)._sum.get() > 0
        [second] = other.requests(CREATE)
        assert second.container_resources.cpu_shares == 7
        assert second.container_envs["A"] == "1"
        assert verdict.asked == 2
        claims = {Field("resources", "cpu_shares"): "a", Field("env", "A"): "a"}
        assert verdict.merge.claims == claims

    async def test_only_those_subscribed(self):
        targets = (
            Scripted("a", stages=frozenset({Stage.PRE_RUN_POD_SANDBOX})),
            Scripted("b", stages=frozenset({CREATE})),
        )
        async with dispatching(*targets) as dispatcher:
            assert dispatcher.subscribed[Stage.PRE_RUN_POD_SANDBOX] == targets[:1]
            await dispatcher.create()
        assert [target.asked for target in targets] == [0, 1]

    async def test_two_that_disagree(self, caplog):
        async with dispatching(Scripted("a", shares(7)), Scripted("b", shares(8))) as dispatcher:
            verdict = await dispatcher.create()
            assert dispatcher.outcomes() == {"a applied": 1, "b unchanged": 1}
        assert verdict.merge.hook_request.container_resources.cpu_shares == 7
        assert verdict.merge.conflicts == [HookConflict(Field("resources", "cpu_shares"), "a", "b")]
        assert events(caplog) == [
            (
                "hook servers conflict, keeping the first value",
                {
                    "stage": CREATE,
                    "field": "resources[cpu_shares]",
                    "kept": "a",
                    "overruled": "b",
                    "pod": "batch/job",
                    "container": "main",
                },
            )
        ]

    async def test_one_that_does_not_know_the_stage_is_passed_over(self):
        targets = Scripted("a", NotSubscribedError(), FailurePolicy.FAIL), Scripted("b")
        async with dispatching(*targets) as dispatcher:
            verdict = await dispatcher.create()
            assert dispatcher.outcomes() == {"a not_subscribed": 1, "b unchanged": 1}
        assert (verdict.asked, verdict.refusal, verdict.missed) == (1, "", [])

    async def test_many_calls_at_once_over_several_connections(self, served):
        served.behave = peer.wishing(resources={"cpu_shares": 7})
        async with dispatching(target_of(served, connections=4)) as dispatcher:
            verdicts = await asyncio.gather(*(dispatcher.create() for _ in range(50)))
            assert dispatcher.outcomes() == {"a applied": 50}
        assert all(one.merge.hook_request.container_resources.cpu_shares == 7 for one in verdicts)

    async def test_a_defect_in_a_target_is_the_calls_own(self):
        target = Scripted("a", KeyError("defect"), timeout=5)
        async with dispatching(target) as dispatcher:
            with pytest.raises(KeyError):
                await dispatcher.create()
            # The others live on.
            target.answer = None
            assert (await dispatcher.create()).asked == 1


@pytest.mark.parametrize(
    "error",
    [
        HookError("timeout", "no answer within 0.3 s", reached=False),
        UNREACHABLE,
        HookError("garbage", "the response is not a valid hook response", reached=True),
        HookError("refused", "FAILED_PRECONDITION: not today", reached=True),
    ],
    ids=lambda error: error.outcome,
)
@pytest.mark.parametrize("policy", list(FailurePolicy))
async def test_what_becomes_of_a_call_that_fails(error, policy, caplog):
    hangs = error.outcome == "timeout"
    timeout = DEADLINE if hangs else None
    one = Scripted("a", error, policy, alive=False, hangs=hangs, timeout=timeout)
    other = Scripted("b", shares(7))
    async with dispatching(one, other) as dispatcher:
        before = time.time()
        verdict = await dispatcher.create()
        counted = dispatcher.outcomes()
    assert counted[f"a {error.outcome}"] == 1
    assert one.breaker.state is (CLOSED if error.reached else OPEN)
    said = dict(events(caplog))
    assert said["hook not applied"] == {
        "server": "a",
        "stage": CREATE,
        "outcome": error.outcome,
        "error": str(error),
        "policy": policy.value,
        "pod": "batch/job",
        "container": "main",
    }
    assert ("hook server unavailable, skipping it until it answers" in said) is not error.reached
    assert "hunter2" not in caplog.text + str(said)
    if policy is FailurePolicy.FAIL:
        # Nobody else is asked: the call will not be made.
        assert (other.asked, verdict.missed) == (0, [])
        assert verdict.refusal == (
            f"koord-runtime-proxy: hook server a at {STAGE}: {error} (its failure policy is Fail)"
        )
    else:
        assert verdict.refusal == ""
        assert verdict.merge.hook_request.container_resources.cpu_shares == 7
        [missed] = verdict.missed
        assert (missed.stage, missed.server, missed.reason) == (STAGE, "a", str(error))
        assert before <= missed.at <= time.time()


async def test_after_a_call_there_is_nothing_to_refuse():
    away = HookError("timeout", "no answer", reached=True)
    targets = Scripted("a", away, FailurePolicy.FAIL), Scripted("b")
    async with dispatching(*targets) as dispatcher:
        verdict = await dispatcher.ask(Stage.POST_STOP_CONTAINER, hook_request())
    assert verdict.refusal == ""
    assert [missed.server for missed in verdict.missed] == ["a"]
    assert targets[1].asked == 1


class TestBreaker:
    async def test_only_one_call_pays_the_deadline(self, caplog):
        target = Scripted("a", policy=FailurePolicy.FAIL, timeout=DEADLINE, alive=False, hangs=True)
        async with dispatching(target) as dispatcher:
            await dispatcher.create()
            caplog.clear()
            started = time.monotonic()
            verdicts = [await dispatcher.create() for _ in range(20)]
            assert time.monotonic() - started < len(verdicts) * DEADLINE
            assert dispatcher.outcomes() == {"a timeout": 1, "a skipped": 20}
            assert dispatcher.breakers() == {"a": OPEN.value}
        assert target.asked == 1
        refusal = "koord-runtime-proxy: hook server a at PreCreateContainer: unreachable"
        assert {verdict.refusal.partition(" (")[0] for verdict in verdicts} == {refusal}
        # Skipped calls are counted, and not logged each.
        assert events(caplog) == []

    async def test_skipped_calls_are_noted(self):
        target = Scripted("a", UNREACHABLE, alive=False)
        async with dispatching(target) as dispatcher:
            await dispatcher.create()
            verdict = await dispatcher.create()
        [missed] = verdict.missed
        assert (missed.server, missed.reason) == ("a", "unreachable")

    async def test_it_is_asked_again_once_it_answers(self, served, caplog):
        target = target_of(served)
        async with dispatching(target) as dispatcher:
            served.die()
            await dispatcher.create()
            assert target.breaker.state is OPEN
            served.start()
            await until(lambda: target.breaker.state is HALF_OPEN)
            await dispatcher.create()
            assert target.breaker.state is CLOSED
            assert dispatcher.outcomes() == {"a unavailable": 1, "a unchanged": 1}
        assert ("hook server available again", {"server": "a"}) in events(caplog)

    async def test_one_trial_when_half_open(self):
        target = Scripted("a", timeout=DEADLINE, hangs=True)
        async with dispatching(target) as dispatcher:
            await dispatcher.create()
            # Its probe is answered although it hangs.
            await until(lambda: target.breaker.state is HALF_OPEN)
            verdicts = await asyncio.gather(*(dispatcher.create() for _ in range(5)))
            assert dispatcher.outcomes() == {"a timeout": 2, "a skipped": 4}
            assert target.breaker.state is OPEN
        assert [missed.reason for verdict in verdicts for missed in verdict.missed] == [
            "no answer within 0.3 s",
            *["unreachable"] * 4,
        ]

    async def test_a_late_answer_is_dropped_counted_and_a_sign_of_life(self, served, caplog):
        event = hanging(served, peer.wishing(resources={"cpu_shares": 7}))
        target = target_of(served, timeout=DEADLINE, probed=False)
        async with dispatching(target) as dispatcher:
            verdict = await dispatcher.create()
            assert len(verdict.missed) == 1
            event.set()
            await until(lambda: "a late" in dispatcher.outcomes())
            assert target.breaker.state is HALF_OPEN
            assert dispatcher.outcomes() == {"a timeout": 1, "a late": 1}
            assert verdict.merge.hook_request.container_resources.cpu_shares == 2
            assert verdict.merge.claims == {}
        late = ("late hook answer dropped", {"server": "a", "stage": CREATE})
        assert events(caplog)[-1] == late

    async def test_a_server_that_dies_after_the_deadline_says_nothing_late(self, served):
        hanging(served)
        target = target_of(served, timeout=DEADLINE, probed=False)
        async with dispatching(target) as dispatcher:
            await dispatcher.create()
            await asyncio.to_thread(served.die)
            await asyncio.sleep(0.05)
            assert dispatcher.outcomes() == {"a timeout": 1}
            assert target.breaker.state is OPEN

    async def test_a_refusal_closes_it(self):
        target = Scripted("a", HookError("refused", "no", reached=True))
        target.breaker.failed(0)
        target.breaker.probe_answered()
        async with dispatching(target) as dispatcher:
            await dispatcher.create()
        assert target.breaker.state is CLOSED

    async def test_a_probe_that_fails_waits_for_the_next(self):
        target = Scripted("a", alive=False)
        target.breaker.failed(-100)
        async with dispatching(target):
            await until(lambda: not target.breaker.probe_due(time.monotonic()))
            assert target.breaker.state is OPEN

    async def test_one_that_hangs_does_not_keep_the_others_from_being_probed(self):
        hung, back = Scripted("a"), Scripted("b")
        forever = asyncio.Event()
        hung.probe = forever.wait
        for target in (hung, back):
            target.breaker.failed(-100)
        async with dispatching(hung, back):
            await until(lambda: back.breaker.state is HALF_OPEN)
            assert hung.breaker.state is OPEN
            forever.set()

    async def test_probes_go_on_though_one_is_closed_meanwhile(self, served, other):
        closed, away = target_of(other), target_of(served)
        for target in (closed, away):
            target.breaker.failed(-100)
        await closed.close()
        async with dispatching(closed, away):
            await until(lambda: away.breaker.state is HALF_OPEN)
            assert closed.breaker.state is OPEN


class TestOutage:
    """Of a server that stays away: one line, and what went without it in numbers."""

    def lines(self, caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
        warned = [one for one in caplog.records if one.levelno >= logging.WARNING]
        return [(one.getMessage(), one.fields) for one in warned]

    async def test_it_is_logged_once_and_counted(self, caplog, monkeypatch):
        gone = Scripted("gone", UNREACHABLE, alive=True)
        async with dispatching(gone) as dispatcher:
            for number in range(30):
                asked = hook_request()
                asked.pod_meta.uid = str(number % 3)
                # Each is a trial that fails: the server answers probes, and no calls.
                gone.breaker.probe_answered()
                verdict = await dispatcher.ask(CREATE, asked)
                assert len(verdict.missed) == 1
                assert verdict.expected == (number > 0)
            assert [line for line, _ in self.lines(caplog)] == [
                "hook server unavailable, skipping it until it answers",
                "hook not applied",
            ]
            caplog.clear()
            monkeypatch.setattr(dispatcher_module, "REMIND_SECONDS", 0.0)
            await until(lambda: self.lines(caplog))
            monkeypatch.setattr(dispatcher_module, "REMIND_SECONDS", 600.0)
            line, fields = self.lines(caplog)[0]
            assert line == "hook server still unavailable"
            assert (fields["server"], fields["calls"], fields["pods"]) == ("gone", 30, 3)
            caplog.clear()
            gone.answer = None
            gone.breaker.probe_answered()
            await dispatcher.create()
        again = [fields for line, fields in events(caplog) if "has answered" in line]
        assert [(one["calls"], one["pods"]) for one in again] == [(30, 3)]

    async def test_another_servers_misses_are_lines_of_their_own(self, caplog):
        gone, other = Scripted("gone", UNREACHABLE), Scripted("other")
        async with dispatching(gone, other) as dispatcher:
            await dispatcher.create()
            caplog.clear()
            other.answer = UNREACHABLE
            verdict = await dispatcher.create()
            assert (len(verdict.missed), verdict.expected) == (2, 1)
        assert [fields["server"] for _, fields in self.lines(caplog)] == ["other", "other"]


class TestRegisteredAnew:
    """Whoever writes its registration again has most likely just begun to serve."""

    def gone(self, name: str, **more: Any) -> Scripted:
        """One that was long given up."""
        target, now = Scripted(name, **more), time.monotonic()
        target.breaker.failed(now)
        for _ in range(10):
            target.breaker.probe_failed(now)
        assert not target.breaker.probe_due(now + SOONER)
        return target

    async def test_it_is_probed_at_once(self, caplog):
        """Only it, and only if it was given up."""
        targets = self.gone("gone"), self.gone("other"), Scripted("well")
        async with dispatching(*targets) as dispatcher:
            dispatcher.probe_now({"gone", "well", "nobody"})
            await until(lambda: targets[0].breaker.state is HALF_OPEN, SOONER)
            assert [target.breaker.state for target in targets] == [HALF_OPEN, OPEN, CLOSED]
        assert events(caplog) == [("hook server available again", {"server": "gone"})]

    async def test_one_that_is_not_there_yet_is_probed_again_soon(self):
        target = self.gone("a", alive=False)
        async with dispatching(target) as dispatcher:
            dispatcher.probe_now({"a"})
            await asyncio.sleep(0.05)
            assert target.breaker.state is OPEN
            target.alive = True
            await until(lambda: target.breaker.state is HALF_OPEN, SOONER)


@pytest.mark.parametrize("trial", [False, True])
async def test_a_call_given_up_cancels_the_hook_call(served, trial):
    hanging(served)
    target = target_of(served)
    if trial:
        target.breaker.failed(0)
        target.breaker.probe_answered()
    async with dispatching(target) as dispatcher:
        call = await dispatcher.under_way(served)
        assert bool(target.breaker.admit()) is not trial
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: served.cancelled)
        assert dispatcher.outcomes() == {"a cancelled": 1}
        assert target.breaker.state is (HALF_OPEN if trial else CLOSED)
        # A trial may be made again.
        assert target.breaker.admit()


class GoneError(BaseException):
    """Neither an error of a hook server nor one of Python's ordinary ones."""


@pytest.mark.parametrize(
    "end",
    [KeyError("defect"), asyncio.InvalidStateError(), GoneError(), GeneratorExit()],
    ids=repr,
)
@pytest.mark.parametrize("policy", list(FailurePolicy))
async def test_whatever_ends_a_trial_the_next_call_is_one(policy, end):
    """It is asked within the call, so that any exception comes through."""
    target = Scripted("a", policy=policy)
    target.breaker.failed(time.monotonic())
    target.breaker.probe_answered()
    ask = target.ask

    async def ending(*_: object) -> None:
        raise end

    target.ask = ending  # type: ignore[method-assign]
    async with dispatching(target) as dispatcher:
        with pytest.raises(type(end)):
            await dispatcher.create()
        target.ask = ask  # type: ignore[method-assign]
        assert (await dispatcher.create()).asked == 1
        assert target.breaker.state is CLOSED


async def test_a_target_replaced_while_a_trial_runs_bars_nobody(served):
    hanging(served)
    target = target_of(served)
    target.breaker.failed(time.monotonic())
    target.breaker.probe_answered()
    async with dispatching(target) as dispatcher:
        call = await dispatcher.under_way(served)
        dispatcher.replace([])
        await target.close()
        assert len((await call).missed) == 1
        assert target.breaker.probe_due(time.monotonic() + 1)


async def test_a_defect_in_a_probe_ends_no_others():
    broken, back = Scripted("a"), Scripted("b")

    async def probe() -> bool:
        raise KeyError("defect")

    broken.probe = probe  # type: ignore[method-assign]
    for target in (broken, back):
        target.breaker.failed(-100)
    async with dispatching(broken, back):
        await until(lambda: back.breaker.state is HALF_OPEN)
        assert broken.breaker.state is OPEN


class TestReplacing:
    async def test_those_left_out_are_closed_after_their_deadline(self):
        gone, stays = Scripted("a", timeout=0.1), Scripted("b")
        async with dispatching(gone, stays) as dispatcher:
            dispatcher.replace([stays])
            assert dispatcher.targets == dispatcher.subscribed[CREATE] == (stays,)
            await asyncio.sleep(0)
            assert not gone.closed
            await until(lambda: gone.closed)
            assert not stays.closed

    async def test_a_call_under_way_ends_with_those_it_began_with(self, served, other):
        event = hanging(served)
        targets = target_of(served), target_of(other)
        async with dispatching(*targets) as dispatcher:
            call = await dispatcher.under_way(served)
            dispatcher.replace(targets[:1])
            event.set()
            assert (await call).asked == 2
        assert len(other.asked) == 1

    @pytest.mark.parametrize("policy", ["Ignore", "Fail"])
    async def test_one_closed_before_its_turn_is_away(self, served, other, policy):
        event = hanging(served)
        gone = target_of(other, timeout=0.01, **{"failure-policy": policy})
        closed = asyncio.Event()
        close = gone.close

        async def noted() -> None:
            await close()
            closed.set()

        gone.close = noted
        async with dispatching(target_of(served), gone) as dispatcher:
            call = await dispatcher.under_way(served)
            dispatcher.replace(dispatcher.targets[:1])
            await asyncio.wait_for(closed.wait(), PATIENCE)
            event.set()
            verdict = await call
            assert dispatcher.outcomes() == {"a unchanged": 1, "b unavailable": 1}
        assert bool(verdict.refusal) is (policy == "Fail")

    async def test_one_closed_while_it_is_asked_is_away(self, served):
        hanging(served)
        target = target_of(served)
        async with dispatching(target) as dispatcher:
            call = await dispatcher.under_way(served)
            await target.close()
            [missed] = (await call).missed
        assert missed.reason == "no longer registered"
