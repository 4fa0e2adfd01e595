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
from koord_kube.client import Client, Cluster, Limits
from koord_kube.credentials import TokenFile, server_context
from koord_kube.protocol.api import ApiError, ConflictError, GoneError, NotFoundError, Object
from koord_kube.protocol.resources import LEASES, NODE_METRICS, NODES, TOKEN_REVIEWS, Resource

from tests.support.certificates import Certificates, make_certificates, make_self_signed
from tests.support.kube_api import KubeApi
from tests.support.listing import listed
from tests.support.processes import PATIENCE
from tests.support.waiting import until

QUICK = Limits(answer=PATIENCE, watch=PATIENCE, grace=PATIENCE)
LEASE: Object = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "l"},
}


def metric(name: str = "n1", **more: Any) -> Object:
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": name},
        **more,
    }


@pytest.fixture
async def client(api: KubeApi) -> AsyncIterator[Client]:
    async with Client(Cluster(api.url), QUICK) as made:
        yield made


class TestRequests:
    async def test_get(self, api: KubeApi, client: Client) -> None:
        api.put(NODE_METRICS, metric(spec={"a": 1}))
        assert (await client.get(NODE_METRICS, "n1"))["spec"] == {"a": 1}

    async def test_list(self, api: KubeApi, client: Client) -> None:
        for name in ("n1", "n2"):
            last = api.put(NODES, {"metadata": {"name": name}})
        found, version = await listed(client, NODES)
        assert [one["metadata"]["name"] for one in found] == ["n1", "n2"]
        assert version == last["metadata"]["resourceVersion"]
        found, _ = await listed(client, NODES, field_selector="metadata.name=n2")
        assert [one["metadata"]["name"] for one in found] == ["n2"]

    async def test_a_list_whose_state_is_forgotten_meanwhile(
        self, api: KubeApi, client: Client
    ) -> None:
        for number in range(600):
            api.put(NODES, {"metadata": {"name": f"n{number}"}})
        begun = []
        async for page in client.pages(NODES):
            begun.append((page.first, len(page.items)))
            if len(begun) == 1:
                api.compact()
        assert begun == [(True, 500), (True, 500), (False, 100)]

    async def test_a_list_asks_for_the_newest_state(self, api: KubeApi, client: Client) -> None:
        await listed(client, NODES)
        assert "resourceVersion" not in api.asked[-1].query

    async def test_create_and_conflict(self, api: KubeApi, client: Client) -> None:
        made = await client.create(NODE_METRICS, metric())
        assert made == api.get(NODE_METRICS, "n1")
        with pytest.raises(ConflictError, match=r"nodemetrics: 409 .*already exists"):
            await client.create(NODE_METRICS, metric())

    async def test_namespaces(self, api: KubeApi, client: Client) -> None:
        await client.create(LEASES, LEASE, "there")
        assert (await client.get(LEASES, "l", "there"))["metadata"]["namespace"] == "there"
        with pytest.raises(NotFoundError, match=r"^leases here/l: 404"):
            await client.get(LEASES, "l", "here")

    async def test_patches_of_the_status_and_of_the_rest(
        self, api: KubeApi, client: Client
    ) -> None:
        api.put(NODE_METRICS, metric(spec={"a": 1}, status={"b": 1}))
        change = {"spec": {"a": 2}, "status": {"b": 2}}
        await client.patch(NODE_METRICS, "n1", change, subresource="status")
        assert api.get(NODE_METRICS, "n1")["spec"] == {"a": 1}
        assert (await client.patch(NODE_METRICS, "n1", change))["spec"] == {"a": 2}
        assert api.get(NODE_METRICS, "n1")["status"] == {"b": 2}

    async def test_replace_needs_the_version_it_was_read_at(
        self, api: KubeApi, client: Client
    ) -> None:
        read = api.put(NODE_METRICS, metric())
        await client.replace(NODE_METRICS, "n1", read | {"spec": {"a": 2}})
        with pytest.raises(ConflictError):
            await client.replace(NODE_METRICS, "n1", read | {"spec": {"a": 3}})

    async def test_a_patch_of_a_version(self, api: KubeApi, client: Client) -> None:
        read = api.put(NODES, {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4"}}})
        version = read["metadata"]["resourceVersion"]
        change = {"metadata": {"annotations": {"a": "b"}}}
        patched = await client.patch(NODES, "n1", change, version=version)
        assert patched["metadata"]["annotations"] == {"a": "b"}
        assert change == {"metadata": {"annotations": {"a": "b"}}}
        status = {"status": {"allocatable": {"cpu": "3"}}}
        for subresource in ("", "status"):
            with pytest.raises(ConflictError):
                await client.patch(NODES, "n1", status, "", subresource, version=version)
        version = patched["metadata"]["resourceVersion"]
        patched = await client.patch(NODES, "n1", status, "", "status", version=version)
        assert patched["status"] == {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}

    async def test_delete(self, api: KubeApi, client: Client) -> None:
        await client.create(LEASES, LEASE, "there")
        await client.delete(LEASES, "l", "there")
        with pytest.raises(NotFoundError, match=r"^leases there/l: 404"):
            await client.delete(LEASES, "l", "there")

    async def test_delete_of_that_one_alone(self, api: KubeApi, client: Client) -> None:
        meta = (await client.create(NODE_METRICS, metric()))["metadata"]
        version = meta["resourceVersion"]
        for wrong in ({"uid": "other"}, {"version": "1"}, {"uid": "other", "version": version}):
            with pytest.raises(ConflictError):
                await client.delete(NODE_METRICS, "n1", **wrong)
        await client.delete(NODE_METRICS, "n1", uid=meta["uid"], version=version)
        assert api.objects == {}

    async def test_a_review_is_answered(self, api: KubeApi, client: Client) -> None:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": "s3cret"},
        }
        answer = await client.create(TOKEN_REVIEWS, review)
        assert answer["kind"] == "TokenReview"
        assert isinstance(answer["status"], dict)

    async def test_labels(self, api: KubeApi, client: Client) -> None:
        for name in ("n1", "n2"):
            api.put(NODES, {"metadata": {"name": name, "labels": {"name": name}}})
        found, version = await listed(client, NODES, label_selector="name in (n2)")
        assert [one["metadata"]["name"] for one in found] == ["n2"]
        async with aclosing(client.watch(NODES, version, label_selector="name=n1")) as changes:
            await anext(changes)
            for name in ("n2", "n1"):
                labels = {"name": name, "a": "b"}
                api.put(NODES, {"metadata": {"name": name, "labels": labels}})
            assert (await anext(changes)).object["metadata"]["name"] == "n1"

    async def test_a_kind_that_is_not_installed(self, client: Client) -> None:
        unknown = Resource("slo.koordinator.sh", "v1alpha1", "others", "Other")
        with pytest.raises(NotFoundError, match="is its CRD installed"):
            await listed(client, unknown)

    async def test_writes_are_slowed_down_and_reads_are_not(
        self, api: KubeApi, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waits: list[float] = []
        sleep = anyio.sleep

        async def noted(seconds: float) -> None:
            waits.append(seconds)
            await sleep(0)

        async with Client(Cluster(api.url), Limits(qps=0.001, burst=1)) as slow:
            monkeypatch.setattr(anyio, "sleep", noted)
            await slow.create(NODE_METRICS, metric("n1"))
            await slow.create(NODE_METRICS, metric("n2"))
            assert len([one for one in waits if one > 900]) == 1
            await listed(slow, NODE_METRICS)
            assert len([one for one in waits if one > 900]) == 1


class TestFailures:
    async def test_too_many_requests(self, api: KubeApi, client: Client) -> None:
        api.fail(status=429, retry_after=7)
        with pytest.raises(ApiError, match="429") as found:
            await client.get(NODES, "n1")
        assert (found.value.status, found.value.retry_after) == (429, 7.0)

    async def test_nothing_is_asked_again_by_itself(self, api: KubeApi, client: Client) -> None:
        api.fail(status=500)
        with pytest.raises(ApiError, match="500 this is a test"):
            await client.get(NODES, "n1")
        assert len(api.asked) == 1

    async def test_a_server_that_hangs(self, api: KubeApi) -> None:
        api.fail(hang=True)
        async with Client(Cluster(api.url), Limits(answer=0.05)) as client:
            with pytest.raises(ApiError, match=r"^nodes n1: no answer in time$") as found:
                await client.get(NODES, "n1")
        assert found.value.status == 0

    async def test_a_watch_that_does_not_open(self, api: KubeApi) -> None:
        api.fail(hang=True)
        async with (
            asyncio.timeout(PATIENCE),
            Client(Cluster(api.url), Limits(answer=0.05)) as client,
        ):
            with pytest.raises(ApiError, match="no answer in time"):
                await anext(client.watch(NODES, "1"))

    async def test_nobody_listens(self) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            port = bound.getsockname()[1]
            async with Client(Cluster(f"http://127.0.0.1:{port}")) as client:
                with pytest.raises(ApiError, match=f"^nodes n1: 127.0.0.1:{port}: .*refused"):
                    await client.get(NODES, "n1")

    async def test_a_redirect_is_not_followed(self, api: KubeApi, client: Client) -> None:
        api.fail(status=302)
        with pytest.raises(ApiError, match="302"):
            await client.get(NODES, "n1")
        assert len(api.asked) == 1


class TestWatch:
    async def test_it_opens_and_tells_what_happens(self, api: KubeApi, client: Client) -> None:
        version = api.put(NODES, {"metadata": {"name": "n1"}})["metadata"]["resourceVersion"]
        async with aclosing(client.watch(NODES, version)) as changes:
            opened = await anext(changes)
            assert opened.type == "BOOKMARK"
            assert opened.object == {"metadata": {"resourceVersion": version}}
            api.put(NODES, {"metadata": {"name": "n1", "labels": {"a": "b"}}})
            change = await anext(changes)
            assert (change.type, change.object["metadata"]["labels"]) == ("MODIFIED", {"a": "b"})
            api.delete(NODES, "n1")
            assert (await anext(changes)).type == "DELETED"
            api.bookmark()
            assert (await anext(changes)).type == "BOOKMARK"
            api.end_watches()
            assert [one async for one in changes] == []

    async def test_only_what_is_selected(self, api: KubeApi, client: Client) -> None:
        async with aclosing(client.watch(NODES, "1000", "", "metadata.name=n2")) as changes:
            await anext(changes)
            for name in ("n1", "n2"):
                api.put(NODES, {"metadata": {"name": name}})
            assert (await anext(changes)).object["metadata"]["name"] == "n2"

    @pytest.mark.parametrize("as_status", [False, True])
    async def test_gone(self, api: KubeApi, client: Client, as_status: bool) -> None:
        api.compact()
        api.gone_as_status = as_status
        with pytest.raises(GoneError, match=r"^nodes: 410 too old"):
            [one async for one in client.watch(NODES, "1000")]

    @pytest.mark.parametrize(
        ("happens", "reason"),
        [
            (KubeApi.cut_watches, "the answer broke off|middle of an event"),
            (KubeApi.expire_watches, "410 too old"),
        ],
    )
    async def test_it_breaks_off(
        self, api: KubeApi, client: Client, happens: Callable[[KubeApi], None], reason: str
    ) -> None:
        async with aclosing(client.watch(NODES, "1000")) as changes:
            await anext(changes)
            await until(lambda: api.open_watches() == 1)
            happens(api)
            with pytest.raises(ApiError, match=reason):
                await anext(changes)

    async def test_a_connection_that_is_dead_is_given_up(self, api: KubeApi) -> None:
        limits = Limits(watch=0.01, grace=0.9)  # less than the second after which it would be ended
        async with (
            Client(Cluster(api.url), limits, chance=lambda: 0.0) as client,
            aclosing(client.watch(NODES, "1000")) as changes,
        ):
            await anext(changes)
            await until(lambda: api.open_watches() == 1)
            api.silence_watches()
            with pytest.raises(ApiError, match="no answer in time"):
                await anext(changes)

    async def test_it_ends_in_the_middle_of_an_event(self) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b'HTTP/1.0 200 OK\r\n\r\n{"type":"ADDED","object":{}}\n{"type":"MO')
            writer.close()
            await writer.wait_closed()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with Client(Cluster(f"http://127.0.0.1:{port}"), QUICK) as client:
                changes = client.watch(NODES, "1")
                assert [(await anext(changes)).type for _ in range(2)] == ["BOOKMARK", "ADDED"]
                with pytest.raises(ApiError, match="in the middle of an event"):
                    await anext(changes)

    async def test_the_server_is_asked_to_end_it(self, api: KubeApi) -> None:
        limits = Limits(watch=100.0)
        async with (
            Client(Cluster(api.url), limits, chance=lambda: 0.5) as client,
            aclosing(client.watch(NODES, "1000")) as changes,
        ):
            await anext(changes)
        asked = api.asked[-1].query
        assert (asked["timeoutSeconds"], asked["allowWatchBookmarks"]) == ("150", "true")

    async def test_an_event_of_a_megabyte(self, api: KubeApi, client: Client) -> None:
        async with aclosing(client.watch(NODES, "1000")) as changes:
            await anext(changes)
            api.put(NODES, {"metadata": {"name": "n1"}, "spec": {"long": "x" * 1_000_000}})
            assert len((await anext(changes)).object["spec"]["long"]) == 1_000_000


class TestToken:
    @pytest.fixture
    def token(self, tmp_path: Path) -> Path:
        path = tmp_path / "token"
        path.write_text("first-s3cret\n")
        return path

    @pytest.fixture
    async def client(self, api: KubeApi, token: Path) -> AsyncIterator[Client]:
        api.tokens = frozenset({"first-s3cret"})
        async with Client(Cluster(api.url, TokenFile(token)), QUICK) as made:
            yield made

    async def test_rotation_is_noticed_at_the_first_refusal(
        self, api: KubeApi, client: Client, token: Path
    ) -> None:
        await listed(client, NODES)
        token.write_text("second-s3cret\n")
        api.tokens = frozenset({"second-s3cret"})
        await listed(client, NODES)
        assert [one.token for one in api.asked] == [
            "first-s3cret", "first-s3cret", "second-s3cret",
        ]  # fmt: skip

    async def test_a_watch_too(self, api: KubeApi, client: Client, token: Path) -> None:
        await listed(client, NODES)
        token.write_text("second-s3cret\n")
        api.tokens = frozenset({"second-s3cret"})
        async with aclosing(client.watch(NODES, "1000")) as changes:
            assert (await anext(changes)).type == "BOOKMARK"

    async def test_a_token_that_is_no_good_is_tried_twice(
        self, api: KubeApi, client: Client
    ) -> None:
        api.tokens = frozenset({"other"})
        with pytest.raises(ApiError, match=r"^nodes: 401 Unauthorized$") as found:
            await listed(client, NODES)
        assert found.value.status == 401
        assert len(api.asked) == 2

    async def test_a_token_file_that_is_gone(self, client: Client, token: Path) -> None:
        token.unlink()
        with pytest.raises(ApiError, match="token: No such file") as found:
            await listed(client, NODES)
        assert found.value.status == 0

    async def test_it_is_said_nowhere(
        self, api: KubeApi, client: Client, token: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        said = [repr(client.cluster), str(client.cluster), repr(client)]
        asks: list[Callable[[], Awaitable[Any]]] = [
            lambda: client.get(NODES, "n1"),
            lambda: listed(client, NODES),
            lambda: anext(client.watch(NODES, "1")),
            lambda: client.create(NODE_METRICS, metric()),
        ]
        for fault in ({"message": "you sent first-s3cret"}, {"message": "\ud800"}):
            for ask in asks:
                api.fail(status=403, **fault)
                with pytest.raises(ApiError) as found:
                    await ask()
                said += [str(found.value), repr(found.value), repr(found.value.__context__)]
        token.write_text("first s3cret")
        api.tokens = frozenset({"other"})
        with pytest.raises(ApiError) as found:
            await listed(client, NODES)
        said += [str(found.value), caplog.text]
        assert [one for one in said if "s3cret" in one] == []


class TestSecure:
    async def test_the_server_is_verified(self, certificates: Certificates) -> None:
        async with KubeApi(tls=certificates.server_context()) as api:
            api.put(NODES, {"metadata": {"name": "n1"}})
            context = server_context(certificates.authority)
            async with Client(Cluster(api.url, context=context), QUICK) as client:
                assert (await client.get(NODES, "n1"))["kind"] == "Node"

    async def test_another_s_certificate_gets_no_token(
        self, certificates: Certificates, tmp_path: Path
    ) -> None:
        stranger = make_self_signed(tmp_path / "stranger")
        (tmp_path / "token").write_text("s3cret")
        async with KubeApi(tls=stranger.server_context()) as api:
            context = server_context(certificates.authority)
            cluster = Cluster(api.url, TokenFile(tmp_path / "token"), context)
            async with Client(cluster, QUICK) as client:
                with pytest.raises(ApiError, match=r"certificate is not trusted: .*self"):
                    await client.get(NODES, "n1")
            assert api.asked == []

    async def test_a_certificate_for_another_name(self, tmp_path: Path) -> None:
        other = make_certificates(tmp_path / "other", "DNS:kube.example,IP:127.0.0.2")
        async with KubeApi(tls=other.server_context()) as api:
            context = server_context(other.authority)
            async with Client(Cluster(api.url, context=context), QUICK) as client:
                with pytest.raises(ApiError, match=r"not trusted: .*127\.0\.0\.1"):
                    await client.get(NODES, "n1")
            named = Cluster(api.url, context=context, server_name="kube.example")
            async with Client(named, QUICK) as client:
                assert await listed(client, NODES) == ([], "1000")


async def test_a_server_that_is_back_is_found_again(api: KubeApi, client: Client) -> None:
    await listed(client, NODES)
    await api.stop()
    with pytest.raises(ApiError):
        await listed(client, NODES)
    await api.start()
    assert (await listed(client, NODES))[0] == []


async def test_what_is_separate_waits_for_nothing_of_the_other(api: KubeApi) -> None:
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
