"""From a round's claims to pods that go, with doubles of the backend and of the Events."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from koord_kube.core.evictions import EvictionOutcome, EvictionResult
from koord_kube.protocol.api import Object
from koordlet.qos_manager.core.decision_log import EVICTED
from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    EvictionVictim,
    PodNotice,
    PodView,
    StrategyMode,
    Term,
)
from koordlet.qos_manager.eviction.evictor import Evictor
from koordlet.qos_manager.eviction.metrics import EvictionCounts, EvictionMetrics
from koordlet.qos_manager.eviction.policy.account import EvictionLimits
from koordlet.qos_manager.eviction.policy.effect import MOST_IN_VAIN
from koordlet.states_informer.state.pod_inventory import PodRecord
from prometheus_client import CollectorRegistry, generate_latest

from tests.support.views import AT, pod_view, view
from tests.support.waiting import until

SHORT = Decision("memory is short", "over = used − 1", (Term("used", 9 << 30, "bytes"),))
ON, SHADOW = StrategyMode.ON, StrategyMode.SHADOW
START = 1000.0
A, B = pod_view("a"), pod_view("b")
GOES = "is to be evicted: memory is short (MemoryEvict)"
WOULD = "would be evicted: memory is short (MemoryEvict)"
REFUSED = EvictionOutcome(EvictionResult.REFUSED, "a budget forbids it")


class FakeBackend:
    """Returns these results, and records the pods that were to go."""

    name = "a backend"

    def __init__(self, *outcomes: EvictionOutcome | Exception, pod_stays: bool = False) -> None:
        self.outcomes = list(outcomes)
        self.calls: list[tuple[str, float, bool]] = []
        self.closed = 0
        self.pod_stays = pod_stays

    @property
    def evicted(self) -> list[str]:
        return [uid for uid, *_ in self.calls]

    async def evict(
        self, record: PodRecord, grace_seconds: float, *, forced: bool
    ) -> EvictionOutcome:
        self.calls.append((record.pod.uid, grace_seconds, forced))
        found = self.outcomes.pop(0) if self.outcomes else EvictionOutcome(EvictionResult.EVICTED)
        if isinstance(found, Exception):
            raise found
        return found

    async def close(self) -> None:
        self.closed += 1


class FakeRecorder:
    """Keeps Events instead of writing them: the pod, the reason, the message, and if it warns."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str, bool]] = []
        self.counts: Counter[str] = Counter()

    def record(
        self, about: Object, reason: str, message: str, *, warning: bool, is_numbered: bool
    ) -> None:
        assert is_numbered
        self.said.append((about["metadata"]["uid"], reason, message, warning))

    async def run(self) -> None:
        await asyncio.Event().wait()


def claim(need: float, *pods: PodView, **more: Any) -> EvictionClaim:
    victims = tuple(EvictionVictim(pod, 1.0) for pod in pods)
    fields = {"opt_in": False, **more}
    return EvictionClaim("MemoryEvict", "memory", need, victims, SHORT, **fields)


class Bench:
    """An evictor with its clock; after each round all is carried out."""

    def __init__(self, backend: Any, limits: Any, **more: Any) -> None:
        self.at = START
        self.recorder: Any = FakeRecorder()
        now, steady = lambda: AT + self.at, lambda: self.at
        self.evictor = Evictor(backend, limits, self.recorder, now=now, monotonic=steady, **more)

    async def round(
        self,
        pods: Sequence[PodView],
        *claims: EvictionClaim,
        mode: StrategyMode = ON,
        notices: Sequence[PodNotice] = (),
        after: float = 1.0,
    ) -> list[str]:
        return await self.mixed(pods, [(mode, one) for one in claims], mode, notices, after)

    async def mixed(
        self,
        pods: Sequence[PodView],
        claims: Sequence[tuple[StrategyMode, EvictionClaim]],
        mode: StrategyMode = ON,
        notices: Sequence[PodNotice] = (),
        after: float = 1.0,
    ) -> list[str]:
        self.at += after
        self.decided = self.evictor.consider(
            view(pods=pods, steady=self.at),
            [("memory_evict", *one) for one in claims],
            [("memory_evict", mode, one) for one in notices],
        )
        await until(lambda: all(one.end for one in self.evictor.recent()))
        return [one.outcome for _, _, one in self.decided]

    @property
    def events(self) -> list[tuple[str, str, bool]]:
        found = [(uid, reason, warning) for uid, reason, _, warning in self.recorder.said]
        self.recorder.said.clear()
        return found


@contextlib.asynccontextmanager
async def bench_of(
    backend: FakeBackend | None = None, limits: Any = None, **more: Any
) -> AsyncIterator[Bench]:
    """An evictor that runs; without limits."""
    made = Bench(backend or FakeBackend(), limits or EvictionLimits(100, 0, 0), **more)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(made.evictor.run())
        await asyncio.sleep(0)
        yield made
        task.cancel()


async def test_a_pod_goes_with_an_event_and_counts_until_that_was_measured(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    backend, pod = FakeBackend(), pod_view("a", grace_seconds=90)
    async with bench_of(backend) as bench:
        assert await bench.round([pod, B], claim(1, pod, B, forced=True)) == [GOES]
        assert backend.calls == [("a", 90.0, True)]
        assert bench.evictor.evicting() == {"a"}
        [(uid, reason, message, _)] = bench.recorder.said
        assert (uid, reason) == ("a", "evictPodSuccess")
        assert "over = used − 1 with used 9 GiB, still to be freed 1 B" in message
        # It is on its way out: no other has to go.
        news, waits = await bench.round([pod, B], claim(1, pod, B))
        assert news == "evicted by a backend: memory is short (MemoryEvict)"
        assert bench.decided[0][2].aspect == EVICTED
        assert "enough is freed by pods that are on their way out" in waits
        # It is gone, but what was measured is of before; then there still is not enough.
        [waits] = await bench.round([B], claim(1, B))
        assert "enough is freed by pods that are on their way out" in waits
        await bench.round([B], claim(1, B), after=3.0)
        assert backend.evicted == ["a", "b"]
    [line, _] = [one for one in caplog.records if one.message == "evicted"]
    assert line.fields["pod"] == "ns/a"  # type: ignore[attr-defined]
    assert backend.closed == 1


async def test_successors_of_pods_that_went_in_vain_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend = FakeBackend()
    async with bench_of(backend) as bench:
        for number in range(60):
            pod = pod_view(f"be{number}")
            await bench.round([pod], claim(8, pod))
            await bench.round([], claim(8, pod), after=4.0)
        assert len(backend.evicted) == MOST_IN_VAIN + 1, "one more after the pause"
    lines = [one for one in caplog.records if one.message == "evictions in vain"]
    assert len(lines) == 2


async def test_a_budget_forbids_one_and_the_next_goes_in_the_next_round() -> None:
    async with bench_of(FakeBackend(REFUSED), EvictionLimits(1, cpu_cool=20, cool=20)) as bench:
        await bench.round([A, B], claim(1, A, B), after=30)
        assert bench.evictor.evicting() == frozenset()
        # Neither the budget of a minute nor the cool time counts what did not happen.
        said = await bench.round([A, B], claim(1, A, B))
        assert said == ["not evicted for memory: a budget forbids it", GOES]
        assert bench.events == [("a", "evictPodFail", True), ("b", "evictPodSuccess", True)]
        assert bench.evictor.counts.outcomes == {"refused": 1, "evicted": 1}


async def test_a_pod_that_is_gone_is_no_event() -> None:
    async with bench_of(FakeBackend(EvictionOutcome(EvictionResult.GONE))) as bench:
        await bench.round([A], claim(1, A))
        assert (bench.evictor.counts.outcomes, bench.events) == ({"gone": 1}, [])
        [attempt] = bench.evictor.recent()
    assert (attempt.pod, attempt.end) == ("ns/a", EvictionResult.GONE)


async def test_in_a_dry_run_nobody_is_evicted_or_alarmed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    backend = FakeBackend()
    notices = [
        PodNotice(A, "MayBeEvicted", "may be evicted", of_eviction=True),
        PodNotice(B, "CPUInterference", "is slowed down", warning=False),
    ]
    async with bench_of(backend, why_not="--evict-dry-run") as bench:
        soft = claim(1, B, notice_seconds=60.0)
        said = [await bench.round([A, B], claim(1, A), soft, notices=notices, after=1)]
        said += [await bench.round([A], claim(1, A)) for _ in range(30)]
        # After the time in which it would have gone it is said again.
        said.append(await bench.round([A], claim(1, A), after=40))
        assert [WOULD in one for one in said] == [True] + [False] * 30 + [True]
        assert (bench.evictor.evicting(), bench.evictor.recent()) == (frozenset(), ())
        assert bench.evictor.backend_name == ""
        assert bench.events == [("b", "CPUInterference", False)]
    assert backend.calls == []
    lines = [one.fields for one in caplog.records if one.message == "would evict"]  # type: ignore[attr-defined]
    assert [one["reason"] for one in lines] == ["--evict-dry-run"] * 2


async def test_in_shadow_mode_claims_and_notices_are_only_shown() -> None:
    backend, notice = FakeBackend(), PodNotice(A, "Slow", "is slow")
    async with bench_of(backend) as bench:
        soft = claim(2, A, B, notice_seconds=60.0)
        said = await bench.round([A, B], claim(1, A), soft, mode=SHADOW, notices=[notice])
        assert (said[0], said[-1]) == ("is evicted for memory soon, if nothing changes", WOULD)
        assert (bench.decided[0][1], bench.events) == (SHADOW, [])
        # It hinders nobody, and knows what really goes.
        said = await bench.mixed([A, B], [(ON, claim(1, A)), (SHADOW, claim(1, A, B))])
        assert said[0] == GOES
        assert "enough is freed" in said[1]
    assert backend.calls == [("a", 30.0, False)]


async def test_pods_that_may_not_go_stay() -> None:
    static = pod_view("static", annotations={"kubernetes.io/config.source": "file"})
    own, backend = pod_view("own"), FakeBackend()
    async with bench_of(backend, own=frozenset({"own"})) as bench:
        said = await bench.round([static, own, A], claim(3, static, own, A))
    assert backend.evicted == ["a"]
    assert said[:2] == [
        "not evicted for memory: is a static pod",
        "not evicted for memory: is koordlet's own pod",
    ]


async def test_a_soft_eviction_warns_first_and_notices_are_events() -> None:
    soft, notices = claim(1, A, notice_seconds=60.0), [PodNotice(A, "Slow", "is slow")]
    backend = FakeBackend()
    async with bench_of(backend) as bench:
        assert (await bench.round([A], soft))[0].startswith("is evicted for memory soon")
        for _ in range(5):
            await bench.round([A], soft, after=10)
        assert (bench.events, backend.calls) == ([("a", "evictPodSoon", True)], [])
        await bench.round([A], soft, after=10, notices=notices)
        assert (len(bench.events), backend.evicted) == (2, ["a"])


async def test_a_pod_that_does_not_go_is_reported_and_another_goes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend = FakeBackend()
    async with bench_of(backend) as bench:
        await bench.round([A, B], claim(1, A, B))
        await bench.round([A, B], claim(1, A, B), after=58)
        assert backend.evicted == ["a"]
        said = await bench.round([A, B], claim(1, A, B), after=2)
        assert said[0].startswith("has not gone since it was evicted")
        assert bench.decided[0][0] == "memory_evict"
        assert backend.evicted == ["a", "b"]
        assert bench.evictor.counts.outcomes["late"] == 1
        assert "pod still terminating" in caplog.text
    # One that ends for other reasons is not reported.
    caplog.clear()
    ending, backend = pod_view("a", terminating=True), FakeBackend()
    async with bench_of(backend) as bench:
        assert "enough is freed" in (await bench.round([ending, B], claim(1, ending, B)))[0]
        assert bench.evictor.evicting() == {"a"}
        said = await bench.round([ending, B], claim(1, ending, B), after=61)
        assert said[0] == "not evicted for memory: ends already"
    assert backend.evicted == ["b"]
    assert "pod still terminating" not in caplog.text


async def test_a_defect_costs_one_eviction(caplog: pytest.LogCaptureFixture) -> None:
    async with bench_of(FakeBackend(RuntimeError("broken"))) as bench:
        for _ in range(2):
            await bench.round([A, B], claim(1, A, B))
        results = [one.end for one in bench.evictor.recent()]
        assert results == [EvictionResult.UNKNOWN, EvictionResult.EVICTED]
    assert "not evicted" in caplog.text


async def test_a_backend_that_only_stops_containers() -> None:
    again = EvictionOutcome(EvictionResult.FAILED, "started again", disrupted=True)
    backend = FakeBackend(again, pod_stays=True)
    async with bench_of(backend, EvictionLimits(1, 0, 0)) as bench:
        await bench.round([A, B], claim(1, A, B))
        # Containers that were stopped in vain count.
        said = await bench.round([A, B], claim(1, A, B))
        assert said[-1].endswith("1 evictions a minute are the most")
        assert backend.evicted == ["a"]
        await bench.round([B], claim(1, B), after=60)
        assert bench.evictor.evicting() == {"b"}
        # The pod stays, and is gone without containers.
        await bench.round([replace(B, record=replace(B.record, containers={}))])
        assert bench.evictor.evicting() == frozenset()


async def test_metrics_have_koordinator_s_names_and_ours() -> None:
    pods = [pod_view(f"p{number}") for number in range(71)]
    async with bench_of(FakeBackend(REFUSED)) as bench:
        await bench.round(pods, claim(71, *pods))
        evictor, registry = bench.evictor, CollectorRegistry()
        assert len(evictor.recent()) == 64
        metrics = EvictionMetrics("node-1", evictor.counts, lambda: len(evictor.evicting()))
        registry.register(metrics)
        text = generate_latest(registry).decode()
    for line in (
        'koordlet_pod_eviction{node="node-1",reason="MemoryEvict"} 70.0',
        'koordlet_pod_eviction_detail{node="node-1",pod_name="p1",pod_namespace="ns",reason="',
        'koordlet_evictions_total{node="node-1",outcome="evicted"} 70.0',
        'koordlet_evictions_total{node="node-1",outcome="refused"} 1.0',
        "koordlet_pods_evicting 70.0",
    ):
        assert line in text
    counts = EvictionCounts()
    for number in range(300):
        counts.ended(EvictionResult.EVICTED, "MemoryEvict", "ns", f"p{number}")
    assert (len(counts.by_pod), counts.by_rule) == (256, {"MemoryEvict": 300})
