"""From a round's claims to pods that go, with the double of the API server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from koord_kube.client import Client
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import EVENTS, PODS
from koordlet.agent.config import KoordletSettings
from koordlet.qos_manager.core.decision_log import EVICTED
from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    EvictionVictim,
    PodNotice,
    PodView,
    StrategyMode,
    StrategyView,
    Term,
)
from koordlet.qos_manager.eviction.api_eviction import EvictionApiBackend
from koordlet.qos_manager.eviction.container_stop import ContainerStopBackend
from koordlet.qos_manager.eviction.event_writer import PodEventWriter
from koordlet.qos_manager.eviction.evictor import Evictor, open_evictor
from koordlet.qos_manager.eviction.metrics import EvictionCounts, EvictionMetrics
from koordlet.qos_manager.eviction.policy.account import EvictionLimits
from koordlet.qos_manager.eviction.policy.backend import EvictionOutcome, EvictionResult
from koordlet.states_informer.state.pod_inventory import PodRecord
from prometheus_client import CollectorRegistry, generate_latest

from tests.support.kube_api import KubeApi
from tests.support.kube_evictions import PDBS
from tests.support.views import AT, pod_view, view
from tests.support.waiting import until

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
SHORT = Decision("memory is short", "used − limit", (Term("used", 9 << 30, "bytes"),))
START = 1000.0
WHO = "memory_evict"


class FakeBackend:
    """Returns these results, and records the pods that were to go."""

    name = "a way"

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


def claim(
    need: float, *pods: PodView, resource: str = "memory", rule: str = "MemoryEvict", **more: Any
) -> EvictionClaim:
    victims = tuple(EvictionVictim(pod, 1.0) for pod in pods)
    return EvictionClaim(rule, resource, need, victims, SHORT, **{"opt_in": False, **more})


class Bench:
    """An evictor with its clock; after each round all is carried out."""

    def __init__(self, backend: Any, client: Client | None, limits: Any, **more: Any) -> None:
        self.at = START
        limits = limits or EvictionLimits(10, cpu_cool=0, cool=0)
        now, monotonic = lambda: AT + self.at, lambda: self.at
        writer = PodEventWriter(client, "node-1")
        self.evictor = Evictor(backend, limits, writer, now=now, monotonic=monotonic, **more)

    async def round(
        self,
        pods: Sequence[PodView],
        *claims: EvictionClaim,
        mode: StrategyMode = StrategyMode.ON,
        notices: Sequence[PodNotice] = (),
        after: float = 1.0,
    ) -> list[str]:
        self.at += after
        of_claims, of_notices = (
            [(WHO, mode, one) for one in claims],
            [(WHO, mode, one) for one in notices],
        )
        self.decided = self.evictor.consider(self.view(pods), of_claims, of_notices)
        await until(
            lambda: (
                not self.evictor._waiting.qsize() and all(one.end for one in self.evictor.recent())
            )
        )
        return [one.outcome for _, _, one in self.decided]

    def view(self, pods: Sequence[PodView]) -> StrategyView:
        return view(pods=pods, steady=self.at)


@contextlib.asynccontextmanager
async def bench_of(
    backend: Any, client: Client | None = None, *, limits: Any = None, **more: Any
) -> AsyncIterator[Bench]:
    """``backend`` is a client where the Eviction API is meant."""
    if isinstance(backend, Client):
        backend, client = EvictionApiBackend(backend), backend
    made = Bench(backend, client, limits, **more)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(made.evictor.run())
        await asyncio.sleep(0)
        yield made
        task.cancel()


def put_pod(api: KubeApi, name: str, **labels: str) -> PodView:
    given = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": "node-1"},
        "status": READY,
    }
    return pod_view(name, uid=api.put(PODS, given, "ns")["metadata"]["uid"])


def budget(allowed: int) -> Object:
    return {
        "metadata": {"name": "budget"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {
            "observedGeneration": 9,
            "disruptionsAllowed": allowed,
            "currentHealthy": 2 + allowed,
            "desiredHealthy": 2,
        },
    }


async def events_of(api: KubeApi, number: int) -> list[Object]:
    def found() -> list[Object]:
        return [one for key, one in api.objects.items() if key.resource == EVENTS]

    await until(lambda: len(found()) >= number)
    return found()


def ends(api: KubeApi, pod: PodView) -> bool:
    return "deletionTimestamp" in api.get(PODS, pod.record.pod.name, "ns")["metadata"]


A, B = pod_view("a"), pod_view("b")


class TestThroughTheApi:
    async def test_a_pod_goes_with_an_event_and_its_numbers_count_until_measured(
        self, api: KubeApi, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        a, b = put_pod(api, "a"), put_pod(api, "b")
        async with bench_of(client) as bench:
            said = await bench.round([a, b], claim(1, a, b))
            assert said == ["is to be evicted: memory is short (MemoryEvict)"]
            assert (ends(api, a), ends(api, b)) == (True, False)
            assert bench.evictor.evicting() == {a.uid}
            # It is on its way out: no other has to go.
            news, waits = await bench.round([a, b], claim(1, a, b))
            assert news == "evicted by the Eviction API: memory is short (MemoryEvict)"
            assert "enough is freed by pods that are on their way out" in waits
            assert bench.decided[0][2].aspect == EVICTED
            # It is gone, but what was measured is of before; then there still is not enough.
            [waits] = await bench.round([b], claim(1, b))
            assert "enough is freed by pods that are on their way out" in waits
            assert not ends(api, b)
            await bench.round([b], claim(1, b), after=3.0)
            assert ends(api, b)
            [event, _] = await events_of(api, 2)
        assert (event["reason"], event["involvedObject"]["uid"]) == ("evictPodSuccess", a.uid)
        assert "used − limit with used 9 GiB, still to be freed 1 B" in event["message"]
        [line] = [one for one in caplog.records if one.message == "evicted"][:1]
        assert line.fields["pod"] == "ns/a"  # type: ignore[attr-defined]

    async def test_a_budget_forbids_one_and_the_next_goes_in_the_next_round(
        self, api: KubeApi, client: Client
    ) -> None:
        a, b = put_pod(api, "a", app="web"), put_pod(api, "b")
        api.put(PDBS, budget(0), "ns")
        limits = EvictionLimits(1, cpu_cool=20, cool=20)
        async with bench_of(client, limits=limits) as bench:
            await bench.round([a, b], claim(1, a, b), after=30)
            assert not ends(api, a)
            assert bench.evictor.evicting() == frozenset()
            # Neither the budget of a minute nor the cool time counts what did not happen.
            said = await bench.round([a, b], claim(1, a, b))
            assert said[0].startswith("not evicted for memory: pods ns/a/eviction: 429 Cannot")
            assert said[1].startswith("is to be evicted")
            assert ends(api, b)
            found = await events_of(api, 2)
            assert [one["reason"] for one in found] == ["evictPodFail", "evictPodSuccess"]
            assert bench.evictor.counts.outcomes == {"refused": 1, "evicted": 1}
            # It goes once the budget allows, but not in haste, and further refusals are no events.
            for _ in range(3):
                await bench.round([a], claim(1, a), after=45)
            assert bench.evictor.counts.events["repeated"] >= 1
            api.put(PDBS, budget(1), "ns")
            await bench.round([a], claim(1, a))
            assert not ends(api, a)
            await bench.round([a], claim(1, a), after=300)
            assert ends(api, a)

    async def test_a_pod_that_is_gone_is_no_event(self, api: KubeApi, client: Client) -> None:
        async with bench_of(client) as bench:
            await bench.round([A], claim(1, A))
            assert bench.evictor.counts.outcomes == {"gone": 1}
            assert not bench.evictor._announcer._waiting
            [attempt] = bench.evictor.recent()
        assert (attempt.pod, attempt.end) == ("ns/a", EvictionResult.GONE)

    async def test_no_round_waits_for_the_api_server(self, api: KubeApi, client: Client) -> None:
        a, b = put_pod(api, "a"), put_pod(api, "b")
        api.fail(slow=0.2)
        async with bench_of(client) as bench:
            bench.at += 1
            bench.evictor.consider(bench.view([a, b]), [(WHO, StrategyMode.ON, claim(1, a, b))], [])
            assert api.asked == []
            said = await bench.round([a, b], claim(1, a, b))
            assert "enough is freed" in said[0]
            assert not ends(api, b)


class TestWhatIsNotDone:
    async def test_in_a_dry_run_nobody_is_evicted(
        self, api: KubeApi, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        a, b = put_pod(api, "a"), put_pod(api, "b")
        async with bench_of(client, why_not="--evict-dry-run") as bench:
            for after in (1, *[1] * 30, 40):
                said = await bench.round([a, b], claim(1, a, b), after=after)
                # After the time in which it would have gone it is said again.
                would = after == 40 or bench.at == START + 1
                assert ("would be evicted: memory is short (MemoryEvict)" in said) == would
            assert (bench.evictor.evicting(), bench.evictor.recent()) == (frozenset(), ())
            assert bench.evictor.way == ""
        assert api.asked == []
        lines = [one.fields for one in caplog.records if one.message == "would evict"]  # type: ignore[attr-defined]
        assert [one["reason"] for one in lines] == ["--evict-dry-run"] * 2

    async def test_in_shadow_mode_claims_and_notices_are_only_shown(self, client: Client) -> None:
        backend = FakeBackend()
        async with bench_of(backend, client) as bench:
            soft, notice = claim(1, B, notice_seconds=60.0), PodNotice(A, "Slow", "is slow")
            shadow = StrategyMode.SHADOW
            said = await bench.round([A, B], claim(1, A, B), soft, mode=shadow, notices=[notice])
            assert said[0] == "would be evicted: memory is short (MemoryEvict)"
            assert bench.decided[0][1] is shadow
            assert not bench.evictor._announcer._waiting
            # It hinders nobody, and knows what really goes.
            bench.at += 1
            both = [(WHO, StrategyMode.ON, claim(1, A)), ("t", shadow, claim(1, A, B))]
            found = bench.evictor.consider(bench.view([A, B]), both, [])
            await until(lambda: backend.calls)
        outcomes = [(name, one.outcome.split(":")[0]) for name, _, one in found]
        assert outcomes == [(WHO, "is to be evicted"), ("t", "memory")]
        assert backend.calls == [("a", 30.0, False)]

    async def test_a_dry_run_alarms_nobody(self, api: KubeApi, client: Client) -> None:
        notices = [
            PodNotice(A, "MayBeEvicted", "may be evicted", of_eviction=True),
            PodNotice(B, "CPUInterference", "is slowed down", warning=False),
        ]
        async with bench_of(client, why_not="--evict-dry-run") as bench:
            await bench.round([A, B], notices=notices)
            [event] = await events_of(api, 1)
        assert (event["reason"], event["type"]) == ("CPUInterference", "Normal")
        async with bench_of(client) as bench:
            await bench.round([A, B], notices=notices, after=2.0)
            reasons = [one["reason"] for one in await events_of(api, 3)]
        assert sorted(reasons) == ["CPUInterference", "CPUInterference", "MayBeEvicted"]

    async def test_pods_that_may_not_go_stay(self) -> None:
        backend = FakeBackend()
        static = pod_view("static", annotations={"kubernetes.io/config.source": "file"})
        own = pod_view("own")
        async with bench_of(backend, own=frozenset({"own"})) as bench:
            said = await bench.round([static, own, A], claim(3, static, own, A))
        assert backend.evicted == ["a"]
        assert said[:2] == [
            "not evicted for memory: is a static pod",
            "not evicted for memory: is koordlet's own pod",
        ]


class TestOutcomes:
    async def test_a_soft_eviction_warns_first(self, api: KubeApi, client: Client) -> None:
        a = put_pod(api, "a")
        soft = claim(1, a, notice_seconds=60.0)
        async with bench_of(client) as bench:
            assert (await bench.round([a], soft))[0].startswith("is evicted for memory soon")
            for _ in range(5):
                await bench.round([a], soft, after=10)
            assert not ends(api, a)
            [event] = await events_of(api, 1)
            assert (event["reason"], event["type"]) == ("evictPodSoon", "Warning")
            await bench.round([a], soft, after=10)
            assert ends(api, a)

    async def test_the_backend_gets_the_grace_period_and_whether_it_is_forced(self) -> None:
        backend, pod = FakeBackend(), pod_view("a", grace_seconds=90)
        async with bench_of(backend) as bench:
            await bench.round([pod], claim(1, pod, forced=True))
        assert backend.calls == [("a", 90.0, True)]
        assert backend.closed == 1

    async def test_a_pod_that_does_not_go_is_reported_and_another_goes(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        backend = FakeBackend()
        async with bench_of(backend) as bench:
            await bench.round([A, B], claim(1, A, B))
            await bench.round([A, B], claim(1, A, B), after=58)
            assert backend.evicted == ["a"]
            said = await bench.round([A, B], claim(1, A, B), after=2)
            assert said[0].startswith("has not gone since it was evicted")
            assert bench.decided[0][0] == WHO
            assert backend.evicted == ["a", "b"]
            assert bench.evictor.counts.outcomes["late"] == 1
        assert "pod still terminating" in caplog.text

    async def test_a_pod_that_ends_for_other_reasons_is_not_reported(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        ending, backend = pod_view("a", terminating=True), FakeBackend()
        async with bench_of(backend) as bench:
            assert "enough is freed" in (await bench.round([ending, B], claim(1, ending, B)))[0]
            assert bench.evictor.evicting() == {"a"}
            said = await bench.round([ending, B], claim(1, ending, B), after=61)
            assert said[0] == "not evicted for memory: ends already"
        assert backend.evicted == ["b"]
        assert "pod still terminating" not in caplog.text

    async def test_a_defect_costs_one_eviction(self, caplog: pytest.LogCaptureFixture) -> None:
        async with bench_of(FakeBackend(RuntimeError("broken"))) as bench:
            for _ in range(2):
                await bench.round([A, B], claim(1, A, B))
            ends = [one.end for one in bench.evictor.recent()]
            assert ends == [EvictionResult.UNKNOWN, EvictionResult.EVICTED]
        assert "not evicted" in caplog.text

    async def test_only_the_last_attempts_are_kept(self) -> None:
        pods = [pod_view(f"p{number}") for number in range(70)]
        async with bench_of(FakeBackend(), limits=EvictionLimits(100, 0, 0)) as bench:
            await bench.round(pods, claim(70, *pods))
            assert len(bench.evictor.recent()) == 64
            assert bench.evictor.counts.outcomes == {"evicted": 70}

    async def test_a_backend_that_only_stops_containers(self) -> None:
        again = EvictionOutcome(EvictionResult.FAILED, "started again", disrupted=True)
        backend = FakeBackend(again, pod_stays=True)
        async with bench_of(backend, limits=EvictionLimits(1, 0, 0)) as bench:
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
    refused = EvictionOutcome(EvictionResult.REFUSED, "no")
    async with bench_of(FakeBackend(EvictionOutcome(EvictionResult.EVICTED), refused)) as bench:
        await bench.round([A, B], claim(2, A, B))
        registry, evictor = CollectorRegistry(), bench.evictor
        going = lambda: len(evictor.evicting())  # noqa: E731
        registry.register(EvictionMetrics("node-1", evictor.counts, going))
        text = generate_latest(registry).decode()
    for line in (
        'koordlet_pod_eviction{node="node-1",reason="MemoryEvict"} 1.0',
        'koordlet_pod_eviction_detail{node="node-1",pod_name="a",pod_namespace="ns",reason="',
        'koordlet_evictions_total{node="node-1",outcome="evicted"} 1.0',
        'koordlet_evictions_total{node="node-1",outcome="refused"} 1.0',
        "koordlet_pods_evicting 1.0",
    ):
        assert line in text


def test_rows_of_pods_are_bounded() -> None:
    counts = EvictionCounts()
    for number in range(300):
        counts.ended(EvictionResult.EVICTED, "MemoryEvict", "ns", f"p{number}")
    assert len(counts.by_pod) == 256
    assert counts.by_rule == {"MemoryEvict": 300}


@pytest.mark.parametrize(
    ("flags", "clustered", "name"),
    [
        ({}, True, EvictionApiBackend.name),
        ({}, False, ContainerStopBackend.name),
        ({"evict_by_stop": True}, True, ContainerStopBackend.name),
        ({"only_evict_by_api": True}, True, EvictionApiBackend.name),
        ({"only_evict_by_api": True, "evict_by_stop": True}, True, EvictionApiBackend.name),
        ({"only_evict_by_api": True}, False, ""),
        ({"evict_dry_run": True}, True, ""),
        ({"evict_dry_run": True}, False, ""),
    ],
)
async def test_the_backend_is_that_of_the_settings(
    flags: dict[str, bool], clustered: bool, name: str
) -> None:
    cluster: Any = SimpleNamespace(name="node-1", client=object()) if clustered else None
    evictor = open_evictor(KoordletSettings(**flags), cluster, {"POD_UID": "u"})
    assert evictor.way == name
    assert bool(evictor.why_not) == (not name)
    assert evictor._own == {"u"}


async def test_limits_are_the_settings() -> None:
    given = KoordletSettings(
        evictions_per_minute=3, cpu_evict_cool_time_seconds=7, memory_evict_cool_time_seconds=9
    )
    assert open_evictor(given, None, {})._account.limits == EvictionLimits(3, 7, 9)
