from __future__ import annotations

import asyncio

import pytest
from koord_serving.admission.handler import AdmissionLimits
from koord_serving.tls.core.certificates import CA_CERT

from tests.support.serving import NAME, Serving, review, serving, trusting

PATIENT = AdmissionLimits(body=60, answer=60)


async def health(running: Serving) -> tuple[int, str]:
    async with running.session.get(running.url("/healthz")) as response:
        return response.status, await response.text()


async def test_healthy_while_all_is_well() -> None:
    problem = ""
    async with serving(problem=lambda: problem) as running:
        assert await health(running) == (200, "ok\n")
        problem = "profiles are not listed yet"
        assert await health(running) == (503, "profiles are not listed yet\n")


async def test_stopping_is_reported_first_and_what_is_under_way_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drained, sleep = asyncio.Event(), asyncio.sleep

    async def until_drained(seconds: float, *more: object) -> None:
        await (drained.wait() if seconds == 3600 else sleep(seconds, *more))

    monkeypatch.setattr(asyncio, "sleep", until_drained)
    async with serving(limits=PATIENT) as running:
        head = b"POST /admit HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        body = b'{"kind":"AdmissionReview"'
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            running.server.port,
            ssl=trusting(running.data[CA_CERT]),
            server_hostname=NAME,
        )
        writer.write(head + b"Content-Length: %d\r\n\r\n" % (len(body) + 1) + body)
        while not running.registry.get_sample_value("koord_manager_webhook_in_flight"):
            await asyncio.sleep(0.01)
        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(running.server.stop(drain=3600))
            await asyncio.sleep(0)
            async with running.session.get(running.url("/healthz")) as response:
                assert response.status == 503
                assert await response.text() == "this replica is stopping\n"
                assert response.headers["Connection"] == "close"
            assert (await running.ask("/admit", review()))[0] == 200, "others are still answered"
            drained.set()
            await asyncio.sleep(0.4)
            with pytest.raises(OSError):  # noqa: PT011 - whatever its kind
                await asyncio.open_connection("127.0.0.1", running.server.port)
            assert not stopping.done(), "it waits for what is under way"
            writer.write(b"}")
            said = await reader.read()
            assert said.startswith(b"HTTP/1.1 400 ")
        await running.server.stop()
        writer.close()
