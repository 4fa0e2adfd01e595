"""Writes of a program that may or may not lead."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import anyio
import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.core.token_bucket import TokenBucket
from koord_kube.protocol.api import Api, NotLeadingError
from koord_kube.protocol.resources import NODE_METRICS, NODES

from tests.support.kube_api import KubeApi
from tests.support.listing import listed
from tests.support.processes import PATIENCE

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
LABELS = {"metadata": {"labels": {"a": "b"}}}
WRITES: list[Callable[[Api], Awaitable[object]]] = [
    lambda api: api.create(NODES, NODE | {"metadata": {"name": "n2"}}),
    lambda api: api.patch(NODES, "n1", LABELS),
    lambda api: api.replace(NODES, "n1", NODE),
    lambda api: api.delete(NODES, "n1"),
]


@pytest.fixture
async def client(api: KubeApi) -> AsyncIterator[Client]:
    async with Client(Cluster(api.url), Limits(qps=0, answer=PATIENCE)) as made:
        yield made


@pytest.mark.parametrize("write", WRITES)
async def test_only_the_leader_writes(
    api: KubeApi, client: Client, write: Callable[[Api], Awaitable[object]]
) -> None:
    api.put(NODES, NODE)
    leads = False
    fenced = client.fenced(lambda: leads)
    with pytest.raises(NotLeadingError, match=r"^nodes.*: not written, this program does not lead"):
        await write(fenced)
    assert api.asked == []
    leads = True
    await write(fenced)
    assert len(api.asked) == 1


async def test_everybody_reads(api: KubeApi, client: Client) -> None:
    api.put(NODES, NODE)
    fenced = client.fenced(lambda: False)
    assert (await fenced.get(NODES, "n1"))["metadata"]["name"] == "n1"
    found, version = await listed(fenced, NODES)
    assert len(found) == 1
    async with aclosing(fenced.watch(NODES, version)) as changes:
        assert (await anext(changes)).type == "BOOKMARK"


async def test_what_is_not_fenced_writes_beside_it(api: KubeApi, client: Client) -> None:
    api.put(NODES, NODE)
    fenced = client.fenced(lambda: False)
    await client.patch(NODES, "n1", LABELS)
    await fenced.fenced(lambda: True).patch(NODES, "n1", LABELS)
    assert api.count("patch") == 2


async def test_who_no_longer_leads_when_its_turn_comes_does_not_write(
    api: KubeApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.put(NODES, NODE)
    leads = True
    sleep = anyio.sleep
    waits: list[float] = []

    async def loses(seconds: float) -> None:
        nonlocal leads
        waits.append(seconds)
        leads = leads and seconds < 100
        await sleep(0)

    fenced = client.fenced(lambda: leads, TokenBucket(0.001, 1))
    with monkeypatch.context() as patched:
        patched.setattr(anyio, "sleep", loses)
        await fenced.patch(NODES, "n1", LABELS)
        with pytest.raises(NotLeadingError):
            await fenced.patch(NODES, "n1", {"metadata": {"labels": {"a": "c"}}})
    assert max(waits) > 900
    assert api.count("patch") == 1


async def test_not_leading_has_no_status(client: Client) -> None:
    with pytest.raises(NotLeadingError) as found:
        await client.fenced(lambda: False).delete(NODE_METRICS, "n1")
    assert found.value.status == 0
    assert str(found.value) == "nodemetrics n1: not written, this program does not lead"
