"""The failure contract: whatever hook servers do, what becomes of the call is known."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from koord_hooks.stages import Stage
from koord_proto import hook_pb2 as pb
from koord_proxy import dispatcher as dispatcher_module
from koord_proxy.dispatcher import Dispatcher
from koord_proxy.hook_targets import HookError, HookServerTarget, NotSubscribedError
from koord_proxy.metrics import Metrics
from koord_proxy.rules.breaker import Breaker, BreakerState
from koord_proxy.rules.merge import Field, HookConflict
from koord_proxy.rules.registration import FailurePolicy, parse

from tests.support import hook_server as peer
from tests.support.processes import PATIENCE
from tests.support.waiting import until

CREATE = Stage.PRE_CREATE_CONTAINER
STAGE = CREATE.value
DEADLINE = 0.3
SOONER = 14.0
"""Seconds in which one that was long given up is not probed by itself."""


class _Over(Exception):
    """The test is over: what still runs is cancelled."""


@contextlib.asynccontextmanager
async def dispatching(*targets: Any) -> AsyncIterator[Dispatcher]:
    try:
        async with asyncio.TaskGroup() as tasks:
            dispatcher = Dispatcher(Metrics(), tasks)
            dispatcher.replace(targets)
            tasks.create_task(dispatcher.probe_forever())
            yield dispatcher
            for target in dispatcher.targets:
                await target.close()
            raise _Over
    except* _Over:
        pass


def facts(**resources: int) -> pb.ContainerResourceHookRequest:
    return pb.ContainerResourceHookRequest(
        pod_meta=pb.PodSandboxMetadata(name="job", namespace="batch"),
        container_meta=pb.ContainerMetadata(name="main"),
        container_envs={"SECRET": "hunter2"},
        container_resources=pb.LinuxContainerResources(cpu_shares=2, **resources),
        pod_cgroup_parent="/p",
    )


def outcomes(dispatcher: Dispatcher) -> dict[str, int]:
    """Counts by server and outcome."""
    return {
        f"{sample.labels['server']} {sample.labels['outcome']}": int(sample.value)
        for metric in dispatcher._metrics.hook_outcomes.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    return [
        (record.getMessage(), record.fields)
        for record in caplog.records
        if hasattr(record, "fields")
    ]


@pytest.fixture(autouse=True)
def seen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pykoord")


@pytest.fixture(autouse=True)
def quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher_module, "PROBE_SECONDS", 0.02)


def target_of(served: peer.HookServer, **more: object) -> HookServerTarget:
    file = {
        "remote-endpoint": str(served.socket),
        "runtime-hooks": list(Stage),
        # Who is meant to be late is told so: the machine may be.
        "timeout": PATIENCE,
        **more,
    }
    return HookServerTarget(parse(served.name, json.dumps(file).encode()))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[peer.HookServer]:
    with peer.HookServer(tmp_path, "a") as server:
        yield server


@pytest.fixture
def other(tmp_path: Path) -> Iterator[peer.HookServer]:
    with peer.HookServer(tmp_path, "b") as server:
        yield server


@dataclass(eq=False)
class Scripted:
    """A target that answers at once, with what the test says."""

    name: str
    answer: Any = None
    policy: FailurePolicy = FailurePolicy.IGNORE
    stages: frozenset[Stage] = frozenset(Stage)
    timeout: float | None = None
    waits: bool = True
    breaker: Breaker = field(default_factory=Breaker)
    alive: bool = True
    closed: bool = False
    asked: int = 0

    async def ask(self, stage: Stage, facts: Any) -> Any:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return pb.ContainerResourceHookResponse(container_resources=self.answer)

    async def probe(self) -> bool:
        return self.alive

    async def close(self) -> None:
        self.closed = True


class TestAsking:
    async def test_nobody(self):
        async with dispatching() as dispatcher:
            before = facts()
            verdict = await dispatcher.ask(CREATE, before)
        assert verdict.merge.facts is before
        assert (verdict.asked, verdict.refusal, verdict.missed) == (0, "", [])

    async def test_all_in_order_each_sees_what_the_ones_before_changed(self, served, other):
        served.behave = peer.wishing(resources={"cpu_shares": 7}, envs={"A": "1"})
        async with dispatching(target_of(served), target_of(other)) as dispatcher:
            verdict = await dispatcher.ask(CREATE, facts())
            assert outcomes(dispatcher) == {"a applied": 1, "b unchanged": 1}
        [second] = other.requests(CREATE)
        assert second.container_resources.cpu_shares == 7
        assert second.container_envs["A"] == "1"
        assert verdict.asked == 2
        assert verdict.merge.claims == {
            Field("resources", "cpu_shares"): "a",
            Field("env", "A"): "a",
        }
        assert dispatcher._metrics.hook_seconds.labels("a", STAGE)._sum.get() > 0

    async def test_only_those_subscribed(self, served, other):
        targets = (
            target_of(served, **{"runtime-hooks": ["PreRunPodSandbox"]}),
            target_of(other, **{"runtime-hooks": ["PreCreateContainer"]}),
        )
        async with dispatching(*targets) as dispatcher:
            assert dispatcher.subscribed[Stage.PRE_RUN_POD_SANDBOX] == targets[:1]
            await dispatcher.ask(CREATE, facts())
        assert served.asked == []
        assert len(other.asked) == 1

    async def test_two_that_disagree(self, caplog):
        wanted = [pb.LinuxContainerResources(cpu_shares=shares) for shares in (7, 8)]
        targets = [Scripted(name, answer) for name, answer in zip("ab", wanted, strict=True)]
        async with dispatching(*targets) as dispatcher:
            verdict = await dispatcher.ask(CREATE, facts())
            assert outcomes(dispatcher) == {"a applied": 1, "b unchanged": 1}
        assert verdict.merge.facts.container_resources.cpu_shares == 7
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
            verdict = await dispatcher.ask(CREATE, facts())
            assert outcomes(dispatcher) == {"a not_subscribed": 1, "b unchanged": 1}
        assert (verdict.asked, verdict.refusal, verdict.missed) == (1, "", [])


def hanging(served: peer.HookServer) -> threading.Event:
    """Have the server hang until the event is set."""
    event = threading.Event()
    served.behave = peer.waiting(event)
    return event


TROUBLES = {
    # What the server does; the outcome; what is said; whether it answered at all.
    "hung": (hanging, "timeout", "no answer within 0.3 s", False),
    "gone": (lambda served: served.die(), "unavailable", "unreachable (", False),
    "garbage": (
        lambda served: setattr(served, "behave", peer.garbage),
        "garbage",
        "the response is not a valid hook response",
        True,
    ),
    "refusing": (
        lambda served: setattr(served, "behave", peer.refusing),
        "refused",
        "FAILED_PRECONDITION: not today",
        True,
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
class TestTrouble:
    async def test_what_becomes_of_the_call(self, served, other, trouble, policy, caplog):
        cause, outcome, text, reached = TROUBLES[trouble]
        cause(served)
        other.behave = peer.wishing(resources={"cpu_shares": 7})
        more = {"timeout": DEADLINE} if outcome == "timeout" else {}
        targets = target_of(served, **{"failure-policy": policy, **more}), target_of(other)
        targets[0].probe = never
        async with dispatching(*targets) as dispatcher:
            started = time.monotonic()
            before = time.time()
            verdict = await dispatcher.ask(CREATE, facts())
            assert time.monotonic() - started < PATIENCE
            breaker = targets[0].breaker.state
            counted = outcomes(dispatcher)
        assert counted[f"a {outcome}"] == 1
        assert breaker is (BreakerState.CLOSED if reached else BreakerState.OPEN)
        said = dict(events(caplog))
        assert said["hook not applied"]["outcome"] == outcome
        assert said["hook not applied"]["policy"] == policy
        assert said["hook not applied"]["pod"] == "batch/job"
        assert ("hook server unavailable, skipping it until it answers" in said) is not reached
        assert "hunter2" not in caplog.text + str(said)
        if policy == "Fail":
            # Nobody else is asked: the call will not be made.
            assert other.asked == []
            assert verdict.missed == []
            start = f"koord-runtime-proxy: hook server a at {STAGE}: {text}"
            assert verdict.refusal.startswith(start)
            assert verdict.refusal.endswith(" (its failure policy is Fail)")
        else:
            assert verdict.refusal == ""
            assert verdict.merge.facts.container_resources.cpu_shares == 7
            [missed] = verdict.missed
            assert (missed.stage, missed.server) == (STAGE, "a")
            assert missed.reason.startswith(text)
            assert before <= missed.at <= time.time()


async def test_after_a_call_there_is_nothing_to_refuse():
    away = HookError("timeout", "no answer", reached=True)
    targets = Scripted("a", away, FailurePolicy.FAIL), Scripted("b")
    async with dispatching(*targets) as dispatcher:
        verdict = await dispatcher.ask(Stage.POST_STOP_CONTAINER, facts())
    assert verdict.refusal == ""
    assert [missed.server for missed in verdict.missed] == ["a"]
    assert targets[1].asked == 1


class TestBreaker:
    async def test_only_one_call_pays_the_deadline(self, served):
        hanging(served)
        target = target_of(served, **{"failure-policy": "Fail", "timeout": DEADLINE})
        target.probe = never
        async with dispatching(target) as dispatcher:
            await dispatcher.ask(CREATE, facts())
            started = time.monotonic()
            verdicts = [await dispatcher.ask(CREATE, facts()) for _ in range(20)]
            assert time.monotonic() - started < len(verdicts) * DEADLINE
            assert outcomes(dispatcher) == {"a timeout": 1, "a skipped": 20}
            assert dispatcher.breakers() == {"a": BreakerState.OPEN.value}
        assert len(served.asked) == 1
        refusal = "koord-runtime-proxy: hook server a at PreCreateContainer: unreachable"
        assert {verdict.refusal.partition(" (")[0] for verdict in verdicts} == {refusal}

    async def test_skipped_calls_are_noted_and_not_said_aloud(self, caplog):
        target = Scripted("a", HookError("unavailable", "unreachable", reached=False), alive=False)
        async with dispatching(target) as dispatcher:
            await dispatcher.ask(CREATE, facts())
            caplog.clear()
            verdict = await dispatcher.ask(CREATE, facts())
        assert [(missed.server, missed.reason) for missed in verdict.missed] == [
            ("a", "unreachable")
        ]
        assert events(caplog) == []

    async def test_it_is_asked_again_once_it_answers(self, served, caplog):
        target = target_of(served)
        async with dispatching(target) as dispatcher:
            served.die()
            await dispatcher.ask(CREATE, facts())
            await dispatcher.ask(CREATE, facts())
            assert target.breaker.state is BreakerState.OPEN
            served.start()
            await until(lambda: target.breaker.state is BreakerState.HALF_OPEN)
            await dispatcher.ask(CREATE, facts())
            assert target.breaker.state is BreakerState.CLOSED
            counted = outcomes(dispatcher)
            assert counted.pop("a unavailable") + counted.pop("a skipped") == 2
            assert counted == {"a unchanged": 1}
        assert ("hook server available again", {"server": "a"}) in events(caplog)

    async def test_one_trial_when_half_open(self, served):
        event = hanging(served)
        target = target_of(served, timeout=DEADLINE)
        async with dispatching(target) as dispatcher:
            await dispatcher.ask(CREATE, facts())
            # Its probe is answered although it hangs.
            await until(lambda: target.breaker.state is BreakerState.HALF_OPEN)
            verdicts = await asyncio.gather(*(dispatcher.ask(CREATE, facts()) for _ in range(5)))
            assert outcomes(dispatcher) == {"a timeout": 2, "a skipped": 4}
            assert target.breaker.state is BreakerState.OPEN
            event.set()
        assert [missed.reason for verdict in verdicts for missed in verdict.missed] == [
            "no answer within 0.3 s",
            *["unreachable"] * 4,
        ]

    async def test_a_late_answer_is_dropped_counted_and_a_sign_of_life(self, served, caplog):
        event = threading.Event()
        served.behave = peer.waiting(event, peer.wishing(resources={"cpu_shares": 7}))
        target = target_of(served, timeout=DEADLINE)
        target.probe = never
        async with dispatching(target) as dispatcher:
            verdict = await dispatcher.ask(CREATE, facts())
            assert len(verdict.missed) == 1
            event.set()
            await until(lambda: "a late" in outcomes(dispatcher))
            assert target.breaker.state is BreakerState.HALF_OPEN
            assert outcomes(dispatcher) == {"a timeout": 1, "a late": 1}
            assert verdict.merge.facts.container_resources.cpu_shares == 2
            assert verdict.merge.claims == {}
        assert events(caplog)[-1] == (
            "late hook answer dropped",
            {"server": "a", "stage": CREATE},
        )

    async def test_a_server_that_dies_after_the_deadline_says_nothing_late(self, served):
        hanging(served)
        target = target_of(served, timeout=DEADLINE)
        target.probe = never
        async with dispatching(target) as dispatcher:
            await dispatcher.ask(CREATE, facts())
            await asyncio.to_thread(served.die)
            await asyncio.sleep(0.05)
            assert outcomes(dispatcher) == {"a timeout": 1}
            assert target.breaker.state is BreakerState.OPEN

    async def test_a_refusal_closes_it(self):
        target = Scripted("a", HookError("refused", "no", reached=True))
        target.breaker.failed(0)
        target.breaker.probe_answered()
        async with dispatching(target) as dispatcher:
            await dispatcher.ask(CREATE, facts())
        assert target.breaker.state is BreakerState.CLOSED

    async def test_a_probe_that_fails_waits_for_the_next(self):
        target = Scripted("a", alive=False)
        target.breaker.failed(-100)
        async with dispatching(target):
            await until(lambda: not target.breaker.probe_due(time.monotonic()))
            assert target.breaker.state is BreakerState.OPEN

    async def test_one_that_hangs_does_not_keep_the_others_from_being_probed(self):
        hung, back = Scripted("a"), Scripted("b")
        forever = asyncio.Event()
        hung.probe = forever.wait
        for target in (hung, back):
            target.breaker.failed(-100)
        async with dispatching(hung, back):
            await until(lambda: back.breaker.state is BreakerState.HALF_OPEN)
            assert hung.breaker.state is BreakerState.OPEN
            forever.set()


class TestRegisteredAnew:
    """Whoever writes its registration again has most likely just begun to serve."""

    def long_gone(self, target: Any) -> None:
        now = time.monotonic()
        target.breaker.failed(now)
        for _ in range(10):
            target.breaker.probe_failed(now)
        assert not target.breaker.probe_due(now + SOONER)

    async def test_it_is_probed_at_once(self, served, caplog):
        target = target_of(served)
        async with dispatching(target) as dispatcher:
            served.die()
            await dispatcher.ask(CREATE, facts())
            self.long_gone(target)
            served.start()
            dispatcher.probe_now({"a", "nobody"})
            await until(lambda: target.breaker.state is BreakerState.HALF_OPEN, SOONER)
            await dispatcher.ask(CREATE, facts())
            assert outcomes(dispatcher) == {"a unavailable": 1, "a unchanged": 1}
        assert events(caplog).count(("hook server available again", {"server": "a"})) == 1

    async def test_only_it_and_only_if_it_was_given_up(self):
        targets = Scripted("gone"), Scripted("other"), Scripted("well")
        for target in targets[:2]:
            self.long_gone(target)
        async with dispatching(*targets) as dispatcher:
            dispatcher.probe_now({"gone", "well"})
            await until(lambda: targets[0].breaker.state is BreakerState.HALF_OPEN, SOONER)
            states = [target.breaker.state for target in targets]
        assert states == [BreakerState.HALF_OPEN, BreakerState.OPEN, BreakerState.CLOSED]

    async def test_one_that_is_not_there_yet_is_probed_again_soon(self):
        target = Scripted("a", alive=False)
        self.long_gone(target)
        async with dispatching(target) as dispatcher:
            dispatcher.probe_now({"a"})
            await asyncio.sleep(0.05)
            assert target.breaker.state is BreakerState.OPEN
            target.alive = True
            await until(lambda: target.breaker.state is BreakerState.HALF_OPEN, SOONER)


async def never() -> bool:
    return False


class TestGivenUp:
    async def test_the_hook_call_is_cancelled(self, served):
        hanging(served)
        target = target_of(served)
        async with dispatching(target) as dispatcher:
            call = asyncio.get_running_loop().create_task(dispatcher.ask(CREATE, facts()))
            await until(lambda: served.asked)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda: served.cancelled)
            assert outcomes(dispatcher) == {"a cancelled": 1}
            assert target.breaker.state is BreakerState.CLOSED

    async def test_a_trial_may_be_made_again(self, served):
        hanging(served)
        target = target_of(served)
        target.breaker.failed(0)
        target.breaker.probe_answered()
        async with dispatching(target) as dispatcher:
            call = asyncio.get_running_loop().create_task(dispatcher.ask(CREATE, facts()))
            await until(lambda: served.asked)
            assert not target.breaker.admit()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert target.breaker.state is BreakerState.HALF_OPEN
            assert target.breaker.admit()


class TestReplacing:
    async def test_those_left_out_are_closed_after_their_deadline(self):
        gone, stays = Scripted("a", timeout=0.1), Scripted("b")
        async with dispatching(gone, stays) as dispatcher:
            dispatcher.replace([stays])
            assert dispatcher.targets == (stays,)
            assert dispatcher.subscribed[CREATE] == (stays,)
            await asyncio.sleep(0)
            assert not gone.closed
            await until(lambda: gone.closed)
            assert not stays.closed

    async def test_a_call_under_way_ends_with_those_it_began_with(self, served, other):
        event = hanging(served)
        targets = target_of(served), target_of(other)
        async with dispatching(*targets) as dispatcher:
            call = asyncio.get_running_loop().create_task(dispatcher.ask(CREATE, facts()))
            await until(lambda: served.asked)
            dispatcher.replace(targets[:1])
            event.set()
            assert (await call).asked == 2
        assert len(other.asked) == 1

    @pytest.mark.parametrize("policy", ["Ignore", "Fail"])
    async def test_one_closed_before_its_turn_is_away(self, served, other, policy):
        event = hanging(served)
        gone = target_of(other, timeout=0.01, **{"failure-policy": policy})
        async with dispatching(target_of(served), gone) as dispatcher:
            call = asyncio.get_running_loop().create_task(dispatcher.ask(CREATE, facts()))
            await until(lambda: served.asked)
            closed = asyncio.Event()
            close = gone.close

            async def noted() -> None:
                await close()
                closed.set()

            gone.close = noted
            dispatcher.replace(dispatcher.targets[:1])
            await asyncio.wait_for(closed.wait(), PATIENCE)
            event.set()
            verdict = await call
            assert outcomes(dispatcher) == {"a unchanged": 1, "b unavailable": 1}
        assert bool(verdict.refusal) is (policy == "Fail")

    async def test_one_closed_while_it_is_asked_is_away(self, served):
        hanging(served)
        target = target_of(served)
        async with dispatching(target) as dispatcher:
            call = asyncio.get_running_loop().create_task(dispatcher.ask(CREATE, facts()))
            await until(lambda: served.asked)
            await target.close()
            [missed] = (await call).missed
        assert missed.reason == "no longer registered"

    async def test_probes_go_on_though_one_is_closed_meanwhile(self, served, other):
        closed, away = target_of(other), target_of(served)
        for target in (closed, away):
            target.breaker.failed(-100)
        await closed.close()
        async with dispatching(closed, away):
            await until(lambda: away.breaker.state is BreakerState.HALF_OPEN)
            assert closed.breaker.state is BreakerState.OPEN

    async def test_a_defect_in_a_target_is_the_calls_own(self):
        target = Scripted("a", KeyError("defect"), timeout=5)
        async with dispatching(target) as dispatcher:
            with pytest.raises(KeyError):
                await dispatcher.ask(CREATE, facts())
            # The others live on.
            target.answer = None
            assert (await dispatcher.ask(CREATE, facts())).asked == 1


async def test_many_calls_at_once_over_several_connections(served):
    served.behave = peer.wishing(resources={"cpu_shares": 7})
    async with dispatching(target_of(served, connections=4)) as dispatcher:
        asked = (dispatcher.ask(CREATE, facts()) for _ in range(50))
        verdicts = await asyncio.gather(*asked)
        assert outcomes(dispatcher) == {"a applied": 50}
    assert all(one.merge.facts.container_resources.cpu_shares == 7 for one in verdicts)


async def test_unimplemented_over_the_wire_is_not_subscribed(served):
    def behave(_: Any, question: peer.Question) -> bytes:
        question.refuse(grpc.StatusCode.UNIMPLEMENTED, "")
        return b""

    served.behave = behave
    async with dispatching(target_of(served, **{"failure-policy": "Fail"})) as dispatcher:
        verdict = await dispatcher.ask(Stage.PRE_REMOVE_POD_SANDBOX, pb.PodSandboxHookRequest())
        assert outcomes(dispatcher) == {"a not_subscribed": 1}
    assert verdict.refusal == ""
