"""The client against a double of the API server."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web
from koord_kube.client import Client, Cluster, Limits
from koord_kube.credentials import TokenFile, server_context
from koord_kube.protocol.api import (
    ApiError,
    ConflictError,
    GoneError,
    InvalidRequestError,
    NotFoundError,
    Object,
)
from koord_kube.protocol.resources import LEASES, NODE_METRICS, NODES, Resource

from tests.support.certificates import Certificates, make_certificates, make_self_signed
from tests.support.kube_api import KubeApi
from tests.support.listing import listed
from tests.support.waiting import until

METRIC: Object = {
    "apiVersion": "slo.koordinator.sh/v1alpha1",
    "kind": "NodeMetric",
    "metadata": {"name": "n1"},
}
ONLY_N2 = {"field": {"field_selector": "metadata.name=n2"}, "label": {"label_selector": "name=n2"}}
BRIEF = Limits(answer=0.05, listing=0.05)


def put_nodes(api: KubeApi, **labels: str) -> str:
    """Two; returns their version."""
    for name in ("n1", "n2"):
        made = api.put(NODES, {"metadata": {"name": name, "labels": {"name": name, **labels}}})
    return str(made["metadata"]["resourceVersion"])


class TestRequests:
    async def test_list(self, api: KubeApi, client: Client) -> None:
        last = put_nodes(api)
        found, version = await listed(client, NODES)
        assert [one["metadata"]["name"] for one in found] == ["n1", "n2"]
        assert version == last
        assert "resourceVersion" not in api.asked[-1].query, "the newest state"

    @pytest.mark.parametrize("selector", ONLY_N2.values(), ids=ONLY_N2)
    async def test_selectors(self, api: KubeApi, client: Client, selector: dict[str, str]) -> None:
        found, version = await listed(client, NODES, **selector)
        assert found == []
        async with aclosing(client.watch(NODES, version, **selector)) as changes:
            await anext(changes)
            put_nodes(api)
            assert (await anext(changes)).object["metadata"]["name"] == "n2"
        found, _ = await listed(client, NODES, **selector)
        assert [one["metadata"]["name"] for one in found] == ["n2"]

    async def test_from_creation_to_deletion(self, client: Client) -> None:
        lease = {"metadata": {"name": "l"}}
        made = await client.create(LEASES, lease, "there")
        assert await client.get(LEASES, "l", "there") == made
        with pytest.raises(NotFoundError, match=r"^leases here/l: 404"):
            await client.get(LEASES, "l", "here")
        with pytest.raises(ConflictError, match=r"^leases there: 409 .*already exists"):
            await client.create(LEASES, lease, "there")
        await client.delete(LEASES, "l", "there")
        with pytest.raises(NotFoundError, match=r"^leases there/l: 404"):
            await client.delete(LEASES, "l", "there")

    async def test_patches_of_the_status_and_of_the_rest(
        self, api: KubeApi, client: Client
    ) -> None:
        api.put(NODE_METRICS, METRIC | {"spec": {"a": 1}, "status": {"b": 1}})
        change = {"spec": {"a": 2}, "status": {"b": 2}}
        await client.patch(NODE_METRICS, "n1", change, subresource="status")
        assert api.get(NODE_METRICS, "n1")["spec"] == {"a": 1}
        assert (await client.patch(NODE_METRICS, "n1", change))["spec"] == {"a": 2}
        assert api.get(NODE_METRICS, "n1")["status"] == {"b": 2}

    @pytest.mark.parametrize("subresource", ["", "status"])
    async def test_writes_that_depend_on_a_version(
        self, api: KubeApi, client: Client, subresource: str
    ) -> None:
        read = api.put(NODE_METRICS, METRIC | {"spec": {"a": 1}, "status": {"a": 1}})
        version, change = read["metadata"]["resourceVersion"], {"status": {"a": 2}}
        new = await client.replace(NODE_METRICS, "n1", read | {"spec": {"a": 2}})
        with pytest.raises(ConflictError):
            await client.replace(NODE_METRICS, "n1", read | {"spec": {"a": 3}})
        with pytest.raises(ConflictError):
            await client.patch(NODE_METRICS, "n1", change, "", subresource, version=version)
        version = new["metadata"]["resourceVersion"]
        await client.patch(NODE_METRICS, "n1", change, "", subresource, version=version)
        assert change == {"status": {"a": 2}}

    async def test_delete_only_if_unchanged(self, api: KubeApi, client: Client) -> None:
        meta = (await client.create(NODE_METRICS, METRIC))["metadata"]
        version = meta["resourceVersion"]
        for wrong in ({"uid": "other"}, {"version": "1"}, {"uid": "other", "version": version}):
            with pytest.raises(ConflictError):
                await client.delete(NODE_METRICS, "n1", **wrong)
        await client.delete(NODE_METRICS, "n1", uid=meta["uid"], version=version)
        assert api.objects == {}

    async def test_a_kind_that_is_not_installed(self, client: Client) -> None:
        unknown = Resource("slo.koordinator.sh", "v1alpha1", "others", "Other")
        with pytest.raises(NotFoundError, match="is its CRD installed"):
            await listed(client, unknown)

    async def test_writes_are_slowed_down_and_reads_are_not(
        self, api: KubeApi, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waits: list[float] = []
        sleep = anyio.sleep

        async def record(seconds: float) -> None:
            waits.append(seconds)
            await sleep(0)

        async with Client(Cluster(api.url), Limits(qps=0.001, burst=1)) as slow:
            monkeypatch.setattr(anyio, "sleep", record)
            for name in ("n1", "n2"):
                await slow.create(NODE_METRICS, METRIC | {"metadata": {"name": name}})
            assert len([one for one in waits if one > 900]) == 1
            await listed(slow, NODE_METRICS)
            assert len([one for one in waits if one > 900]) == 1


class TestFailures:
    @pytest.mark.parametrize(
        ("status", "retry_after"), [(429, 7), (500, 0), (302, 0)], ids=["429", "500", "redirect"]
    )
    async def test_a_refusal_is_not_retried(
        self, api: KubeApi, client: Client, status: int, retry_after: int
    ) -> None:
        api.fail(status=status, retry_after=retry_after)
        with pytest.raises(ApiError, match=f"^nodes n1: {status} this is a test$") as found:
            await client.get(NODES, "n1")
        assert (found.value.status, found.value.retry_after) == (status, retry_after)
        assert len(api.asked) == 1

    @pytest.mark.parametrize(
        ("request_of", "about"),
        [
            pytest.param(lambda client: client.get(NODES, "n1"), "nodes n1", id="get"),
            pytest.param(lambda client: anext(client.watch(NODES, "1")), "nodes", id="watch"),
        ],
    )
    async def test_a_server_that_hangs(
        self, api: KubeApi, request_of: Callable[[Client], Awaitable[Any]], about: str
    ) -> None:
        api.fail(hang=True)
        async with Client(Cluster(api.url), BRIEF) as client:
            with pytest.raises(ApiError, match=f"^{about}: no answer in time$") as found:
                await request_of(client)
        assert found.value.status == 0

    async def test_nobody_listens(self) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            port = bound.getsockname()[1]
            async with Client(Cluster(f"http://127.0.0.1:{port}")) as client:
                with pytest.raises(ApiError, match=f"^nodes n1: 127.0.0.1:{port}: .*refused"):
                    await client.get(NODES, "n1")

    async def test_a_server_that_is_back_is_found_again(self, api: KubeApi, client: Client) -> None:
        await listed(client, NODES)
        await api.stop()
        with pytest.raises(ApiError):
            await listed(client, NODES)
        await api.start()
        assert (await listed(client, NODES))[0] == []


class TestWatch:
    async def test_from_opening_to_end(self, api: KubeApi, client: Client) -> None:
        version = api.put(NODES, {"metadata": {"name": "n1"}})["metadata"]["resourceVersion"]
        async with aclosing(client.watch(NODES, version)) as changes:
            opened = await anext(changes)
            assert opened.type == "BOOKMARK"
            assert opened.object == {"metadata": {"resourceVersion": version}}
            api.put(NODES, {"metadata": {"name": "n1"}, "spec": {"long": "x" * 1_000_000}})
            change = await anext(changes)
            assert (change.type, len(change.object["spec"]["long"])) == ("MODIFIED", 1_000_000)
            api.delete(NODES, "n1")
            assert (await anext(changes)).type == "DELETED"
            api.bookmark()
            assert (await anext(changes)).type == "BOOKMARK"
            api.end_watches()
            assert [one async for one in changes] == []

    @pytest.mark.parametrize("as_status", [False, True])
    async def test_gone(self, api: KubeApi, client: Client, as_status: bool) -> None:
        api.compact()
        api.gone_as_status = as_status
        with pytest.raises(GoneError, match=r"^nodes: 410 too old"):
            [one async for one in client.watch(NODES, "1000")]

    @pytest.mark.parametrize(
        ("happens", "limits", "reason"),
        [
            (KubeApi.cut_watches, Limits(), "the answer broke off|middle of an event"),
            (KubeApi.expire_watches, Limits(), "410 too old"),
            # Less than the second after which it would be ended.
            (KubeApi.silence_watches, Limits(watch=0.01, grace=0.9), "no answer in time"),
        ],
    )
    async def test_it_breaks_off(
        self, api: KubeApi, happens: Callable[[KubeApi], None], limits: Limits, reason: str
    ) -> None:
        async with (
            Client(Cluster(api.url), limits, chance=lambda: 0.0) as client,
            aclosing(client.watch(NODES, "1000")) as changes,
        ):
            await anext(changes)
            await until(lambda: api.open_watches() == 1)
            happens(api)
            with pytest.raises(ApiError, match=reason):
                await anext(changes)

    async def test_it_ends_in_the_middle_of_an_event(self) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b'HTTP/1.0 200 OK\r\n\r\n{"type":"ADDED","object":{}}\n{"type":"MO')
            writer.close()
            await writer.wait_closed()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with Client(Cluster(f"http://127.0.0.1:{port}")) as client:
                changes = client.watch(NODES, "1")
                assert [(await anext(changes)).type for _ in range(2)] == ["BOOKMARK", "ADDED"]
                with pytest.raises(ApiError, match="in the middle of an event"):
                    await anext(changes)

    async def test_the_server_is_asked_to_end_it(self, api: KubeApi) -> None:
        async with (
            Client(Cluster(api.url), Limits(watch=100.0), chance=lambda: 0.5) as client,
            aclosing(client.watch(NODES, "1000")) as changes,
        ):
            await anext(changes)
        asked = api.asked[-1].query
        assert (asked["timeoutSeconds"], asked["allowWatchBookmarks"]) == ("150", "true")


class TestToken:
    @pytest.fixture
    def token(self, tmp_path: Path) -> Path:
        path = tmp_path / "token"
        path.write_text("first-s3cret\n")
        return path

    @pytest.fixture
    async def client(self, api: KubeApi, token: Path) -> AsyncIterator[Client]:
        api.tokens = frozenset({"first-s3cret"})
        async with Client(Cluster(api.url, TokenFile(token))) as made:
            yield made

    @pytest.mark.parametrize("watches", [False, True])
    async def test_rotation_is_noticed_at_the_first_refusal(
        self, api: KubeApi, client: Client, token: Path, watches: bool
    ) -> None:
        await listed(client, NODES)
        token.write_text("second-s3cret\n")
        api.tokens = frozenset({"second-s3cret"})
        await (anext(client.watch(NODES, "1000")) if watches else listed(client, NODES))
        assert [one.token.partition("-")[0] for one in api.asked] == ["first", "first", "second"]

    async def test_an_invalid_token_is_tried_twice(self, api: KubeApi, client: Client) -> None:
        api.tokens = frozenset({"other"})
        with pytest.raises(ApiError, match=r"^nodes: 401 Unauthorized$") as found:
            await listed(client, NODES)
        assert (found.value.status, len(api.asked)) == (401, 2)

    async def test_a_token_file_that_is_gone(self, client: Client, token: Path) -> None:
        token.unlink()
        with pytest.raises(ApiError, match="token: No such file") as found:
            await listed(client, NODES)
        assert found.value.status == 0

    async def test_it_is_never_logged_or_raised(
        self, api: KubeApi, client: Client, token: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        texts = [repr(client.cluster), str(client.cluster), repr(client)]
        requests: list[Callable[[], Awaitable[Any]]] = [
            lambda: client.get(NODES, "n1"),
            lambda: listed(client, NODES),
            lambda: anext(client.watch(NODES, "1")),
            lambda: client.create(NODE_METRICS, METRIC),
        ]
        for fault in ({"message": "you sent first-s3cret"}, {"message": "\ud800"}):
            for request in requests:
                api.fail(status=403, **fault)
                with pytest.raises(ApiError) as found:
                    await request()
                texts += [str(found.value), repr(found.value), repr(found.value.__context__)]
        token.write_text("first s3cret")
        api.tokens = frozenset({"other"})
        with pytest.raises(ApiError) as found:
            await listed(client, NODES)
        texts += [str(found.value), caplog.text]
        assert [one for one in texts if "s3cret" in one] == []


class TestSecure:
    async def test_another_s_certificate_gets_no_token(
        self, certificates: Certificates, tmp_path: Path
    ) -> None:
        other = make_self_signed(tmp_path / "other")
        (tmp_path / "token").write_text("s3cret")
        async with KubeApi(tls=other.server_context()) as api:
            context = server_context(certificates.authority)
            cluster = Cluster(api.url, TokenFile(tmp_path / "token"), context)
            async with Client(cluster) as client:
                with pytest.raises(ApiError, match=r"certificate is not trusted: .*self"):
                    await client.get(NODES, "n1")
            assert api.asked == []

    async def test_a_certificate_for_another_name(self, tmp_path: Path) -> None:
        other = make_certificates(tmp_path / "other", "DNS:kube.example,IP:127.0.0.2")
        async with KubeApi(tls=other.server_context()) as api:
            context = server_context(other.authority)
            async with Client(Cluster(api.url, context=context)) as client:
                with pytest.raises(ApiError, match=r"not trusted: .*127\.0\.0\.1"):
                    await client.get(NODES, "n1")
            named = Cluster(api.url, context=context, server_name="kube.example")
            async with Client(named) as client:
                assert await listed(client, NODES) == ([], "1000")


async def test_a_separate_client_does_not_wait_for_the_other(api: KubeApi) -> None:
    api.put(NODES, {"metadata": {"name": "n1"}})
    async with (
        Client(Cluster(api.url), Limits(connections=2)) as client,
        client.separate(1) as other,
    ):
        api.fail(times=2, hang=True)
        loop = asyncio.get_running_loop()
        stuck = [loop.create_task(client.get(NODES, "n1")) for _ in range(3)]
        await api.wait_for("get", 2)
        for _ in range(2):
            assert (await other.get(NODES, "n1"))["metadata"]["name"] == "n1"
        # The third of the other client has no connection yet.
        assert api.count("get") == 4
        for one in stuck:
            one.cancel()
        assert (await client.get(NODES, "n1"))["metadata"]["name"] == "n1"


class TestBounds:
    """What it does not read, and does not send."""

    @pytest.fixture
    async def served(self) -> AsyncIterator[tuple[Client, list[str], dict[str, bytes]]]:
        asked, answers = list[str](), dict[str, bytes]()

        async def serve(request: web.Request) -> web.StreamResponse:
            asked.append(request.raw_path)
            response = web.StreamResponse()
            await response.prepare(request)
            while answers.get("again"):
                await response.write(answers["again"])
            await response.write(answers["once"])
            return response

        app = web.Application()
        app.router.add_get("/{tail:.*}", serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/prefix"
        async with Client(Cluster(url), Limits(object_bytes=1000, list_bytes=3000)) as made:
            yield made, asked, answers
        await runner.cleanup()

    async def test_names_arrive_as_they_are(
        self, served: tuple[Client, list[str], dict[str, bytes]]
    ) -> None:
        client, asked, answers = served
        answers["once"] = b"{}"
        await client.get(NODES, "a?watch=1&b=#c d")
        assert asked == ["/prefix/api/v1/nodes/a%3Fwatch%3D1%26b%3D%23c%20d"]
        for name in ("", "..", "a/b", "a%2Fb"):
            with pytest.raises(InvalidRequestError):
                await client.get(NODES, name)
        with pytest.raises(InvalidRequestError):
            await client.delete(NODES, "")
        assert len(asked) == 1

    async def test_an_answer_without_an_end_is_not_read(
        self, served: tuple[Client, list[str], dict[str, bytes]]
    ) -> None:
        client, _, answers = served
        answers["again"] = b'{"a":"' + b"b" * 100
        with pytest.raises(ApiError, match="nodes n1: longer than 1000 bytes"):
            await client.get(NODES, "n1")
        with pytest.raises(ApiError, match="nodes: longer than 3000 bytes"):
            await listed(client, NODES)

    async def test_events_are_no_list(
        self, served: tuple[Client, list[str], dict[str, bytes]]
    ) -> None:
        client, _, answers = served
        answers["again"] = b'{"type":"ADDED","object":{}}\n'
        with pytest.raises(ApiError, match="nodes: the answer is a watch's, not a list"):
            await listed(client, NODES)
