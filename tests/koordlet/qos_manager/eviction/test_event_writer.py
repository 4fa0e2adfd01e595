"""Events on pods, and that the API takes them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from koord_kube.client import Client
from koord_kube.protocol.resources import EVENTS
from koord_model.pod import Pod
from koordlet.qos_manager.core.strategy import (
    Decision,
    EvictionClaim,
    EvictionVictim,
    PodNotice,
    StrategyMode,
    Term,
)
from koordlet.qos_manager.eviction.event_writer import PodEventWriter
from koordlet.qos_manager.eviction.policy.backend import EvictionOutcome, EvictionResult
from koordlet.qos_manager.eviction.policy.events import (
    FAILURE,
    SOON,
    SUCCESS,
    PodEvent,
    event,
    of_notice,
    of_outcome,
    of_warned,
)
from koordlet.qos_manager.eviction.policy.selection import Eviction, EvictionWarning

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE
from tests.support.views import AT, pod_view

POD = pod_view("web-1", uid="u-1")
SHORT = Decision("memory is short", "used − limit", (Term("used", 9 << 30, "bytes"),))
CLAIM = EvictionClaim("MemoryEvict", "memory", 5.0, (EvictionVictim(POD, 5.0),), SHORT)
EVICTION = Eviction(
    POD,
    "memory_evict",
    StrategyMode.ON,
    CLAIM,
    replace(SHORT, outcome="is to be evicted: memory is short (MemoryEvict)"),
)
SAYING = PodEvent(POD.record.pod, SUCCESS, "evicted")


def test_an_eviction_is_told_with_its_numbers() -> None:
    said = of_outcome(EVICTION, EvictionOutcome(EvictionResult.EVICTED), "the Eviction API")
    assert (said.reason, said.warning) == (SUCCESS, True)
    assert said.message == (
        "evicted by the Eviction API for memory_evict: memory is short (MemoryEvict) "
        "(used − limit with used 9 GiB)"
    )


def test_one_that_failed_is_told_with_its_reason() -> None:
    said = of_outcome(EVICTION, EvictionOutcome(EvictionResult.REFUSED, "a budget forbids it"), "")
    assert said.reason == FAILURE
    assert said.message.startswith("not evicted (a budget forbids it), wanted for memory_evict: ")


def test_a_pod_is_told_in_time() -> None:
    said = of_warned(EvictionWarning(POD, "memory_evict", CLAIM, 60.0))
    assert said.reason == SOON
    assert said.message.startswith("is evicted in 60 s if nothing changes, for memory_evict: ")


@pytest.mark.parametrize(("warning", "type_"), [(True, "Warning"), (False, "Normal")])
def test_a_strategy_s_notice(warning: bool, type_: str) -> None:
    said = of_notice("interference", PodNotice(POD, "CPUInterference", "is slowed down", warning))
    assert said.message == "is slowed down (interference)"
    assert event(said, "node-1", AT)["type"] == type_


def test_the_object() -> None:
    found = event(SAYING, "node-1", 1_800_000_000.5, 3)
    assert found["metadata"] == {"name": f"web-1.{1_800_000_000_500_000_000:x}", "namespace": "ns"}
    assert found["involvedObject"]["uid"] == "u-1"
    assert found["firstTimestamp"] == found["lastTimestamp"] == "2027-01-15T08:00:00Z"
    assert (found["source"], found["reportingComponent"], found["reportingInstance"]) == (
        {"component": "koordlet", "host": "node-1"}, "koordlet", "node-1",
    )  # fmt: skip
    assert found["count"] == 3


def test_other_pods_and_reasons_are_others() -> None:
    other = PodEvent(Pod("web-1", "ns", "u-2"), SUCCESS, "evicted")
    assert len({SAYING.key, SAYING._replace(reason=FAILURE).key, other.key}) == 3
    assert SAYING._replace(message="evicted, 9 GiB").key == SAYING.key


class TestAnnouncer:
    async def test_the_api_takes_it(self, api: KubeApi, client: Client) -> None:
        announcer = PodEventWriter(client, "node-1")
        await written(announcer, api, 1)
        [found] = [one for key, one in api.objects.items() if key.resource == EVENTS]
        assert (found["reason"], found["metadata"]["namespace"]) == (SUCCESS, "ns")
        assert announcer.counts == {"written": 1}

    async def test_it_is_tried_again(self, api: KubeApi, client: Client) -> None:
        api.fail(status=503, times=2)
        announcer = PodEventWriter(client, "node-1", sleep=no_sleep)
        await written(announcer, api, 3)
        assert announcer.counts == {"written": 1}

    @pytest.mark.parametrize(("status", "tries"), [(503, 3), (403, 1), (409, 1)])
    async def test_not_for_ever(
        self,
        api: KubeApi,
        client: Client,
        status: int,
        tries: int,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        api.fail(status=status, times=99)
        announcer = PodEventWriter(client, "node-1", sleep=no_sleep)
        announcer.say(SAYING._replace(reason="Other"), AT, 0)
        await written(announcer, api, 2 * tries)
        assert announcer.counts == {"failed": 2}
        assert caplog.text.count("Events are not written") == 1

    async def test_too_many_are_dropped_the_oldest_first(self) -> None:
        announcer = PodEventWriter(Client.__new__(Client), "node-1")
        for number in range(300):
            announcer.say(SAYING._replace(reason=str(number)), AT, 0)
        assert announcer.counts == {"dropped": 44}
        assert announcer._waiting[0]["reason"] == "44"

    async def test_without_an_api_nobody_is_told(self) -> None:
        announcer = PodEventWriter(None, "node-1")
        announcer.say(SAYING, AT, 0)
        assert not announcer._waiting

    async def test_repetitions_are_counted(self, client: Client) -> None:
        announcer = PodEventWriter(client, "node-1")
        announcer.say(SAYING, AT, 0)
        announcer.say(SAYING, AT, 1)
        assert announcer.counts == {"repeated": 1}


async def written(announcer: PodEventWriter, api: KubeApi, tries: int) -> None:
    """Say it, and wait until so many requests were answered."""
    announcer.say(SAYING, AT, 0)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        task = group.create_task(announcer.run())
        await api.wait_for("create", tries, "events")
        while announcer._waiting or sum(announcer.counts.values()) < 1:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        task.cancel()


async def no_sleep(seconds: float) -> None:
    pass
