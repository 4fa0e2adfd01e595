"""Writes of a program that may or may not lead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

import anyio
import pytest
from koord_kube.client import Client
from koord_kube.core.token_bucket import TokenBucket
from koord_kube.protocol.api import Api, NotLeadingError
from koord_kube.protocol.resources import NODES

from tests.support.kube_api import KubeApi
from tests.support.listing import listed

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
LABELS = {"metadata": {"labels": {"a": "b"}}}
WRITES: dict[str, Callable[[Api], Awaitable[object]]] = {
    "create": lambda api: api.create(NODES, NODE | {"metadata": {"name": "n2"}}),
    "patch": lambda api: api.patch(NODES, "n1", LABELS),
    "replace": lambda api: api.replace(NODES, "n1", NODE),
    "delete": lambda api: api.delete(NODES, "n1"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_only_the_leader_writes(
    api: KubeApi, client: Client, write: Callable[[Api], Awaitable[object]]
) -> None:
    api.put(NODES, NODE)
    leads = False
    fenced = client.fenced(lambda: leads)
    message = r"^nodes( n1)?: not written, this program does not lead$"
    with pytest.raises(NotLeadingError, match=message) as found:
        await write(fenced)
    assert (found.value.status, api.asked) == (0, [])
    leads = True
    await write(fenced)
    assert len(api.asked) == 1


async def test_everybody_reads_and_other_clients_write(api: KubeApi, client: Client) -> None:
    api.put(NODES, NODE)
    fenced = client.fenced(lambda: False)
    assert (await fenced.get(NODES, "n1"))["metadata"]["name"] == "n1"
    found, version = await listed(fenced, NODES)
    assert len(found) == 1
    async with aclosing(fenced.watch(NODES, version)) as changes:
        assert (await anext(changes)).type == "BOOKMARK"
    await client.patch(NODES, "n1", LABELS)
    await fenced.fenced(lambda: True).patch(NODES, "n1", LABELS)
    assert api.count("patch") == 2


async def test_a_write_that_waited_until_the_lead_was_lost(
    api: KubeApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.put(NODES, NODE)
    leads = True
    sleep = anyio.sleep
    waits: list[float] = []

    async def lose(seconds: float) -> None:
        nonlocal leads
        waits.append(seconds)
        leads = leads and seconds < 100
        await sleep(0)

    fenced = client.fenced(lambda: leads, TokenBucket(0.001, 1))
    with monkeypatch.context() as patched:
        patched.setattr(anyio, "sleep", lose)
        await fenced.patch(NODES, "n1", LABELS)
        with pytest.raises(NotLeadingError):
            await fenced.patch(NODES, "n1", {"metadata": {"labels": {"a": "c"}}})
    assert max(waits) > 900
    assert api.count("patch") == 1
