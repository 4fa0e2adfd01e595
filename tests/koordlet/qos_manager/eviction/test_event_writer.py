"""Events on pods, and that the API takes them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from koord_kube.client import Client
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
from tests.support.views import AT, pod_view
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


@pytest.mark.parametrize(
    ("failure", "tries", "counts"),
    [
        ({}, 2, {"written": 2}),
        ({"status": 503, "times": 2}, 4, {"written": 2}),
        ({"status": 503, "times": 99}, 6, {"failed": 2}),
        ({"status": 403, "times": 99}, 2, {"failed": 2}),
        ({"status": 409, "times": 99}, 2, {"failed": 2}),
    ],
)
async def test_it_is_tried_a_few_times(
    api: KubeApi,
    client: Client,
    failure: dict[str, int],
    tries: int,
    counts: dict[str, int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    if failure:
        api.fail(**failure)
    writer = PodEventWriter(client, "node-1", sleep=no_sleep)
    for number, reason in enumerate((SUCCESS, "Other")):
        writer.record(SAYING._replace(reason=reason), AT + number, 0)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(writer.run())
        await until(lambda: sum(writer.counts.values()) == 2)
        task.cancel()
    assert writer.counts == counts
    assert len(api.asked) == tries
    assert caplog.text.count("Events are not written") == ("failed" in counts)
    found = [(one["reason"], key.namespace) for key, one in api.objects.items()]
    assert sorted(found) == ([("Other", "ns"), (SUCCESS, "ns")] if "written" in counts else [])


async def no_sleep(seconds: float) -> None:
    pass


def test_without_an_api_nothing_waits_repetitions_are_counted_and_the_oldest_dropped() -> None:
    none = PodEventWriter(None, "node-1")
    none.record(SAYING, AT, 0)
    assert not none._waiting
    writer = PodEventWriter(Client.__new__(Client), "node-1")
    for number in (0, *range(300)):
        writer.record(SAYING._replace(reason=str(number)), AT, 0)
    assert writer.counts == {"repeated": 1, "dropped": 44}
    assert writer._waiting[0]["reason"] == "44"
