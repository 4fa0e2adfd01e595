"""Events as they are written."""

from __future__ import annotations

import anyio
from koord_kube.answers import TaskSubmitter
from koord_kube.background_writer import BackgroundWriter
from koord_kube.client import Client
from koord_kube.core.events import EventSource, reference
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import CONFIG_MAPS, EVENTS, NODES

from tests.support.kube_api import KubeApi
from tests.support.waiting import until

CONFIG = reference(CONFIG_MAPS, "slo-controller-config", "koordinator-system", "u-1")
NODE = reference(NODES, "n1", uid="u-2")


async def written(api: KubeApi, recorder: EventRecorder) -> list[Object]:
    """All that were recorded until now."""
    async with anyio.create_task_group() as group:
        group.start_soon(recorder.run)
        await anyio.wait_all_tasks_blocked()
        await until(lambda: not recorder._writer._waiting and not recorder._writer._under_way)
        group.cancel_scope.cancel()
    return [one for key, one in api.objects.items() if key.resource == EVENTS]


def recorder_of(client: Client, now: list[float]) -> EventRecorder:
    writer = BackgroundWriter(TaskSubmitter(client.write).submit, client.backoff)
    source = EventSource("koord-manager", "manager-1")
    return EventRecorder(writer, source, monotonic=lambda: now[0])


async def test_the_api_takes_them(api: KubeApi, client: Client) -> None:
    recorder = recorder_of(client, [0.0])
    recorder.record(CONFIG, "BadKey", "it is bad", warning=True)
    recorder.record(NODE, "Degraded", "no metrics")
    found = [
        (one["metadata"]["namespace"], one["type"], one["count"], one["source"])
        for one in await written(api, recorder)
    ]
    source = {"component": "koord-manager", "host": "manager-1"}
    assert sorted(found) == [
        ("default", "Normal", 1, source),
        ("koordinator-system", "Warning", 1, source),
    ]


async def test_an_event_is_repeated_after_five_minutes(api: KubeApi, client: Client) -> None:
    now = [0.0]
    recorder = recorder_of(client, now)
    for reason, message in [("R", "m")] * 3 + [("R", "other"), ("Q", "m")]:
        recorder.record(NODE, reason, message)
    assert len(await written(api, recorder)) == 3
    assert recorder.counts["repeated"] == 2
    now[0] = 300.0
    recorder.record(NODE, "R", "m")
    assert sorted(one["count"] for one in await written(api, recorder)) == [1, 1, 1, 3]


async def test_ever_new_messages_are_combined(api: KubeApi, client: Client) -> None:
    recorder = recorder_of(client, [0.0])
    for number in range(12):
        recorder.record(NODE, "R", f"m {number}")
    messages = {one["message"] for one in await written(api, recorder)}
    combined = "(combined from similar events): m 9"
    assert messages == {f"m {number}" for number in range(9)} | {combined}
