"""A plugin at a socket: what it is asked, and coming back when either side goes."""

from __future__ import annotations

import asyncio
import logging

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


async def create(runtime: NriRuntime) -> list[pb.CreateContainerResponse]:
    return await runtime.ask("CreateContainer", CREATE, pb.CreateContainerResponse)


def warnings(caplog: pytest.LogCaptureFixture, message: str) -> list[str]:
    return [
        str(record.fields.get("reason"))
        for record in caplog.records
        if record.getMessage() == message
    ]


@pytest.mark.parametrize("settings", [{"index": "1"}, {"name": "no spaces"}])
def test_identity_that_cannot_be_is_told_at_once(settings):
    with pytest.raises(ValueError, match="expected"):
        NriClient(Remembering(), **settings)


async def test_registers_and_is_synchronized(runtime, socket):
    runtime.pods, runtime.containers = [POD], [CONTAINER]
    handler = Remembering(synchronize=pb.SynchronizeResponse(update=[UPDATE]))
    async with running(client_of(socket, handler, name="koordlet", index="07")) as client:
        await until(lambda: runtime.plugins)
        assert client.connected
        assert handler.told == [
            ("connected", RuntimeInfo("containerd", "2.1.4", "", "", 5.0, 10.0)),
            ("synchronize", pb.SynchronizeRequest(pods=[POD], containers=[CONTAINER])),
        ]
        assert [peer.identity for peer in runtime.plugins] == ["07-koordlet"]
        assert runtime.updated == [UPDATE]
    assert not client.connected


@pytest.mark.parametrize("has_all_calls", [False, True], ids=["older", "newer"])
async def test_is_told_what_happens(runtime, socket, has_all_calls):
    runtime.has_all_calls = has_all_calls
    handler = Remembering(create_container=adjusted())
    async with running(client_of(socket, handler)):
        await until(lambda: runtime.plugins)
        request = pb.RunPodSandboxRequest(pod=POD)
        await runtime.ask("RunPodSandbox", request, pb.RunPodSandboxResponse)
        assert await create(runtime) == [adjusted()]
        assert handler.told[2:] == [("run_pod_sandbox", request), ("create_container", CREATE)]


async def test_the_registration_may_be_answered_last(runtime, socket):
    runtime.configure_first = True
    handler = Remembering()
    async with running(client_of(socket, handler)):
        await until(lambda: runtime.plugins)
        assert handler.names() == ["connected", "synchronize"]


async def test_split_synchronisation_is_told_once(runtime, socket):
    runtime.pods = [pb.PodSandbox(id=f"s{number}") for number in range(5)]
    runtime.containers = [pb.Container(id=f"c{number}") for number in range(7)]
    runtime.per_message = 2
    handler = Remembering()
    async with running(client_of(socket, handler)):
        await until(lambda: runtime.plugins)
        whole = pb.SynchronizeRequest(pods=runtime.pods, containers=runtime.containers)
        assert [what for name, what in handler.told if name == "synchronize"] == [whole]


@pytest.mark.parametrize("size", [4000, 5000, 300_000])
async def test_large_answers_fit_the_runtimes_buffers(runtime, socket, size):
    async with running(client_of(socket, Remembering(create_container=adjusted(size)))):
        await until(lambda: runtime.plugins)
        assert await create(runtime) == [adjusted(size)]
        assert await create(runtime) == [adjusted(size)]


async def test_async_methods_are_awaited(runtime, socket):
    async def answer(_):
        await asyncio.sleep(0)
        return adjusted()

    async with running(client_of(socket, Remembering(create_container=answer))) as client:
        await until(lambda: runtime.plugins)
        assert await create(runtime) == [adjusted()]
        assert client.counts.late == 0


async def test_a_slow_method_is_answered_for_and_heard_later(runtime, socket, caplog):
    go_on = asyncio.Event()
    late = []

    async def answer(_):
        await go_on.wait()
        return adjusted()

    handler = Remembering(create_container=answer)
    async with running(client_of(socket, handler, late=late.append, patience=SHORT)) as client:
        await until(lambda: runtime.plugins)
        assert await create(runtime) == [pb.CreateContainerResponse()]
        assert client.counts.late == 1
        assert late == []
        go_on.set()
        await until(lambda: late)
        [one] = late
        assert (one.method, one.request, one.response) == ("CreateContainer", CREATE, adjusted())
        assert await create(runtime) == [adjusted()]
        assert runtime.connections == 1
    assert warnings(caplog, "nri call answered with no change") == ["no answer within 0.5 s"]


async def test_a_runtime_that_tells_no_timeout_waits_two_seconds(runtime, socket, caplog):
    runtime.tells_timeouts = False

    async def answer(_):
        await asyncio.sleep(60)

    handler = Remembering(create_container=answer)
    async with running(client_of(socket, handler, patience=SHORT)):
        await until(lambda: runtime.plugins)
        assert await create(runtime) == [pb.CreateContainerResponse()]
    assert warnings(caplog, "nri call answered with no change") == ["no answer within 0.1 s"]


@pytest.mark.parametrize("outcome", ["nothing", "failure"])
async def test_a_late_method_that_wants_nothing_offers_nothing(runtime, socket, outcome):
    go_on, ended, late = asyncio.Event(), asyncio.Event(), []

    async def answer(_):
        await go_on.wait()
        ended.set()
        if outcome == "failure":
            raise KeyError(outcome)

    handler = Remembering(create_container=answer)
    async with running(client_of(socket, handler, late=late.append, patience=SHORT)) as client:
        await until(lambda: runtime.plugins)
        assert await create(runtime) == [pb.CreateContainerResponse()]
        go_on.set()
        await ended.wait()
        assert await create(runtime) == [pb.CreateContainerResponse()]
        assert client.counts.late == 1
        assert client.counts.failed == (2 if outcome == "failure" else 0)
        assert late == []
        assert client.connected


async def test_a_late_answer_that_is_not_taken_ends_nothing(runtime, socket, caplog):
    go_on = asyncio.Event()

    async def answer(_):
        await go_on.wait()
        return adjusted()

    def refuse(_):
        raise RuntimeError("no room")

    handler = Remembering(create_container=answer)
    async with running(client_of(socket, handler, late=refuse, patience=SHORT)) as client:
        await until(lambda: runtime.plugins)
        assert await create(runtime) == [pb.CreateContainerResponse()]
        go_on.set()
        await until(lambda: warnings(caplog, "late nri answer not taken"))
        assert client.connected
    assert warnings(caplog, "late nri answer not taken") == ["RuntimeError: no room"]


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
async def test_a_failing_method_is_answered_for(runtime, socket, caplog, wanted, reason):
    async with running(client_of(socket, Remembering(create_container=wanted))) as client:
        await until(lambda: runtime.plugins)
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


async def test_failing_to_hear_of_connections_ends_nothing(runtime, socket, caplog):
    handler = Remembering(connected=_raise, disconnected=_raise)
    async with running(client_of(socket, handler)):
        await until(lambda: runtime.plugins)
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
    synchronized = [len(what.pods) for name, what in handler.told if name == "synchronize"]
    assert synchronized == [0, 1, 2, 3]
    assert handler.names() == ["connected", "synchronize", "disconnected"] * 3 + [
        "connected",
        "synchronize",
    ]
    assert warnings(caplog, "nri connection ended") == ["closed by the runtime"] * 3


async def test_a_plugin_that_starts_again_is_synchronized_again(runtime, socket):
    runtime.pods = [POD]
    for _ in range(2):
        handler = Remembering()
        async with running(client_of(socket, handler)):
            await until(lambda: runtime.plugins)
            assert handler.told[1] == ("synchronize", pb.SynchronizeRequest(pods=[POD]))
        await until(lambda: not runtime.plugins)


async def test_waits_for_a_socket_and_says_so_once(socket, caplog):
    caplog.set_level(logging.WARNING)
    runtime = NriRuntime(socket)
    async with running(client_of(socket, Remembering())) as client:
        await until(lambda: warnings(caplog, "nri not available yet, waiting"))
        await asyncio.sleep(0.1)
        assert not client.connected
        assert warnings(caplog, "nri not available yet, waiting") == [
            f"{socket}: no runtime listens there"
        ]
        async with runtime:
            await until(lambda: client.connected)
        await until(lambda: len(warnings(caplog, "nri not available yet, waiting")) == 2)


async def test_a_directory_that_is_not_there_yet_is_waited_for_too(socket):
    path = socket.parent / "nri" / "nri.sock"
    async with running(client_of(path, Remembering())) as client:
        await asyncio.sleep(0.05)
        path.parent.mkdir()
        async with NriRuntime(path):
            await until(lambda: client.connected)


async def test_one_identity_is_registered_once(runtime, socket, caplog):
    first, second = Remembering(), Remembering()
    async with running(client_of(socket, first)) as one:
        await until(lambda: one.connected)
        async with running(client_of(socket, second)) as two:
            await until(lambda: warnings(caplog, "nri not available yet, waiting"))
            await asyncio.sleep(0.1)
            assert not two.connected
            assert runtime.connections == 1
            [reason] = warnings(caplog, "nri not available yet, waiting")
            assert "10-koordlet.lock: held by another" in reason
    async with running(client_of(socket, second)) as two:
        await until(lambda: two.connected)


async def test_the_second_takes_over_when_the_first_ends(runtime, socket):
    async with asyncio.TaskGroup() as tasks:
        one, two = (client_of(socket, Remembering()) for _ in range(2))
        first = tasks.create_task(one.run())
        await until(lambda: one.connected)
        second = tasks.create_task(two.run())
        await asyncio.sleep(0.05)
        first.cancel()
        await until(lambda: two.connected)
        second.cancel()
    assert runtime.connections == 2


async def test_two_identities_are_asked_in_their_order(runtime, socket):
    one = client_of(socket, Remembering(create_container=adjusted(1)), index="20")
    two = client_of(socket, Remembering(create_container=adjusted(2)), index="05")
    async with running(one), running(two):
        await until(lambda: len(runtime.plugins) == 2)
        assert await create(runtime) == [adjusted(2), adjusted(1)]


async def test_a_lock_that_cannot_be_made_is_tried_again(runtime, socket, caplog):
    lock = socket.parent / "folder"
    lock.mkdir()
    async with running(client_of(socket, Remembering(), lock=str(lock))) as client:
        await until(lambda: warnings(caplog, "nri connection ended"))
        lock.rmdir()
        await until(lambda: client.connected)
    assert str(lock) in warnings(caplog, "nri connection ended")[0]


async def test_refused_registration_is_tried_again(runtime, socket, caplog):
    runtime.refuse_all = "not today"
    async with running(client_of(socket, Remembering())) as client:
        await until(lambda: runtime.connections >= 3)
        assert not client.connected
        runtime.refuse_all = ""
        await until(lambda: client.connected)
    reasons = warnings(caplog, "nri connection ended")
    assert len(reasons) >= 2
    assert set(reasons) == {"registration refused: not today"}


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


async def test_waits_longer_each_time_until_it_works(runtime, socket):
    runtime.refuse_all = "not today"
    backoff = Backoff(0.001, 0.004, chance=lambda: 1.0)
    async with running(client_of(socket, Remembering(), backoff=backoff)) as client:
        await until(lambda: runtime.connections > 4)
        assert backoff.next() == 0.004
        runtime.refuse_all = ""
        await until(lambda: client.connected and runtime.plugins)
        runtime.plugins[0].close()
        await until(lambda: client.counts.connections == 2)
        assert backoff.next() == 0.002


async def test_a_runtime_that_talks_nonsense_is_left(runtime, socket):
    client = client_of(socket, Remembering())
    async with asyncio.TaskGroup() as tasks:
        ending = tasks.create_task(client.connect_once())
        await until(lambda: runtime.plugins)
        runtime.plugins[0]._writer.write(b"\xff" * 100)
        ended = await ending
    assert ended.served
    assert ended.reason.startswith("TtrpcError: a piece of 4294967295 bytes")


async def test_shutdown_is_told_as_the_reason(runtime, socket):
    client = client_of(socket, Remembering())
    async with asyncio.TaskGroup() as tasks:
        ending = tasks.create_task(client.connect_once())
        await until(lambda: runtime.plugins)
        await runtime.plugins[0].call("Shutdown", pb.Empty(), pb.Empty)
        runtime.plugins[0].close()
    assert ending.result() == ConnectionEnd("the runtime shut down", served=True)


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
    runtime.failing = {"c2"}
    other = pb.ContainerUpdate(container_id="c2")
    async with running(client_of(socket, Remembering())) as client:
        await until(lambda: client.connected)
        assert await client.update_containers([UPDATE, other]) == [other]
        assert runtime.updated == [UPDATE]
        assert (client.counts.updates, client.counts.updates_failed) == (1, 1)


async def test_unsolicited_update_refused(runtime, socket):
    runtime.refuse_updates = "no such container"
    async with running(client_of(socket, Remembering())) as client:
        await until(lambda: client.connected)
        with pytest.raises(ContainerUpdateError, match="no such container"):
            await client.update_containers([UPDATE])
        assert client.counts.updates_failed == 1
        assert client.connected


async def test_update_without_a_runtime(socket):
    client = client_of(socket, Remembering())
    with pytest.raises(NotConnectedError, match="not connected"):
        await client.update_containers([UPDATE])


async def test_update_before_synchronisation(runtime, socket):
    runtime.mute = True
    async with running(client_of(socket, Remembering())) as client:
        await until(lambda: runtime.connections)
        with pytest.raises(NotConnectedError, match="not synchronized"):
            await client.update_containers([UPDATE])


async def test_update_waits_no_longer_than_told(runtime, socket):
    async with running(client_of(socket, Remembering())) as client:
        await until(lambda: client.connected)
        async with runtime._request:
            with pytest.raises(TimeoutError):
                await client.update_containers([UPDATE], within=0.05)
        # The answer that comes after all is nobody's.
        assert await client.update_containers([UPDATE]) == []
        assert client.connected


async def test_update_that_the_connections_end_cuts_off(runtime, socket):
    async with running(client_of(socket, Remembering())) as client:
        await until(lambda: client.connected)
        async with runtime._request, asyncio.TaskGroup() as tasks:

            async def update() -> None:
                with pytest.raises(NotConnectedError, match="the connection was lost"):
                    await client.update_containers([UPDATE])

            tasks.create_task(update())
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
