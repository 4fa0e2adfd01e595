"""Events as they are written."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from koord_kube.api import Object
from koord_kube.client import Client, Cluster, Limits
from koord_kube.events import reference
from koord_kube.recorder import Recorder
from koord_kube.resources import CONFIG_MAPS, EVENTS, NODES

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE

CONFIG = reference(CONFIG_MAPS, "slo-controller-config", "koordinator-system", "u-1")
NODE = reference(NODES, "n1", uid="u-2")


@pytest.fixture
async def client(api: KubeApi) -> AsyncIterator[Client]:
    async with Client(Cluster(api.url), Limits(qps=0, answer=PATIENCE)) as made:
        yield made


def written(api: KubeApi) -> list[Object]:
    return [one for key, one in api.objects.items() if key.resource == EVENTS]


async def test_the_api_takes_them(api: KubeApi, client: Client) -> None:
    recorder = Recorder(client, "koord-manager", "manager-1")
    await recorder.tell(CONFIG, "BadKey", "it is bad", warning=True)
    await recorder.tell(NODE, "Degraded", "no metrics")
    found = [(one["metadata"]["namespace"], one["type"], one["count"]) for one in written(api)]
    assert found == [("koordinator-system", "Warning", 1), ("default", "Normal", 1)]


async def test_the_same_is_said_again_after_five_minutes(api: KubeApi, client: Client) -> None:
    now = 0.0
    recorder = Recorder(client, "koord-manager", clock=lambda: now)
    for _ in range(3):
        await recorder.tell(NODE, "R", "m")
    for other in (("R", "other"), ("Q", "m")):
        await recorder.tell(NODE, *other)
    assert len(written(api)) == 3
    now = 300.0
    await recorder.tell(NODE, "R", "m")
    assert [one["count"] for one in written(api)] == [1, 1, 1, 3]


async def test_a_failure_is_told_once_and_raised_never(api: KubeApi, client: Client) -> None:
    told: list[str] = []
    recorder = Recorder(client, "koord-manager", failed=told.append)
    api.fail(status=403, times=2)
    for number in range(4):
        await recorder.tell(NODE, "R", f"m {number}")
    assert told == ["events default: 403 this is a test (Events are not written)"]
    assert len(written(api)) == 2


async def test_who_does_not_lead_says_nothing(api: KubeApi, client: Client) -> None:
    told: list[str] = []
    recorder = Recorder(client.fenced(lambda: False), "koord-manager", failed=told.append)
    await recorder.tell(NODE, "R", "m")
    assert (told, written(api)) == ([], [])
