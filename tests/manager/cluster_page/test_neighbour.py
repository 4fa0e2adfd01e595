"""Replicas of a neighbour: who of them leads, and what becomes of strange answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from koord_manager.cluster_page import neighbour as module
from koord_manager.cluster_page.neighbour import Neighbour
from koord_service.status import StatusPage, StatusServer, json_page

from tests.support.ports import free_port


@contextmanager
def replica(host: str, port: int, **pages: Any) -> Iterator[None]:
    shown = {f"/v1/{name}": lambda _, page=page: page for name, page in pages.items()}
    server = StatusServer(f"{host}:{port}", shown)
    server.start()
    try:
        yield
    finally:
        server.stop()


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that has three addresses, as a Service without a cluster IP does."""

    def resolve(_: str, port: int, **_more: Any) -> list[Any]:
        return [(0, 0, 0, "", (f"127.0.0.{last}", port)) for last in (1, 2, 3)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


async def ask(port: int, *more: str) -> Any:
    return await Neighbour(("schedulers", port), "scheduler_address", more).ask()


def overview(name: str, *, leads: bool) -> StatusPage:
    return json_page({"identity": name, "leads": leads})


@pytest.mark.usefixtures("three")
async def test_the_one_that_leads_is_asked_for_the_rest() -> None:
    port = free_port()
    with ExitStack() as stack:
        follower = overview("s1", leads=False)
        stack.enter_context(
            replica("127.0.0.1", port, overview=follower, devices=json_page({"nodes": {}}))
        )
        leader = overview("s2", leads=True)
        stack.enter_context(
            replica("127.0.0.2", port, overview=leader, devices=json_page({"nodes": {"n1": 2}}))
        )
        found = await ask(port, "/v1/devices")
    assert found.reason == ""
    assert json.loads(bytes(found.pages["/v1/overview"]))["identity"] == "s2"
    assert json.loads(bytes(found.pages["/v1/devices"])) == {"nodes": {"n1": 2}}


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (StatusPage(b"404\n", status=404), "/v1/overview is answered with 404"),
        (StatusPage(b'{"leads": true'), "truncated"),
        (StatusPage(b" " * (3 << 20)), "/v1/overview is longer than 2097152 bytes"),
        (StatusPage(b"", status=302, headers={"Location": "http://127.0.0.1:1/"}), "with 302"),
    ],
)
async def test_strange_answers_are_none(page: StatusPage, reason: str) -> None:
    port = free_port()
    with replica("127.0.0.1", port, overview=page):
        found = await Neighbour(("127.0.0.1", port), "scheduler_address").ask()
    assert found.pages == {}
    assert found.reason.startswith(f"127.0.0.1:{port} (--scheduler-address): ")
    assert reason in found.reason


async def test_one_that_hangs_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        found = await Neighbour(("127.0.0.1", port), "scheduler_address").ask()
    assert found.reason.endswith("no answer in time")


async def test_of_dns_that_hangs_one_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.05)
    calls, go = list[str](), threading.Event()

    def resolve(host: str, _port: int, **_more: Any) -> list[Any]:
        calls.append(host)
        go.wait()
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    made = Neighbour(("nowhere", 1), "scheduler_address")
    for _ in range(3):
        assert (await made.ask()).reason.endswith("no answer in time")
    assert calls == ["nowhere"]
    monkeypatch.setattr(module, "_SECONDS", 10.0)
    go.set()
    assert "Name or service not known" in (await made.ask()).reason
