"""The API over real sockets and TLS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from koord_kube.protocol.resources import CONFIG_MAPS
from koord_manager.node_metric import api as api_module
from koord_manager.node_metric.core.store import NodeIdentity
from koord_serving.aggregated import json_stream

from tests.support.certificates import HAVE_OPENSSL, Certificates
from tests.support.kube_api import Identity, front_proxy_config_map
from tests.support.metrics_service import (
    DISCOVERS,
    READER,
    READS,
    STATUS,
    Manager,
    make_manager,
)
from tests.support.processes import PATIENCE
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates")

BASE = "/apis/metrics.koordinator.sh/v1alpha1/nodemetrics"
TERM = 5000
FIRST = TERM << 20
WRITES = ("POST", "PUT", "PATCH", "DELETE")


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[Manager]:
    made = make_manager(tmp_path)
    await made.start()
    made.lead(TERM)
    made.put("n1", "n2", "n3")
    yield made
    await made.service.stop()


class Asker:
    """A client that sees what is answered, word for word."""

    def __init__(self, manager: Manager, own: Certificates | None = None) -> None:
        self._manager = manager
        context = manager.trust
        if own is not None:
            context.load_cert_chain(own.certificate, own.key)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))

    async def __aenter__(self) -> Asker:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def open(self, path: str, method: str = "GET", token: str = READER, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= more.pop("headers", {})
        return self._session.request(method, self._manager.url + path, headers=headers, **more)

    async def get(self, path: str, status: int = 200, **more: Any) -> Any:
        async with self.open(path, **more) as response:
            body = await response.read()
            assert response.status == status, body
            return json.loads(body)


@pytest.fixture
async def asker(manager: Manager) -> AsyncIterator[Asker]:
    async with Asker(manager) as made:
        yield made


def names(document: Any) -> list[str]:
    return [one["metadata"]["name"] for one in document["items"]]


async def test_discovery(asker: Asker) -> None:
    groups = await asker.get("/apis")
    assert [one["name"] for one in groups["groups"]] == ["metrics.koordinator.sh"]
    group = await asker.get("/apis/metrics.koordinator.sh")
    assert group["preferredVersion"]["version"] == "v1alpha1"
    (resource,) = (await asker.get("/apis/metrics.koordinator.sh/v1alpha1"))["resources"]
    assert (resource["kind"], resource["verbs"]) == ("NodeMetric", ["get", "list", "watch"])
    index = await asker.get("/openapi/v3")
    (where,) = [one["serverRelativeURL"] for one in index["paths"].values()]
    assert (await asker.get(where))["openapi"] == "3.0.0"
    assert (await asker.get("/openapi/v2"))["swagger"] == "2.0"


async def test_one_object(asker: Asker) -> None:
    found = await asker.get(f"{BASE}/n2")
    assert found["metadata"]["name"] == "n2"
    assert found["status"] == json.loads(STATUS)
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    table = await asker.get(f"{BASE}/n2", headers=accept)
    assert table["rows"][0]["cells"][:3] == ["n2", "1500m", "2048Mi"]


async def test_pages_follow_each_other(asker: Asker) -> None:
    first = await asker.get(f"{BASE}?limit=2")
    assert names(first) == ["n1", "n2"]
    rest = await asker.get(f"{BASE}?limit=2&continue={first['metadata']['continue']}")
    assert names(rest) == ["n3"]
    assert "continue" not in rest["metadata"]
    assert rest["metadata"]["resourceVersion"] == str(FIRST + 3)
    assert names(await asker.get(f"{BASE}?fieldSelector=metadata.name%3Dn3")) == ["n3"]


async def test_a_large_list_comes_whole(manager: Manager, asker: Asker) -> None:
    large = b'{"x":"' + b"y" * 100_000 + b'"}'
    manager.put(*(f"m{number}" for number in range(30)), status=large)
    found = await asker.get(BASE)
    assert len(found["items"]) == 33


PROTOBUF = {"Accept": "application/vnd.kubernetes.protobuf"}


@pytest.mark.parametrize(
    ("path", "more", "status", "reason"),
    [
        (f"{BASE}/n9", {}, 404, "NotFound"),
        (f"{BASE}?limit=x", {}, 400, "BadRequest"),
        (f"{BASE}?watch=maybe", {}, 400, "BadRequest"),
        (BASE, {"headers": PROTOBUF}, 406, "NotAcceptable"),
        ("/metrics", {}, 403, "Forbidden"),
        (BASE, {"token": ""}, 401, "Unauthorized"),
        (BASE, {"token": "unknown"}, 401, "Unauthorized"),
        (BASE, {"token": "other"}, 403, "Forbidden"),
        *((f"{BASE}/n1", {"method": one}, 403, "Forbidden") for one in WRITES),
        *((BASE, {"method": one, "token": "root"}, 405, "MethodNotAllowed") for one in WRITES),
        # Of another term, or of none yet.
        (f"{BASE}?watch=1&resourceVersion={FIRST - 1}", {}, 410, "Expired"),
        (f"{BASE}?watch=1&resourceVersion={FIRST << 2}", {}, 504, "Timeout"),
    ],
)
async def test_what_is_refused(
    manager: Manager, asker: Asker, path: str, more: Any, status: int, reason: str
) -> None:
    manager.reviews.access.identities["other"] = Identity("other")
    manager.reviews.access.identities["root"] = Identity("root", ("system:masters",))
    assert (await asker.get(path, status, **more))["reason"] == reason


async def test_rights_on_one_name_are_enough_for_a_list_of_it_alone(
    manager: Manager, asker: Asker
) -> None:
    """As kube-apiserver has it: RBAC's resourceNames, and a field selector."""
    manager.reviews.access.identities["own"] = Identity("own", ("owners",))
    manager.reviews.access.grant("owners", READS | {"resourceNames": ["n1"]})

    def selected(fields: str) -> str:
        return f"{BASE}?fieldSelector={quote(fields)}"

    assert names(await asker.get(selected("metadata.name=n1"), token="own")) == ["n1"]
    assert names(await asker.get(selected("metadata.name==n1,metadata.name!=n2"), token="own"))
    nothing = await asker.get(selected("metadata.name=n1,metadata.name=n2"), token="own")
    assert names(nothing) == []
    watch = f"{selected('metadata.name=n1')}&watch=1&timeoutSeconds=1"
    async with asker.open(watch, token="own") as response:
        assert response.status == 200
    for fields in (
        "",
        "metadata.name=n2",
        "metadata.name!=n1",
        "metadata.name=n2,metadata.name=n1",
    ):
        await asker.get(selected(fields), 403, token="own")


async def test_other_paths_and_an_api_server_that_is_away(manager: Manager, asker: Asker) -> None:
    async with asker.open("/apis/other/v1") as response:
        assert (response.status, await response.text()) == (404, "404 page not found\n")
    manager.reviews.away = True
    assert (await asker.get(BASE, 503, token="third"))["reason"] == "ServiceUnavailable"


async def front_proxy_known(manager: Manager) -> None:
    assert await manager.service._read_front_proxy() == ""


MASTERS = {"X-Remote-User": "x", "X-Remote-Group": "system:masters"}


async def test_the_front_proxy_asks_for_others(manager: Manager) -> None:
    await front_proxy_known(manager)
    manager.reviews.access.grant("system:authenticated", DISCOVERS)
    async with Asker(manager, manager.front) as front:
        reader = {"X-Remote-User": "jane", "X-Remote-Group": "readers"}
        assert names(await front.get(BASE, token="", headers=reader)) == ["n1", "n2", "n3"]
        await front.get("/apis/metrics.koordinator.sh/v1alpha1", token="", headers=MASTERS)
        await front.get(BASE, 401, token="")
        # The aggregator itself discovers without a group.
        itself = {"X-Remote-User": "system:kube-aggregator"}
        for path in ("/apis/metrics.koordinator.sh/v1alpha1", "/openapi/v2", "/openapi/v3"):
            await front.get(path, token="", headers=itself)
        for who in (itself, {"X-Remote-User": "jane"}):
            assert (await front.get(BASE, 403, token="", headers=who))["reason"] == "Forbidden"


async def test_nobody_else_asks_for_others(manager: Manager, asker: Asker) -> None:
    await asker.get(BASE, 401, token="", headers=MASTERS)

    async def hung_up_on(own: Certificates) -> None:
        async with Asker(manager, own) as other:
            with pytest.raises(aiohttp.ClientError):
                await other.get(BASE, token="", headers=MASTERS)

    await hung_up_on(manager.front)  # which is not known yet
    given = front_proxy_config_map(manager.front.authority.read_text(), "", "another")
    manager.reviews.put(CONFIG_MAPS, given, "kube-system")
    await front_proxy_known(manager)
    await hung_up_on(manager.certificates)
    async with Asker(manager, manager.front) as of_another_name:
        await of_another_name.get(BASE, 401, token="", headers=MASTERS)


async def test_only_the_leader_answers(manager: Manager, asker: Asker) -> None:
    manager.resign()
    for path in (BASE, f"{BASE}/n1", "/apis", "/healthz", "/readyz"):
        async with asker.open(path) as response:
            assert response.status == 503
            assert response.headers["Retry-After"] == "2"
    async with asker.open("/livez", token="") as response:
        assert response.status == 200
    manager.lead(TERM + 1)
    async with asker.open("/healthz", token="") as response:
        assert response.status == 200


async def test_a_new_leader_shows_nothing_before_nodes_had_the_time(
    manager: Manager, asker: Asker
) -> None:
    manager.resign()
    manager.nodes["n2"] = NodeIdentity("u", "")
    manager.lead(TERM + 1, settled=False)
    manager.put("n1")
    for path in (BASE, f"{BASE}?watch=1", f"{BASE}/n2"):
        assert (await asker.get(path, 503))["details"]["retryAfterSeconds"] == 2
    assert (await asker.get(f"{BASE}/n1"))["metadata"]["name"] == "n1"
    await asker.get("/apis/metrics.koordinator.sh/v1alpha1")
    manager.now += 75
    assert names(await asker.get(BASE)) == ["n1"]


async def events(response: aiohttp.ClientResponse, count: int) -> list[tuple[str, str]]:
    found = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            one = json.loads(await response.content.readline())
            found.append((one["type"], one["object"]["metadata"].get("name", "")))
    return found


async def test_a_watch_tells_what_happens(manager: Manager, asker: Asker) -> None:
    async with asker.open(f"{BASE}?watch=1&resourceVersion={FIRST + 3}") as response:
        await until(lambda: manager.service.served.watches == 1)
        manager.put("n1", "n4")
        manager.service.forget("n2")
        expected = [("MODIFIED", "n1"), ("ADDED", "n4"), ("DELETED", "n2")]
        assert await events(response, 3) == expected
    await until(lambda: manager.service.served.watches == 0)


async def test_a_watch_ends_at_its_time_with_a_bookmark(asker: Asker) -> None:
    query = f"watch=1&resourceVersion={FIRST + 1}&timeoutSeconds=1&allowWatchBookmarks=true"
    async with asker.open(f"{BASE}?{query}") as response:
        lines = (await response.read()).splitlines()
    found = [json.loads(one) for one in lines]
    assert [one["type"] for one in found] == ["ADDED", "ADDED", "BOOKMARK"]
    assert found[-1]["object"]["metadata"]["resourceVersion"] == str(FIRST + 3)


@pytest.mark.parametrize("how", ["resign", "lead", "stop"])
async def test_watches_end_with_the_leadership(manager: Manager, asker: Asker, how: str) -> None:
    async with asker.open(f"{BASE}?watch=1") as response:
        await events(response, 3)
        if how == "resign":
            manager.resign()
        elif how == "lead":
            manager.lead(TERM + 1)
        else:
            await manager.service.stop()
        async with asyncio.timeout(PATIENCE):
            assert await response.read() == b""


async def test_so_many_requests_and_no_more(
    manager: Manager, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "_MOST_REQUESTS", 1)
    async with asker.open(f"{BASE}?watch=1") as response:
        await events(response, 3)
        refused = await asker.get(BASE, 429)
        assert refused["reason"] == "TooManyRequests"
        async with asker.open("/livez", token="") as alive:
            assert alive.status == 200


async def test_a_client_that_takes_nothing_is_hung_up_on(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "_STALLED_SECONDS", 0.2)
    manager.put(*(f"m{number}" for number in range(200)), status=b'{"x":"%b"}' % (b"y" * 100_000))
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", manager.service.api_port, ssl=manager.trust, limit=1024
    )
    request = f"GET {BASE}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {READER}\r\n\r\n"
    writer.write(request.encode())
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    await until(lambda: manager.service.served.watches == 0)
    writer.transport.abort()
