"""Events on pods."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from koord_kube.answers import TaskSubmitter
from koord_kube.background_writer import BackgroundWriter
from koord_kube.client import Client
from koord_kube.core.events import EventSource
from koord_kube.core.evictions import EvictionOutcome, EvictionResult
from koord_kube.event_recorder import EventRecorder
from koord_model.pod import Pod
from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    EvictionVictim,
    PodNotice,
    StrategyMode,
    Term,
)
from koordlet.qos_manager.eviction.evictor import record_event
from koordlet.qos_manager.eviction.policy.events import (
    FAILURE,
    SOON,
    SUCCESS,
    PodEvent,
    of_notice,
    of_outcome,
    of_warned,
)
from koordlet.qos_manager.eviction.policy.selection import Eviction, EvictionWarning

from tests.support.kube_api import KubeApi
from tests.support.views import pod_view
from tests.support.waiting import until

POD = pod_view("web-1", uid="u-1")
SHORT = Decision("memory is short", "over = used − 1", (Term("used", 9 << 30, "bytes"),))
CLAIM = EvictionClaim("MemoryEvict", "memory", 5.0, (EvictionVictim(POD, 5.0),), SHORT)
EVICTION = Eviction(
    POD,
    "memory_evict",
    StrategyMode.ON,
    CLAIM,
    replace(SHORT, outcome="is to be evicted: memory is short (MemoryEvict)"),
)
SAYING = PodEvent(POD.record.pod, SUCCESS, "evicted")


@pytest.mark.parametrize(
    ("event", "reason", "message"),
    [
        (
            of_outcome(EVICTION, EvictionOutcome(EvictionResult.EVICTED), "API"),
            SUCCESS,
            "evicted by API for memory_evict: memory is short (MemoryEvict) (over = used − 1 with ",
        ),
        (
            of_outcome(EVICTION, EvictionOutcome(EvictionResult.REFUSED, "a budget"), ""),
            FAILURE,
            "not evicted (a budget), wanted for memory_evict: ",
        ),
        (
            of_warned(EvictionWarning(POD, "memory_evict", CLAIM, 60.0)),
            SOON,
            "is evicted in 60 s if nothing changes, for memory_evict: ",
        ),
    ],
)
def test_the_message_has_the_numbers(event: PodEvent, reason: str, message: str) -> None:
    assert (event.reason, event.warning) == (reason, True)
    assert event.message.startswith(message)


@pytest.mark.parametrize("warning", [True, False])
def test_a_strategy_s_notice(warning: bool) -> None:
    said = of_notice("interference", PodNotice(POD, "CPUInterference", "is slowed down", warning))
    assert (said.message, said.warning) == ("is slowed down (interference)", warning)


async def test_the_api_takes_them_and_those_of_a_pod_and_a_reason_are_equal(
    api: KubeApi, client: Client
) -> None:
    writer = BackgroundWriter(TaskSubmitter(client.write).submit, client.backoff)
    recorder = EventRecorder(writer, EventSource("koordlet", "node-1"))
    other = PodEvent(Pod("web-1", "ns", "u-2"), SUCCESS, "evicted")
    for said in (SAYING, SAYING._replace(message="evicted, 9 GiB"), other):
        record_event(recorder, said)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(recorder.run())
        await until(lambda: recorder.counts["written"] == 2)
        task.cancel()
    assert recorder.counts == {"written": 2, "repeated": 1}
    found = [(one["involvedObject"]["uid"], one["type"]) for one in api.objects.values()]
    assert sorted(found) == [("u-1", "Warning"), ("u-2", "Warning")]
