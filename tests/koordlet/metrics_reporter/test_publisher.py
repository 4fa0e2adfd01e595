from __future__ import annotations

import asyncio
import contextlib

import pytest
from koord_kube.client import Client
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import DEVICES
from koord_model.keys import LABEL_GPU_VENDOR
from koordlet.metrics_reporter.documents.device import change
from koordlet.metrics_reporter.publisher import ObjectPublisher

from tests.support.kube_api import KubeApi
from tests.support.listing import listed
from tests.support.waiting import until


class Wanted:
    """What is to be published; keeps what others have added."""

    def __init__(self) -> None:
        self.devices: list[int] | None = [1]
        self.labels = {LABEL_GPU_VENDOR: "x"}

    def build(self, there: Object | None) -> Object | None:
        if self.devices is None:
            return None
        metadata = {"name": "n1", "labels": self.labels, "ownerReferences": []}
        kind = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device"}
        return {**kind, "metadata": metadata, "spec": spec(*self.devices)}


def spec(*minors: int) -> Object:
    return {"devices": [{"type": "gpu", "id": f"GPU-{n}", "minor": n} for n in minors]}


class Clock:
    at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def wanted() -> Wanted:
    return Wanted()


@pytest.fixture
def publisher(client: Client, wanted: Wanted, clock: Clock) -> ObjectPublisher:
    return ObjectPublisher(
        client,
        DEVICES,
        "n1",
        wanted.build,
        change,
        now=lambda: 1e9 + clock.at,
        monotonic=clock,
        chance=lambda: 1.0,
        reread_seconds=300.0,
    )


def verbs(api: KubeApi) -> list[str]:
    done = [one.verb for one in api.asked]
    api.asked.clear()
    return done


async def test_it_is_created_then_looked_at_and_written_only_when_it_differs(
    api: KubeApi, publisher: ObjectPublisher, wanted: Wanted
) -> None:
    wanted.devices = None
    for _ in range(10):
        assert await publisher.round() == 3.0
    assert verbs(api) == ["get"]
    wanted.devices = [1]
    await publisher.round()
    assert verbs(api) == ["create"]
    for _ in range(10):
        assert await publisher.round() == 3.0
    assert verbs(api) == []
    wanted.devices = [1, 2]
    await publisher.round()
    await publisher.round()
    assert verbs(api) == ["patch"]
    assert api.get(DEVICES, "n1")["spec"] == spec(1, 2)
    assert (publisher.state.created, publisher.state.patched) == (1, 1)


async def test_what_somebody_changed_or_deleted_is_put_right(
    api: KubeApi, publisher: ObjectPublisher, clock: Clock
) -> None:
    await publisher.round()
    api.put(DEVICES, {"metadata": {"name": "n1"}, "spec": spec()})
    await publisher.round()
    assert api.get(DEVICES, "n1")["spec"] == spec()
    clock.at += 300
    await publisher.round()
    assert api.get(DEVICES, "n1")["spec"] == spec(1)
    api.delete(DEVICES, "n1")
    clock.at += 300
    await publisher.round()
    assert api.get(DEVICES, "n1")["spec"] == spec(1)


async def test_one_that_somebody_created_meanwhile_is_changed(
    api: KubeApi, publisher: ObjectPublisher, wanted: Wanted
) -> None:
    wanted.devices = None
    await publisher.round()
    api.put(DEVICES, {"metadata": {"name": "n1", "annotations": {"theirs": "1"}}, "spec": {}})
    wanted.devices = [1]
    await publisher.round()
    await publisher.round()
    kept = api.get(DEVICES, "n1")
    assert kept["spec"] == spec(1)
    assert kept["metadata"]["annotations"] == {"theirs": "1"}


async def test_a_change_by_somebody_faster_is_not_lost(
    api: KubeApi, publisher: ObjectPublisher, wanted: Wanted
) -> None:
    await publisher.round()
    faster = api.get(DEVICES, "n1")
    faster["metadata"]["annotations"] = {"theirs": "1"}
    api.put(DEVICES, faster)
    wanted.devices = [1, 2]
    assert await publisher.round() == 3.0
    assert publisher.state.problem == ""
    assert api.get(DEVICES, "n1")["spec"] == spec(1)
    await publisher.round()
    kept = api.get(DEVICES, "n1")
    assert kept["spec"] == spec(1, 2)
    assert kept["metadata"]["annotations"] == {"theirs": "1"}


async def test_problem_is_said_once_and_waited_out(
    api: KubeApi, publisher: ObjectPublisher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "pykoord")
    api.installed.discard(DEVICES)
    waits = [await publisher.round() for _ in range(9)]
    assert waits == [3, 6, 12, 24, 48, 96, 192, 300, 300]
    assert "404" in publisher.state.problem or "not" in publisher.state.problem
    api.installed.add(DEVICES)
    assert await publisher.round() == 3
    assert (publisher.state.failures, publisher.state.problem) == (9, "")
    said = [one.getMessage() for one in caplog.records if "publisher" in one.name]
    assert said == ["cannot publish", "publishing again"]


async def test_it_waits_as_long_as_the_server_asks(
    api: KubeApi, publisher: ObjectPublisher
) -> None:
    api.fail(status=503, retry_after=200)
    assert [await publisher.round(), await publisher.round()] == [200, 3]


async def test_when_it_was_last_as_it_should_be(
    api: KubeApi, publisher: ObjectPublisher, wanted: Wanted, clock: Clock
) -> None:
    wanted.devices = None
    await publisher.round()
    assert publisher.state.reported_at == 0, "there is nothing to publish yet"
    wanted.devices = [1]
    for at in (10.0, 20.0):
        clock.at = at
        await publisher.round()
        assert publisher.state.reported_at == 1e9 + at, "written, then found unchanged"
    clock.at, wanted.devices = 30.0, [1, 2]
    api.fail(status=503)
    await publisher.round()
    assert publisher.state.reported_at == 1e9 + 20


async def test_a_defect_is_said_and_waited_out(
    api: KubeApi, client: Client, wanted: Wanted
) -> None:
    defects = [KeyError("vendor")]

    def build(there: Object | None) -> Object | None:
        if defects:
            raise defects.pop()
        return wanted.build(there)

    publisher = ObjectPublisher(client, DEVICES, "n1", build, change, chance=lambda: 1.0)
    assert await publisher.round() == 3.0
    assert "vendor" in publisher.state.problem
    await publisher.round()
    assert (publisher.state.problem, publisher.state.created) == ("", 1)


async def test_it_runs_until_cancelled(api: KubeApi, client: Client, wanted: Wanted) -> None:
    slept = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    publisher = ObjectPublisher(client, DEVICES, "n1", wanted.build, change, sleep=sleep)
    task = asyncio.gather(publisher.run())
    while len(slept) < 5:
        await asyncio.sleep(0.001)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert set(slept) == {3.0}
    assert verbs(api) == ["get", "create"]


async def test_it_is_written_right_after_an_outage(
    api: KubeApi, client: Client, wanted: Wanted
) -> None:
    await api.stop()
    long = 1e6
    publisher = ObjectPublisher(client, DEVICES, "n1", wanted.build, change, interval=long)
    task = asyncio.gather(publisher.run())
    await until(lambda: publisher.state.failures == 1)
    await api.start()
    await listed(client, DEVICES)  # any request of the program's that succeeds
    await until(lambda: publisher.state.created == 1)
    task.cancel()
