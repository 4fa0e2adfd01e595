"""From a round's claims to pods that go, with the double of the API server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
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
from koordlet.qos_manager.eviction.metrics import EvictionMetrics
from koordlet.qos_manager.eviction.policy.account import EvictionLimits
from koordlet.qos_manager.eviction.policy.backend import EvictionOutcome, EvictionResult
from koordlet.states_informer.state.pod_inventory import PodRecord
from prometheus_client import CollectorRegistry, generate_latest

from tests.support.kube_api import PDBS, KubeApi
from tests.support.processes import PATIENCE
from tests.support.views import AT, pod_view, view

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
SHORT = Decision("memory is short", "used − limit", (Term("used", 9 << 30, "bytes"),))
START = 1000.0
WHO = "memory_evict"


class Clock:
    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> float:
        return self.at


class FakeWay:
    """Does what it is told to, and notes who was to go."""

    name = "a way"

    def __init__(self, *outcomes: EvictionOutcome | Exception, pod_stays: bool = False) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[tuple[str, float, bool]] = []
        self.closed = 0
        self.pod_stays = pod_stays

    async def evict(
        self, record: PodRecord, grace_seconds: float, *, forced: bool
    ) -> EvictionOutcome:
        self.asked.append((record.pod.uid, grace_seconds, forced))
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


class Side:
    """An evictor with its clock; after each round all is carried out."""

    def __init__(self, evictor: Evictor, clock: Clock) -> None:
        self.evictor, self.clock = evictor, clock

    async def round(
        self,
        pods: Sequence[PodView],
        *claims: EvictionClaim,
        mode: StrategyMode = StrategyMode.ON,
        notices: Sequence[PodNotice] = (),
        after: float = 1.0,
    ) -> list[str]:
        self.clock.at += after
        found = self.evictor.consider(
            self.seen(pods),
            [(WHO, mode, one) for one in claims],
            [(WHO, mode, one) for one in notices],
        )
        self.decided = found
        async with asyncio.timeout(PATIENCE):
            while self.evictor._waiting.qsize() or any(
                one.end is None for one in self.evictor.recent()
            ):
                await asyncio.sleep(0.001)
        return [one.outcome for _, _, one in found]

    def seen(self, pods: Sequence[PodView]) -> StrategyView:
        return view(pods=pods, steady=self.clock.at)


@contextlib.asynccontextmanager
async def side_of(
    way: Any,
    client: Client | None = None,
    *,
    limits: EvictionLimits | None = None,
    **more: Any,
) -> AsyncIterator[Side]:
    clock = Clock()
    limits = limits or EvictionLimits(10, cpu_cool=0, cool=0)
    announcer = PodEventWriter(client, "node-1")
    evictor = Evictor(way, limits, announcer, now=lambda: AT + clock.at, monotonic=clock, **more)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(evictor.run())
        await asyncio.sleep(0)
        yield Side(evictor, clock)
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
    async with asyncio.timeout(PATIENCE):
        while True:
            found = [one for key, one in api.objects.items() if key.resource == EVENTS]
            if len(found) >= number:
                return found
            await asyncio.sleep(0.001)


def ends(api: KubeApi, pod: PodView) -> bool:
    return "deletionTimestamp" in api.get(PODS, pod.record.pod.name, "ns")["metadata"]


class TestThroughTheApi:
    async def test_a_pod_goes_and_everybody_hears(
        self, api: KubeApi, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        a, b = put_pod(api, "a"), put_pod(api, "b")
        async with side_of(EvictionApiBackend(client), client) as side:
            said = await side.round([a, b], claim(1, a, b))
            assert said == ["is to be evicted: memory is short (MemoryEvict)"]
            assert (ends(api, a), ends(api, b)) == (True, False)
            assert side.evictor.evicting() == {a.uid}
            # It is on its way out: no other has to go.
            news, waits = await side.round([a, b], claim(1, a, b))
            assert news == "evicted by the Eviction API: memory is short (MemoryEvict)"
            assert "enough is freed by pods that are on their way out" in waits
            assert side.decided[0][2].aspect == EVICTED
            assert not ends(api, b)
            # It is gone, but what was measured is of before; then there still is not enough.
            [waits] = await side.round([b], claim(1, b))
            assert "enough is freed by pods that are on their way out" in waits
            assert not ends(api, b)
            await side.round([b], claim(1, b), after=3.0)
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
        async with side_of(EvictionApiBackend(client), client, limits=limits) as side:
            await side.round([a, b], claim(1, a, b), after=30)
            assert not ends(api, a)
            assert side.evictor.evicting() == frozenset()
            # Neither the budget of a minute nor the cool time counts what did not happen.
            said = await side.round([a, b], claim(1, a, b))
            assert said[0].startswith("not evicted for memory: pods ns/a/eviction: 429 Cannot")
            assert "needs 2 healthy pods and has 2 currently" in said[0]
            assert said[1].startswith("is to be evicted")
            assert ends(api, b)
            found = await events_of(api, 2)
        assert [one["reason"] for one in found] == ["evictPodFail", "evictPodSuccess"]
        assert side.evictor.counts.outcomes == {"refused": 1, "evicted": 1}

    async def test_it_goes_once_the_budget_allows(self, api: KubeApi, client: Client) -> None:
        a = put_pod(api, "a", app="web")
        api.put(PDBS, budget(0), "ns")
        async with side_of(EvictionApiBackend(client), client) as side:
            await side.round([a], claim(1, a))
            api.put(PDBS, budget(1), "ns")
            await side.round([a], claim(1, a))
            assert not ends(api, a), "not in haste"
            await side.round([a], claim(1, a), after=10)
            assert ends(api, a)

    async def test_a_pod_that_is_gone_is_no_event(self, api: KubeApi, client: Client) -> None:
        async with side_of(EvictionApiBackend(client), client) as side:
            await side.round([pod_view("a")], claim(1, pod_view("a")))
            assert side.evictor.counts.outcomes == {"gone": 1}
            assert not side.evictor._announcer._waiting
            [attempt] = side.evictor.recent()
        assert (attempt.pod, attempt.end) == ("ns/a", EvictionResult.GONE)

    async def test_the_one_event_of_a_refusal_is_not_one_a_round(
        self, api: KubeApi, client: Client
    ) -> None:
        a = put_pod(api, "a", app="web")
        api.put(PDBS, budget(0), "ns")
        async with side_of(EvictionApiBackend(client), client) as side:
            for _ in range(5):
                await side.round([a], claim(1, a), after=45)
            await events_of(api, 1)
            assert side.evictor.counts.events["written"] == 1
            assert side.evictor.counts.events["repeated"] >= 1

    async def test_a_node_without_an_api_server_waits_for_what_it_asked(
        self, api: KubeApi, client: Client
    ) -> None:
        a, b = put_pod(api, "a"), put_pod(api, "b")
        api.fail(slow=0.2)
        async with side_of(EvictionApiBackend(client), client) as side:
            side.clock.at += 1
            started = asyncio.get_running_loop().time()
            side.evictor.consider(side.seen([a, b]), [(WHO, StrategyMode.ON, claim(1, a, b))], [])
            assert asyncio.get_running_loop().time() - started < 0.1, "no round waits"
            said = await side.round([a, b], claim(1, a, b))
            assert "enough is freed" in said[0]
            assert not ends(api, b)


class TestWhatIsNotDone:
    async def test_a_dry_run_says_whom_and_evicts_none(
        self, api: KubeApi, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        a, b = put_pod(api, "a"), put_pod(api, "b")
        async with side_of(EvictionApiBackend(client), client, why_not="--evict-dry-run") as side:
            said = await side.round([a, b], claim(1, a, b))
            assert said == ["would be evicted: memory is short (MemoryEvict)"]
            for _ in range(30):
                await side.round([a, b], claim(1, a, b))
            assert side.evictor.evicting() == frozenset()
            assert side.evictor.recent() == ()
            # After the time in which it would have gone it is said again.
            said = await side.round([a, b], claim(1, a, b), after=40)
            assert said == ["would be evicted: memory is short (MemoryEvict)"]
            assert side.evictor.way == ""
        assert api.asked == []
        assert caplog.text.count("would evict") == 2

    async def test_a_shadow_s_claims_are_only_shown(self) -> None:
        way = FakeWay()
        a, b = pod_view("a"), pod_view("b")
        async with side_of(way) as side:
            said = await side.round([a, b], claim(1, a, b), mode=StrategyMode.SHADOW)
            assert said == ["would be evicted: memory is short (MemoryEvict)"]
            assert side.decided[0][1] is StrategyMode.SHADOW
            # It stands in nobody's way.
            assert await side.round([a, b], claim(1, a, b)) == [
                "is to be evicted: memory is short (MemoryEvict)"
            ]
        assert way.asked == [("a", 30.0, False)]

    async def test_a_shadow_counts_what_really_goes(self) -> None:
        a, b = pod_view("a"), pod_view("b")
        async with side_of(FakeWay()) as side:
            side.clock.at += 1
            both = [(WHO, StrategyMode.ON, claim(1, a)), ("t", StrategyMode.SHADOW, claim(1, a, b))]
            found = side.evictor.consider(side.seen([a, b]), both, [])
        assert [(name, one.outcome.split(":")[0]) for name, _, one in found] == [
            (WHO, "is to be evicted"),
            ("t", "memory"),
        ]

    async def test_a_shadow_tells_nobody(self, api: KubeApi, client: Client) -> None:
        a = pod_view("a")
        async with side_of(FakeWay(), client) as side:
            soft = claim(1, a, notice_seconds=60.0)
            notice = PodNotice(a, "Slow", "is slow")
            await side.round([a], soft, mode=StrategyMode.SHADOW, notices=[notice])
            assert not side.evictor._announcer._waiting

    async def test_a_dry_run_alarms_nobody(self, api: KubeApi, client: Client) -> None:
        a, b = put_pod(api, "a"), put_pod(api, "b")
        notices = [
            PodNotice(a, "MayBeEvicted", "may be evicted", of_eviction=True),
            PodNotice(b, "CPUInterference", "is slowed down"),
        ]
        async with side_of(EvictionApiBackend(client), client, why_not="--evict-dry-run") as side:
            await side.round([a, b], notices=notices)
            [event] = await events_of(api, 1)
        assert event["reason"] == "CPUInterference"
        async with side_of(EvictionApiBackend(client), client) as side:
            await side.round([a, b], notices=notices, after=2.0)
            reasons = [one["reason"] for one in await events_of(api, 3)]
        assert sorted(reasons) == ["CPUInterference", "CPUInterference", "MayBeEvicted"]

    async def test_no_way_is_a_dry_run_with_its_reason(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        a = pod_view("a")
        async with side_of(None, why_not="there is no API") as side:
            await side.round([a], claim(1, a))
        [line] = [one for one in caplog.records if one.message == "would evict"]
        assert line.fields["reason"] == "there is no API"  # type: ignore[attr-defined]

    async def test_who_may_not_go_stays(self) -> None:
        way = FakeWay()
        static = pod_view("static", annotations={"kubernetes.io/config.source": "file"})
        me = pod_view("me", uid="own")
        plain = pod_view("plain")
        async with side_of(way, own=frozenset({"own"})) as side:
            said = await side.round([static, me, plain], claim(3, static, me, plain))
            strict = await side.round([plain], claim(1, plain, opt_in=True))
        assert [uid for uid, *_ in way.asked] == ["plain"]
        assert said[:2] == [
            "not evicted for memory: is a static pod",
            "not evicted for memory: is koordlet's own pod",
        ]
        assert "enough" in strict[-1]


class TestNotices:
    async def test_a_soft_eviction_tells_first(self, api: KubeApi, client: Client) -> None:
        a = put_pod(api, "a")
        soft = claim(1, a, notice_seconds=60.0)
        async with side_of(EvictionApiBackend(client), client) as side:
            assert (await side.round([a], soft))[0].startswith("is evicted for memory soon")
            for _ in range(5):
                await side.round([a], soft, after=10)
            assert not ends(api, a)
            [event] = await events_of(api, 1)
            assert (event["reason"], event["type"]) == ("evictPodSoon", "Warning")
            await side.round([a], soft, after=10)
            assert ends(api, a)

    async def test_what_a_strategy_has_to_say(self, api: KubeApi, client: Client) -> None:
        notice = PodNotice(pod_view("a"), "CPUInterference", "is slowed down", warning=False)
        async with side_of(EvictionApiBackend(client), client) as side:
            await side.round([pod_view("a")], notices=[notice])
            [event] = await events_of(api, 1)
        assert (event["reason"], event["type"]) == ("CPUInterference", "Normal")


class TestOutcomes:
    async def test_what_may_not_wait_is_said_to_the_way(self) -> None:
        way = FakeWay()
        a = pod_view("a", grace_seconds=90)
        async with side_of(way) as side:
            await side.round([a], claim(1, a, forced=True))
        assert way.asked == [("a", 90.0, True)]

    async def test_a_pod_that_does_not_go_is_told_of_and_another_goes(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        way = FakeWay()
        a, b = pod_view("a"), pod_view("b")
        async with side_of(way) as side:
            await side.round([a, b], claim(1, a, b))
            await side.round([a, b], claim(1, a, b), after=58)
            assert [uid for uid, *_ in way.asked] == ["a"]
            said = await side.round([a, b], claim(1, a, b), after=2)
            assert said[0].startswith("has not gone since it was evicted")
            assert side.decided[0][0] == WHO
            assert [uid for uid, *_ in way.asked] == ["a", "b"]
            assert side.evictor.counts.outcomes["late"] == 1
        assert "pod still terminating" in caplog.text

    async def test_one_that_ends_for_other_reasons_is_nobody_s_news(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        a = pod_view("a", terminating=True)
        b = pod_view("b")
        way = FakeWay()
        async with side_of(way) as side:
            said = await side.round([a, b], claim(1, a, b))
            assert "enough is freed" in said[0]
            assert side.evictor.evicting() == {"a"}
            said = await side.round([a, b], claim(1, a, b), after=61)
            assert said[0] == "not evicted for memory: ends already"
        assert [uid for uid, *_ in way.asked] == ["b"]
        assert "pod still terminating" not in caplog.text

    async def test_a_defect_costs_one_eviction(self, caplog: pytest.LogCaptureFixture) -> None:
        way = FakeWay(RuntimeError("broken"))
        a, b = pod_view("a"), pod_view("b")
        async with side_of(way) as side:
            await side.round([a, b], claim(1, a, b))
            await side.round([a, b], claim(1, a, b))
            assert [one.end for one in side.evictor.recent()] == [
                EvictionResult.UNKNOWN,
                EvictionResult.EVICTED,
            ]
        assert "not evicted" in caplog.text
        assert way.closed == 1

    async def test_only_the_last_attempts_are_remembered(self) -> None:
        pods = [pod_view(f"p{number}") for number in range(70)]
        async with side_of(FakeWay(), limits=EvictionLimits(100, 0, 0)) as side:
            await side.round(pods, claim(70, *pods))
            assert len(side.evictor.recent()) == 64
            assert side.evictor.counts.outcomes == {"evicted": 70}

    async def test_containers_that_were_stopped_in_vain_count(self) -> None:
        again = EvictionOutcome(
            EvictionResult.FAILED, "started again by the kubelet", disrupted=True
        )
        way = FakeWay(again, pod_stays=True)
        a, b = pod_view("a"), pod_view("b")
        async with side_of(way, limits=EvictionLimits(1, 0, 0)) as side:
            await side.round([a, b], claim(1, a, b))
            said = await side.round([a, b], claim(1, a, b))
            assert said[-1].endswith("1 evictions a minute are the most")
        assert [uid for uid, *_ in way.asked] == ["a"]

    async def test_a_pod_that_stays_is_gone_with_its_containers(self) -> None:
        way = FakeWay(pod_stays=True)
        a = pod_view("a")
        async with side_of(way) as side:
            await side.round([a], claim(1, a))
            assert side.evictor.evicting() == {"a"}
            ended = replace(a, record=replace(a.record, containers={}))
            await side.round([ended])
            assert side.evictor.evicting() == frozenset()


@hypothesis_settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.floats(0.5, 20), st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=20
    ),
    st.integers(0, 3),
)
def test_no_minute_sees_more_than_the_budget(
    rounds: list[tuple[float, int, int]], per_minute: int
) -> None:
    times: list[float] = []

    async def run() -> None:
        way = FakeWay()
        async with side_of(way, limits=EvictionLimits(per_minute, 0, 0)) as side:
            for number, (pause, forced, need) in enumerate(rounds):
                pods = [pod_view(f"p{number}-{each}") for each in range(5)]
                before = len(way.asked)
                await side.round(pods, claim(need, *pods, forced=not forced), after=pause)
                times.extend([side.clock.at] * (len(way.asked) - before))

    asyncio.run(run())
    for end in times:
        assert sum(end - 60 < one <= end for one in times) <= per_minute


class TestMetrics:
    async def test_koordinator_s_names_and_ours(self) -> None:
        way = FakeWay(
            EvictionOutcome(EvictionResult.EVICTED), EvictionOutcome(EvictionResult.REFUSED, "no")
        )
        a, b = pod_view("a"), pod_view("b")
        async with side_of(way) as side:
            await side.round([a, b], claim(2, a, b))
            registry = CollectorRegistry()
            evictor = side.evictor
            registry.register(
                EvictionMetrics("node-1", evictor.counts, lambda: len(evictor.evicting()))
            )
            text = generate_latest(registry).decode()
        for line in (
            'koordlet_pod_eviction{node="node-1",reason="MemoryEvict"} 1.0',
            'koordlet_pod_eviction_detail{node="node-1",pod_name="a",pod_namespace="ns",reason="',
            'koordlet_evictions_total{node="node-1",outcome="evicted"} 1.0',
            'koordlet_evictions_total{node="node-1",outcome="refused"} 1.0',
            "koordlet_pods_evicting 1.0",
        ):
            assert line in text

    def test_rows_of_pods_are_bounded(self) -> None:
        from koordlet.qos_manager.eviction.metrics import EvictionCounts

        counts = EvictionCounts()
        for number in range(300):
            counts.ended(EvictionResult.EVICTED, "MemoryEvict", "ns", f"p{number}")
        assert len(counts.by_pod) == 256
        assert counts.by_rule == {"MemoryEvict": 300}


class FakeCluster:
    name = "node-1"

    def __init__(self, client: object) -> None:
        self.client = client


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
async def test_the_way_is_the_settings(flags: dict[str, bool], clustered: bool, name: str) -> None:
    cluster: Any = FakeCluster(object()) if clustered else None
    evictor = open_evictor(KoordletSettings(**flags), cluster, {"POD_UID": "u"})
    assert evictor.way == name
    assert bool(evictor.why_not) == (not name)
    assert evictor._own == {"u"}


async def test_limits_are_the_settings() -> None:
    given = KoordletSettings(
        evictions_per_minute=3, cpu_evict_cool_time_seconds=7, memory_evict_cool_time_seconds=9
    )
    limits = open_evictor(given, None, {})._account.limits
    assert limits == EvictionLimits(3, 7, 9)
