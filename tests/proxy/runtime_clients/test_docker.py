"""The proxy's own requests to dockerd, to a double that answers by its rules, and to worse ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from koord_proxy.contract.runtime_client import (
    NotKubernetesError,
    RuntimeCallError,
    RuntimeListItem,
    RuntimeNotFoundError,
)
from koord_proxy.rules.records import RecordKind
from koord_proxy.runtime_clients import docker
from koord_proxy.runtime_clients.docker import DockerRuntimeClient

from tests.support import docker_requests as requests
from tests.support.docker_bodies import UID
from tests.support.docker_engine import Engine

FOREIGN = requests.create("web", {"Image": "nginx", "Labels": {"app": "web"}})


@contextlib.asynccontextmanager
async def asking(engine: Engine, path: Path) -> AsyncIterator[DockerRuntimeClient]:
    async with engine.serving(path), DockerRuntimeClient(str(path)) as runtime:
        yield runtime


def a_pod(engine: Engine) -> tuple[str, str]:
    sandbox = engine.create(requests.create_sandbox())
    engine.start(sandbox)
    container = engine.create(requests.create_container(sandbox=sandbox))
    engine.start(container)
    return sandbox, container


async def test_lists_and_descriptions(tmp_path):
    engine = Engine()
    sandbox, container = a_pod(engine)
    engine.start(engine.create(FOREIGN))
    async with asking(engine, tmp_path / "s") as runtime:
        assert await runtime.pods() == [RuntimeListItem(sandbox, f"pod/{UID}/0", live=True)]
        identity = f"container/{sandbox}/main/0"
        assert await runtime.containers() == [RuntimeListItem(container, identity, True, sandbox)]
        pod = await runtime.pod(sandbox)
        assert (pod.kind, pod.id, pod.hook_request.pod_meta.name) == (
            RecordKind.POD,
            sandbox,
            "life",
        )
        one = await runtime.container(container)
        assert (one.kind, one.id, one.sandbox) == (RecordKind.CONTAINER, container, sandbox)
        assert one.hook_request.container_meta.name == "main"
        assert one.hook_request.container_resources.cpu_quota == 50000


async def test_no_version_is_asked_for(tmp_path):
    engine = Engine()
    sandbox, _ = a_pod(engine)
    async with asking(engine, tmp_path / "s") as runtime:
        await runtime.pods()
        await runtime.pod(sandbox)
    # Every dockerd has them in its own version: none is too old or too new.
    listed, inspected = engine.asked
    path, _, query = listed.partition("?")
    assert path == "/containers/json"
    assert parse_qs(query)["all"] == ["1"]
    [filters] = parse_qs(query)["filters"]
    assert json.loads(filters) == {"label": ["io.kubernetes.docker.type"]}
    assert inspected == f"/containers/{sandbox}/json"


async def test_a_ping_of_a_daemon_that_works_and_of_one_that_does_not(tmp_path):
    engine = Engine()
    engine.answer = http("200 OK", "OK")  # the body is not valid JSON
    async with asking(engine, tmp_path / "s") as runtime:
        await runtime.ping()
        engine.answer = http("500 Internal Server Error", "not yet")
        with pytest.raises(RuntimeCallError, match="GET /_ping: 500 not yet"):
            await runtime.ping()
    assert engine.asked == ["/_ping"] * 2


@pytest.mark.parametrize(
    ("state", "live"),
    [("created", True), ("running", True), ("paused", True), ("exited", False), ("dead", False)],
)
async def test_what_has_ended_is_listed_as_well(tmp_path, state, live):
    engine = Engine()
    for id in a_pod(engine):  # noqa: A001
        engine.containers[id].state = state
    async with asking(engine, tmp_path / "s") as runtime:
        assert [one.live for one in await runtime.pods()] == [live]
        assert [one.live for one in await runtime.containers()] == [live]


@pytest.mark.parametrize("number", [0, 200])
async def test_few_and_many(tmp_path, number):
    engine = Engine()
    for one in range(number):
        engine.create(requests.create_sandbox(pod=f"p{one}", uid=f"u{one}"))
    async with asking(engine, tmp_path / "s") as runtime:
        found = {one.identity for one in await runtime.pods()}
        assert await runtime.containers() == []
    assert found == {f"pod/u{one}/0" for one in range(number)}


@pytest.mark.parametrize("shown", [lambda made: made[:12], lambda _: requests.name("main")])
async def test_what_is_found_by_other_than_its_id_has_its_id(tmp_path, shown):
    engine = Engine()
    _, container = a_pod(engine)
    async with asking(engine, tmp_path / "s") as runtime:
        assert (await runtime.container(shown(container))).id == container


async def test_what_is_no_pod_or_no_container(tmp_path):
    engine = Engine()
    sandbox, container = a_pod(engine)
    foreign = engine.create(FOREIGN)
    async with asking(engine, tmp_path / "s") as runtime:
        for call, id in (  # noqa: A001
            (runtime.pod, container),
            (runtime.container, sandbox),
            (runtime.pod, foreign),
            (runtime.container, foreign),
        ):
            with pytest.raises(NotKubernetesError, match=id):
                await call(id)


async def test_what_nobody_knows(tmp_path):
    async with asking(Engine(), tmp_path / "s") as runtime:
        with pytest.raises(RuntimeNotFoundError) as caught:
            await runtime.pod("none")
    message = '{"message":"No such container: none"}'
    assert str(caught.value) == f"GET /containers/none/json: 404 {message}"


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "409 Conflict"])
async def test_an_update(tmp_path, status):
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        heard.append(await reader.readexactly(len(body)))
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        writer.close()

    body = b'{"CpuShares":7}'
    runtime = DockerRuntimeClient(str(tmp_path / "s"))
    async with await asyncio.start_unix_server(answer, tmp_path / "s"):
        if status == "200 OK":
            await runtime.update("a b", body)
        else:
            expected = RuntimeNotFoundError if "404" in status else RuntimeCallError
            with pytest.raises(RuntimeCallError) as caught:
                await runtime.update("a b", body)
            assert type(caught.value) is expected
            assert str(caught.value) == f"POST /containers/a%20b/update: {status[:3]} {{}}"
    head = heard[0].decode().lower()
    assert head.startswith("post /containers/a%20b/update http/1.1\r\n")
    assert f"content-length: {len(body)}\r\n" in head
    assert "content-type: application/json\r\n" in head
    assert heard[1] == body


async def test_a_beginning_of_several_ids(tmp_path):
    engine = Engine()
    while len({made[0] for made in engine.containers}) == len(engine.containers):
        engine.create(requests.create_sandbox(uid=f"u{len(engine.containers)}"))
    async with asking(engine, tmp_path / "s") as runtime:
        with pytest.raises(RuntimeCallError, match=r"json: 400 .*multiple IDs found"):
            await runtime.pod([*engine.containers][-1][0])


@pytest.mark.parametrize(
    ("odd", "asked"),
    [
        ("a b", "/containers/a%20b/json"),
        ("a?x=1#y", "/containers/a%3Fx%3D1%23y/json"),
        ("a/../b", None),
        ("50%", None),
        ("grün", "/containers/gr%C3%BCn/json"),
        ("a\r\nX: y", "/containers/a%0D%0AX:%20y/json"),
        ("..", None),
        ("", None),
    ],
)
async def test_an_id_that_is_none_breaks_nothing(tmp_path, odd, asked):
    engine = Engine()
    a_pod(engine)
    async with asking(engine, tmp_path / "s") as runtime:
        with pytest.raises(RuntimeCallError, match=r"^[^\n]*$"):
            await runtime.container(odd)
    assert engine.asked == ([asked] if asked else [])


def http(status: str, body: str = "", *headers: str) -> bytes:
    fields = "".join(f"{header}\r\n" for header in headers or [f"Content-Length: {len(body)}"])
    return f"HTTP/1.1 {status}\r\n{fields}\r\n{body}".encode()


LONG = http("200 OK", '[{"Id"', "Content-Length: 100")
CHUNKED = http("200 OK", "40\r\nabc", "Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (http("500 ", '{"message":\n"layer\tbroken"}'), '500 {"message": "layer broken"}'),
        (http("503 ", "x" * 1000), "503 " + "x" * 300),
        (http("301 "), "301 "),
        (http("204 "), "204 "),
        (http("404 ", "\x00\x01"), "404 \x00\x01"),
        (b"", "the answer was cut short"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "Expected HTTP/"),
        (b"x" * 60_000, "Expected HTTP/"),
        (b"\x00\xff" * 50, None),
        (b"HTTP/1.1 2", "the answer was cut short"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", None),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n[]", "the answer has no length"),
        (LONG, "the answer was cut short"),
        (http("200 OK", "[", f"Content-Length: {10**30}"), "Content-Length overflow"),
        (CHUNKED, "the answer was cut short"),
        (http("200 OK", "zz\r\n", "Transfer-Encoding: chunked"), "chunk size"),
        (http("200 OK", "no JSON"), "cannot decode the list of containers: "),
        (http("200 OK", ""), "cannot decode the list of containers: "),
        (http("200 OK", '"message"'), "cannot decode the list of containers: "),
        (http("200 OK", "[[[[[[[["), "cannot decode the list of containers: "),
        (http("200 OK", "[" * 100_000), "cannot decode the list of containers: "),
    ],
    ids=range(21),
)
async def test_an_answer_that_is_none(tmp_path, answer, said):
    engine = Engine()
    engine.answer = answer
    async with asking(engine, tmp_path / "s") as runtime:
        for call in (runtime.pods, runtime.containers):
            with pytest.raises(RuntimeCallError) as caught:
                await call()
            assert said is None or said in str(caught.value)
            assert "\n" not in str(caught.value)
            assert len(str(caught.value)) < 500
        with pytest.raises(RuntimeCallError, match=r"^[^\n]*$"):
            await runtime.pod("a")


async def test_a_description_that_is_none(tmp_path):
    engine = Engine()
    engine.answer = http("200 OK", '{"Id":')
    problem = "^container abc: the inspected container is not a JSON object"
    async with asking(engine, tmp_path / "s") as runtime:
        with pytest.raises(RuntimeCallError, match=problem):
            await runtime.container("abc")


@pytest.mark.parametrize("begun", [b"", LONG])
async def test_silence(tmp_path, monkeypatch, begun):
    monkeypatch.setattr(docker, "TIMEOUT", 0.05)
    over, path = asyncio.Event(), tmp_path / "s"

    async def stop_short(_: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(begun)
        await over.wait()
        writer.close()

    async with await asyncio.start_unix_server(stop_short, str(path)):
        with pytest.raises(RuntimeCallError, match=f"^{path}: no answer$"):
            await DockerRuntimeClient(str(path)).pods()
        over.set()


async def test_nobody_there(tmp_path):
    gone = tmp_path / "gone"
    async with Engine().serving(tmp_path / "s"):
        gone.hardlink_to(tmp_path / "s")
    for path, reason in (
        (tmp_path / "nobody", "No such file or directory"),
        (gone, "Connection refused"),
        (tmp_path / ("x" * 200), "AF_UNIX path too long"),
    ):
        async with DockerRuntimeClient(str(path)) as runtime:
            with pytest.raises(RuntimeCallError, match=f"^{path}: {reason}$"):
                await runtime.pods()


async def test_a_path_may_hold_what_addresses_do_not(tmp_path):
    path = tmp_path / "a b%20?#ü.sock"
    async with asking(Engine(), path) as runtime:
        assert await runtime.pods() == []


async def test_it_comes_back(tmp_path):
    engine, path = Engine(), tmp_path / "s"
    sandbox, _ = a_pod(engine)
    async with DockerRuntimeClient(str(path)) as runtime:
        with pytest.raises(RuntimeCallError):
            await runtime.pods()
        for _ in range(2):
            path.unlink(missing_ok=True)
            async with engine.serving(path):
                assert [one.id for one in await runtime.pods()] == [sandbox]
