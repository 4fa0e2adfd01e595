"""A plugin at a socket: its calls, and its return when either side goes."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import Any

import pytest
from koord_proto import nri_pb2 as pb
from koord_service.backoff import Backoff
from koordlet.runtime_hooks.nri.client import (
    ConnectionEnd,
    ContainerUpdateError,
    NotConnectedError,
    NriClient,
    NriTimeouts,
)
from koordlet.runtime_hooks.nri.protocol.events import RuntimeInfo

from tests.koordlet.runtime_hooks.nri.conftest import Remembering, client_of, running
from tests.support.nri_runtime import NriRuntime
from tests.support.waiting import until

POD = pb.PodSandbox(id="s1", name="web", namespace="shop")
CONTAINER = pb.Container(id="c1", name="main")
CREATE = pb.CreateContainerRequest(pod=POD, container=CONTAINER)
UPDATE = pb.ContainerUpdate(container_id="c1")

SHORT = NriTimeouts(answer_share=0.05)
"""A method is late long before the runtime's patience is over, however slow the machine."""


def adjusted(size: int = 1) -> pb.CreateContainerResponse:
    response = pb.CreateContainerResponse()
    response.adjust.annotations["seen"] = "x" * size
    return response


@asynccontextmanager
async def served(runtime: NriRuntime, handler: Remembering, **settings: Any):
    """A client that is connected and synchronized."""
    async with running(client_of(runtime.socket, handler, **settings)) as client:
        await until(lambda: runtime.plugins and client.connected)
        yield client


async def create(runtime: NriRuntime) -> list[pb.CreateContainerResponse]:
    return await runtime.ask("CreateContainer", CREATE, pb.CreateContainerResponse)


def warnings(caplog: pytest.LogCaptureFixture, message: str) -> list[str]:
    return [
        str(record.fields.get("reason"))
        for record in caplog.records
        if record.getMessage() == message
    ]


@pytest.mark.parametrize("settings", [{"index": "1"}, {"name": "no spaces"}])
def test_identity_that_cannot_be_is_reported_at_once(settings):
    with pytest.raises(ValueError, match="expected"):
        NriClient(Remembering(), **settings)


async def test_registers_and_is_synchronized(runtime):
    runtime.pods, runtime.containers = [POD], [CONTAINER]
    handler = Remembering(synchronize=pb.SynchronizeResponse(update=[UPDATE]))
    async with served(runtime, handler, name="koordlet", index="07") as client:
        assert client.connected
        assert handler.reported == [
            ("connected", RuntimeInfo("containerd", "2.1.4", "", "", 5.0, 10.0)),
            ("synchronize", pb.SynchronizeRequest(pods=[POD], containers=[CONTAINER])),
        ]
        assert [peer.identity for peer in runtime.plugins] == ["07-koordlet"]
        assert runtime.updated == [UPDATE]
    assert not client.connected


def slowly(go_on, outcome=None):
    """A method that answers when it may."""

    async def answer(_):
        await go_on.wait()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return answer


@pytest.mark.parametrize(("has_all_calls", "size"), [(False, 1), (True, 1), (True, 300_000)])
async def test_events_reach_the_handler(runtime, has_all_calls, size):
    """With an older runtime, a newer one, and with answers larger than its buffers."""
    runtime.has_all_calls = has_all_calls
    handler = Remembering(create_container=adjusted(size))
    async with served(runtime, handler):
        request = pb.RunPodSandboxRequest(pod=POD)
        await runtime.ask("RunPodSandbox", request, pb.RunPodSandboxResponse)
        for _ in range(2):
            assert await create(runtime) == [adjusted(size)]
        assert handler.reported[2:4] == [("run_pod_sandbox", request), ("create_container", CREATE)]


@pytest.mark.parametrize(("reported", "waits"), [(True, "0.5"), (False, "0.1")])
async def test_a_slow_method_is_answered_for_and_its_answer_used_later(
    runtime, caplog, reported, waits
):
    """A runtime that tells no timeout waits two seconds."""
    runtime.tells_timeouts = reported
    go_on, late = asyncio.Event(), []
    handler = Remembering(create_container=slowly(go_on, adjusted()))
    async with served(runtime, handler, late=late.append, patience=SHORT) as client:
        assert await create(runtime) == [pb.CreateContainerResponse()]
        assert (client.counts.late, late) == (1, [])
        go_on.set()
        await until(lambda: late)
        [one] = late
        assert (one.method, one.request, one.response) == ("CreateContainer", CREATE, adjusted())
        assert await create(runtime) == [adjusted()]
        assert (runtime.connections, client.counts.late) == (1, 1)
    reasons = warnings(caplog, "nri call answered with no change")
    assert reasons == [f"no answer within {waits} s"]


@pytest.mark.parametrize(
    ("outcome", "failed", "refused"),
    [(None, 0, []), (KeyError("x"), 1, []), (adjusted(), 0, ["RuntimeError: no room"])],
    ids=["nothing", "failure", "not taken"],
)
async def test_a_late_answer_that_is_of_no_use_ends_nothing(
    runtime, caplog, outcome, failed, refused
):
    go_on, late = asyncio.Event(), []

    def refuse(answer):
        late.append(answer)
        raise RuntimeError("no room")

    handler = Remembering(create_container=slowly(go_on, outcome))
    async with served(runtime, handler, late=refuse, patience=SHORT) as client:
        assert await create(runtime) == [pb.CreateContainerResponse()]
        go_on.set()
        await until(lambda: (client.counts.failed, len(late)) == (failed, len(refused)))
        await until(lambda: warnings(caplog, "late nri answer not taken") == refused)
        await create(runtime)
        assert client.counts.late == 1
        assert client.connected


def _raise(_):
    raise RuntimeError("two\nlines")


async def _raise_async(_):
    raise RuntimeError("two\nlines")


async def _cancelled(_):
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (_raise, "RuntimeError: two lines"),
        (_raise_async, "RuntimeError: two lines"),
        (_cancelled, "CancelledError:"),
        (
            pb.StopContainerResponse(),
            "TypeError: a StopContainerResponse where CreateContainerResponse is due",
        ),
        (adjusted(5 << 20), "ValueError: a ttrpc message of"),
    ],
    ids=["raises", "raises later", "is cancelled", "of another call", "too large"],
)
async def test_a_failing_method_is_answered_for(runtime, caplog, wanted, reason):
    async with served(runtime, Remembering(create_container=wanted)) as client:
        assert await create(runtime) == [pb.CreateContainerResponse()]
        assert await create(runtime) == [pb.CreateContainerResponse()]
        assert client.counts.failed == 2
        assert client.counts.late == 0
        assert runtime.connections == 1
    said = warnings(caplog, "nri handler failed")
    assert len(said) == 2
    assert said[0].startswith(reason)
    [subject, _] = [record.fields for record in caplog.records if "handler" in record.getMessage()]
    assert subject["pod"] == "shop/web"
    assert subject["container"] == "main"


async def test_a_handler_that_fails_on_connections_ends_nothing(runtime, caplog):
    handler = Remembering(connected=_raise, disconnected=_raise)
    async with served(runtime, handler):
        await runtime.stop()
        await runtime.start()
        await until(lambda: runtime.plugins and runtime.connections == 2)
    calls = [r.fields["call"] for r in caplog.records if r.getMessage() == "nri handler failed"]
    assert calls == ["connected", "disconnected", "connected"]


async def test_comes_back_when_the_runtime_restarts(runtime, socket, caplog):
    handler = Remembering()
    async with running(client_of(socket, handler)) as client:
        for number in range(3):
            await until(lambda: runtime.plugins)
            runtime.pods.append(pb.PodSandbox(id=f"s{number}"))
            await runtime.stop()
            await until(lambda: not client.connected)
            await runtime.start()
        await until(lambda: runtime.plugins)
        assert client.counts.connections == 4
    synchronized = [len(what.pods) for name, what in handler.reported if name == "synchronize"]
    assert synchronized == [0, 1, 2, 3]
    assert handler.names() == ["connected", "synchronize", "disconnected"] * 3 + [
        "connected",
        "synchronize",
    ]
    assert warnings(caplog, "nri connection ended") == ["closed by the runtime"] * 3


async def test_waits_for_a_socket_and_says_so_once(socket, caplog):
    caplog.set_level(logging.WARNING)
    runtime = NriRuntime(socket.parent / "nri" / "nri.sock")
    async with running(client_of(runtime.socket, Remembering())) as client:
        await until(lambda: warnings(caplog, "nri not available yet, waiting"))
        await asyncio.sleep(0.1)
        assert not client.connected
        assert warnings(caplog, "nri not available yet, waiting") == [
            f"{runtime.socket}: no runtime listens there"
        ]
        socket.parent.joinpath("nri").mkdir()
        async with runtime:
            await until(lambda: client.connected)
        await until(lambda: len(warnings(caplog, "nri not available yet, waiting")) == 2)


async def test_one_identity_is_registered_once_and_the_second_takes_over(runtime, socket, caplog):
    async with asyncio.TaskGroup() as tasks:
        one, two = (client_of(socket, Remembering()) for _ in range(2))
        first = tasks.create_task(one.run())
        await until(lambda: one.connected)
        second = tasks.create_task(two.run())
        await until(lambda: warnings(caplog, "nri not available yet, waiting"))
        await asyncio.sleep(0.1)
        assert (two.connected, runtime.connections) == (False, 1)
        first.cancel()
        await until(lambda: two.connected)
        second.cancel()
    assert runtime.connections == 2
    [reason] = warnings(caplog, "nri not available yet, waiting")
    assert "10-koordlet.lock: held by another" in reason


async def test_a_lock_that_cannot_be_made_is_tried_again(runtime, socket, caplog):
    lock = socket.parent / "folder"
    lock.mkdir()
    async with running(client_of(socket, Remembering(), lock=str(lock))) as client:
        await until(lambda: warnings(caplog, "nri connection ended"))
        lock.rmdir()
        await until(lambda: client.connected)
    assert str(lock) in warnings(caplog, "nri connection ended")[0]


async def test_a_runtime_that_never_configures_is_left(runtime, socket):
    runtime.mute = True
    client = client_of(socket, Remembering(), patience=NriTimeouts(registration=0.05))
    assert await client.connect_once() == ConnectionEnd(
        "not configured within 0.05 s", served=False
    )


async def test_a_configured_plugin_may_wait_for_long(runtime, socket):
    client = client_of(socket, Remembering(), patience=NriTimeouts(registration=1.0))
    async with runtime._request, asyncio.TaskGroup() as tasks:
        ending = tasks.create_task(client.connect_once())
        await asyncio.sleep(1.2)
        assert not ending.done()
        ending.cancel()


async def test_refused_it_waits_longer_each_time_until_it_works(runtime, socket, caplog):
    runtime.refuse_all = "not today"
    backoff = Backoff(0.001, 0.004, chance=lambda: 1.0)
    async with running(client_of(socket, Remembering(), backoff=backoff)) as client:
        await until(lambda: runtime.connections > 4)
        assert not client.connected
        assert set(warnings(caplog, "nri connection ended")) == {"registration refused: not today"}
        assert backoff.next() == 0.004
        runtime.refuse_all = ""
        await until(lambda: client.connected and runtime.plugins)
        runtime.plugins[0].close()
        await until(lambda: client.counts.connections == 2)
        assert backoff.next() == 0.002


async def nonsense(peer):
    peer._writer.write(b"\xff" * 100)


async def shutdown(peer):
    await peer.call("Shutdown", pb.Empty(), pb.Empty)
    peer.close()


@pytest.mark.parametrize(
    ("act", "reason"),
    [(nonsense, "TtrpcError: a piece of 4294967295 bytes"), (shutdown, "the runtime shut down")],
)
async def test_why_a_connection_ended(runtime, socket, act, reason):
    client = client_of(socket, Remembering())
    async with asyncio.TaskGroup() as tasks:
        ending = tasks.create_task(client.connect_once())
        await until(lambda: runtime.plugins)
        await act(runtime.plugins[0])
    assert ending.result().served
    assert ending.result().reason.startswith(reason)


async def test_one_connection_at_a_time(runtime, socket):
    client = client_of(socket, Remembering())
    async with running(client):
        await until(lambda: client.connected)
        with pytest.raises(RuntimeError, match="already connected"):
            await client.connect_once()
        assert client.connected


async def test_connecting_once_to_nobody_is_an_error(socket):
    with pytest.raises(FileNotFoundError):
        await client_of(socket, Remembering()).connect_once()


async def test_calls_under_way_end_with_the_connection(runtime, socket):
    ended = asyncio.Event()

    async def answer(_):
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    handler = Remembering(create_container=answer)
    async with running(client_of(socket, handler)) as client, asyncio.TaskGroup() as tasks:
        await until(lambda: runtime.plugins)
        creating = tasks.create_task(create(runtime))
        await until(lambda: "create_container" in handler.names())
        runtime.plugins[0].close()
        await ended.wait()
        creating.cancel()
        await until(lambda: client.counts.connections == 2)
        assert client.counts.late == client.counts.failed == 0


async def test_unsolicited_update(runtime, socket):
    client = client_of(socket, Remembering())
    with pytest.raises(NotConnectedError, match="not connected"):
        await client.update_containers([UPDATE])
    runtime.mute = True
    async with running(client):
        await until(lambda: runtime.connections)
        with pytest.raises(NotConnectedError, match="not synchronized"):
            await client.update_containers([UPDATE])
    runtime.mute, runtime.failing = False, {"c2"}
    other = pb.ContainerUpdate(container_id="c2")
    async with served(runtime, Remembering()) as client:
        assert await client.update_containers([UPDATE, other]) == [other]
        assert runtime.updated == [UPDATE]
        assert (client.counts.updates, client.counts.updates_failed) == (1, 1)
        runtime.refuse_updates = "no such container"
        with pytest.raises(ContainerUpdateError, match="no such container"):
            await client.update_containers([UPDATE])
        assert client.counts.updates_failed == 2
        assert client.connected


async def test_update_waits_no_longer_than_asked(runtime):
    async with served(runtime, Remembering()) as client:
        async with runtime._request:
            with pytest.raises(TimeoutError):
                await client.update_containers([UPDATE], within=0.05)
        # The answer that comes after all is nobody's.
        assert await client.update_containers([UPDATE]) == []
        assert client.connected


async def test_update_that_the_connections_end_cuts_off(runtime):
    async def update(client):
        with pytest.raises(NotConnectedError, match="the connection was lost"):
            await client.update_containers([UPDATE])

    async with (
        served(runtime, Remembering()) as client,
        runtime._request,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(update(client))
        await until(lambda: client.counts.updates)
        runtime.plugins[0].close()


async def test_an_update_asked_for_in_a_method_waits_for_the_methods_end(runtime, socket):
    failed = []

    async def answer(_):
        failed.append(await client.update_containers([UPDATE]))

    client = client_of(socket, Remembering(create_container=answer), patience=SHORT)
    async with running(client):
        await until(lambda: client.connected)
        assert await create(runtime) == [pb.CreateContainerResponse()]
        await until(lambda: failed)
        assert failed == [[]]
        assert runtime.connections == 1
