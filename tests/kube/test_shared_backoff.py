"""All that wait for one API server are woken by whoever reaches it first."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from koord_kube.client import Client, Cluster
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.core.retry_schedule import RequestRetry, RetryTiming
from koord_kube.informer import Informer
from koord_kube.protocol.api import ApiError
from koord_kube.protocol.resources import LEASES, NODE_SLOS, NODES, PODS
from koord_kube.shared_backoff import SharedBackoff

from tests.support.kube_api import KubeApi
from tests.support.waiting import until

NOT_IN_THIS_TEST = 1e6
"""Seconds."""
ALONE = ReflectorTiming(first=NOT_IN_THIS_TEST, cap=NOT_IN_THIS_TEST)
"""So that no informer comes back by itself."""
KINDS = (NODES, PODS, LEASES, NODE_SLOS)


@pytest.fixture
async def informers(api: KubeApi) -> AsyncIterator[list[Informer[object]]]:
    """Of several kinds, half of them on connections of their own, all in sync."""
    backoff = SharedBackoff(RetryTiming(probe=0.2, spread=0.1))
    async with (
        Client(Cluster(api.url, backoff=backoff)) as client,
        client.separate(2) as other,
        asyncio.TaskGroup() as group,
    ):
        made: list[Informer[object]] = [
            Informer(one, kind, decode=json.loads, timing=ALONE, chance=lambda: 1.0)
            for kind, one in zip(KINDS, (client, other) * 2, strict=True)
        ]
        tasks = [group.create_task(one.run()) for one in made]
        for one in made:
            await one.wait_synced()
        yield made
        for task in tasks:
            task.cancel()


def test_an_informer_alone_does_not_load_the_client() -> None:
    """Some megabytes, which a node without a cluster does not need."""
    program = "import sys, koord_kube.informer; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_after_an_outage_all_are_back(
    api: KubeApi, informers: list[Informer[object]]
) -> None:
    await until(lambda: api.open_watches() == len(KINDS))
    for _ in range(2):
        await api.stop()
        await asyncio.sleep(0.5)
        known = {one: one.synced_at for one in informers}
        await api.start()
        await until(lambda: all(one.synced_at > known[one] for one in informers))  # noqa: B023
        await until(lambda: api.open_watches() == len(KINDS))


async def test_one_that_was_asked_to_wait_does(
    api: KubeApi, informers: list[Informer[object]]
) -> None:
    await until(lambda: api.open_watches() == len(KINDS))
    await api.stop()
    api.fail(plural="pods", status=429, retry_after=NOT_IN_THIS_TEST)
    await api.start()
    await until(lambda: api.open_watches() == len(KINDS) - 1)
    await until(lambda: api.count("watch", "pods") == 2)  # the second was answered with 429
    await asyncio.sleep(0.5)
    assert api.count("watch", "pods") == 2


async def test_a_pause_ends_in_its_time_or_with_a_success() -> None:
    backoff = SharedBackoff(RetryTiming(probe=NOT_IN_THIS_TEST, spread=0.0))
    await backoff.pause(RequestRetry(), 0.01)
    waiting = asyncio.get_running_loop().create_task(
        backoff.pause(RequestRetry(), NOT_IN_THIS_TEST)
    )
    await asyncio.sleep(0)
    backoff.succeeded()
    await waiting


async def test_a_write_wakes_the_others_as_well(api: KubeApi) -> None:
    backoff = SharedBackoff(RetryTiming(probe=NOT_IN_THIS_TEST, spread=0.0))
    async with Client(Cluster(api.url, backoff=backoff)) as client:
        waiting = asyncio.get_running_loop().create_task(
            backoff.pause(RequestRetry(), NOT_IN_THIS_TEST)
        )
        api.fail(status=503)
        with pytest.raises(ApiError):
            await client.create(NODES, {"metadata": {"name": "n1"}})
        assert not waiting.done()
        await client.create(NODES, {"metadata": {"name": "n1"}})
        await waiting
