"""Lists in pages, by a server that answers as the test has written down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest
from aiohttp import web
from koord_kube.client import Client, Cluster, Limits
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.informer import Informer
from koord_kube.protocol.api import ApiError, ListPage
from koord_kube.protocol.resources import NODES, PODS

from tests.support.listing import listed
from tests.support.processes import PATIENCE

GONE = 410


class Pages:
    """A double of the lists alone: gives what ``answers`` hold, one after the other.

    An answer is the names on a page, the version and the token for the next page, or an
    HTTP status. Holds its client to using the token that it was given, or none. Watches
    that begin with a list are refused.
    """

    def __init__(self) -> None:
        self.answers: list[tuple[list[str], str, str] | int] = []
        self.queries: list[Mapping[str, str]] = []
        self.port = 0
        self._token = ""

    async def serve(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        if query.get("sendInitialEvents"):
            return web.json_response({"kind": "Status", "code": 422}, status=422)
        if query.get("watch"):
            await asyncio.Event().wait()
        self.queries.append(dict(query))
        assert query.get("continue", "") in ("", self._token)
        assert not (query.get("continue") and query.get("resourceVersion"))
        answer = self.answers.pop(0)
        if isinstance(answer, int):
            return web.json_response({"kind": "Status", "code": answer}, status=answer)
        names, version, self._token = answer
        meta = {"resourceVersion": version}
        if self._token:
            meta["continue"] = self._token
        items: list[Any] = [{"metadata": {"name": name}} for name in names]
        return web.json_response({"metadata": meta, "items": items or None})


@pytest.fixture
async def server() -> AsyncIterator[Pages]:
    pages = Pages()
    app = web.Application()
    app.router.add_get("/{tail:.*}", pages.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    pages.port = runner.addresses[0][1]
    yield pages
    await runner.cleanup()


@pytest.fixture
async def client(server: Pages) -> AsyncIterator[Client]:
    url = f"http://127.0.0.1:{server.port}"
    async with Client(Cluster(url), Limits(answer=PATIENCE)) as made:
        yield made


async def every(client: Client, **options: str) -> list[ListPage]:
    return [page async for page in client.pages(NODES, **options)]


def names(page: ListPage) -> list[str]:
    return [msgspec.json.decode(one)["metadata"]["name"] for one in page.items]


async def test_page_after_page(server: Pages, client: Client) -> None:
    server.answers = [(["a", "b"], "7", "t1"), (["c"], "7", "t2"), ([], "7", "")]
    pages = await every(client, label_selector="x", field_selector="metadata.name=y")
    assert [(names(one), one.version, one.first) for one in pages] == [
        (["a", "b"], "7", True), (["c"], "7", False), ([], "7", False),
    ]  # fmt: skip
    selected = {"limit": "500", "labelSelector": "x", "fieldSelector": "metadata.name=y"}
    assert server.queries == [
        selected, selected | {"continue": "t1"}, selected | {"continue": "t2"},
    ]  # fmt: skip


async def test_of_any_state_it_may_come_in_pages_of_a_version_it_comes_whole(
    server: Pages, client: Client
) -> None:
    server.answers = [(["a"], "7", "t1"), ([], "7", ""), ([], "8", "")]
    assert [names(one) async for one in client.pages(NODES, version="0")] == [["a"], []]
    assert [names(one) async for one in client.pages(NODES, version="7")] == [[]]
    match = {"resourceVersionMatch": "NotOlderThan"}
    assert server.queries == [
        {"limit": "500", "resourceVersion": "0"} | match,
        {"limit": "500", "continue": "t1"},
        {"resourceVersion": "7"} | match,
    ]


async def test_a_server_that_knows_no_pages(server: Pages, client: Client) -> None:
    server.answers = [([f"n{number}" for number in range(1200)], "7", "")]
    [page] = await every(client)
    assert len(page.items) == 1200


async def test_after_an_expired_token_the_list_begins_again(server: Pages, client: Client) -> None:
    server.answers = [(["a", "b"], "7", "t1"), GONE, (["b"], "9", "t2"), (["c"], "9", "")]
    found, version = await listed(client, NODES)
    assert ([one["metadata"]["name"] for one in found], version) == (["b", "c"], "9")


@pytest.mark.parametrize(
    "answers",
    [[(["a"], "7", "t"), GONE] * 3, [GONE], [429], [500]],
    ids=["thrice expired", "gone", "too many requests", "broken"],
)
async def test_refusals(server: Pages, client: Client, answers: list[Any]) -> None:
    server.answers = list(answers)
    with pytest.raises(ApiError) as found:
        await every(client)
    assert found.value.status == answers[-1]
    assert server.answers == []


@pytest.mark.parametrize(
    ("answers", "changes", "objects"),
    [
        pytest.param(
            [(["a", "b"], "7", "t1"), GONE, (["b"], "9", "t2"), (["c"], "9", "")],
            ["+a", "+b", "+c", "-a"],
            {"b", "c"},
            id="a list that begins anew",
        ),
        pytest.param(
            [(["a"], "7", "t1"), 429, (["a"], "9", "t2"), (["b"], "9", "")],
            ["+a", "+b"],
            {"a", "b"},
            id="synced only with the last page",
        ),
    ],
)
async def test_an_informer(
    server: Pages, client: Client, answers: list[Any], changes: list[str], objects: set[str]
) -> None:
    server.answers = answers
    seen: list[str] = []
    informer = Informer(
        client,
        PODS,
        decode=lambda raw: str(msgspec.json.decode(raw)["metadata"]["name"]),
        on_change=lambda key, _, after: seen.append(f"{'+' if after else '-'}{key}"),
        timing=ReflectorTiming(first=0.001, cap=0.001),
    )
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.wait_synced()
        assert (set(informer.objects), seen, server.answers) == (objects, changes, [])
        task.cancel()
