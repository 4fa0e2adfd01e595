"""The frame of a control-plane program: what its README shows, and the order of a hand-over."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
import uvloop
from koord_kube.client import Client, Cluster, Limits
from koord_kube.leadership import Leadership, LeaseSettings
from koord_kube.program import ControlPlaneProgram, settle_for_ever
from koord_kube.protocol.resources import LEASES, NAMESPACES
from koord_kube.shared_informers import SharedInformers
from koord_service.pages import Query, StatusPage

from tests.support.kube_api import KubeApi
from tests.support.waiting import until

README = Path(__file__).parents[2] / "kube/README.md"
LEASE = LeaseSettings("example", "default")


def holder(api: KubeApi) -> str:
    try:
        return str(api.get(LEASES, LEASE.name, LEASE.namespace)["spec"]["holderIdentity"])
    except KeyError:
        return ""


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def example(serve: Any) -> None:
    async with KubeApi() as api, Client(Cluster(api.url), Limits(qps=0)) as client:
        api.put(NAMESPACES, {"metadata": {"name": "shop"}})
        running = asyncio.gather(serve(client, "me"))
        await until(lambda: labels(api, "shop").get("example/seen") == "true")
        api.put(NAMESPACES, {"metadata": {"name": "late"}})
        await until(lambda: labels(api, "late").get("example/seen") == "true")
        stop()
        await running
        assert holder(api) == ""


def labels(api: KubeApi, name: str) -> dict[str, str]:
    return dict(api.get(NAMESPACES, name)["metadata"].get("labels") or {})


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_the_example_of_the_readme_works(run: Any) -> None:
    [text] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(text.splitlines()) <= 30
    names: dict[str, Any] = {}
    exec(compile(text, str(README), "exec"), names)
    run(example(names["serve"]))


class Recorded:
    """A program whose parts say what happens to them, in order."""

    def __init__(self, api: KubeApi, client: Client, lease: LeaseSettings | None = LEASE) -> None:
        self.api = api
        self.steps: list[str] = []
        self.leadership = Leadership(client, "me", lease)
        self.program = ControlPlaneProgram(
            "example",
            self.leadership,
            self.lead,
            parts=(self.part,),
            settle=lambda: self.step("settle"),
            withdraw=lambda: self.step("withdraw"),
            drain=self.drain,
        )
        self.stopping: list[StatusPage] = []

    async def ready(self) -> StatusPage:
        return await anyio.to_thread.run_sync(self.program.probes["/readyz"], Query({}))

    async def drain(self) -> None:
        self.stopping.append(await self.ready())
        await self.step("drain")

    async def step(self, name: str) -> None:
        held = "held" if holder(self.api) == "me" else "free"
        self.steps.append(f"{name}, Lease {held}")

    async def lead(self, api: Client, term: int) -> None:
        self.steps.append("lead")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await self.step("lead ended")

    async def part(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.steps.append("part ended")


async def test_a_hand_over_keeps_its_order(api: KubeApi, client: Client) -> None:
    made = Recorded(api, client)
    running = asyncio.gather(made.program.run())
    await until(lambda: "lead" in made.steps)
    assert (await made.ready()).status == 200
    stop()
    stop()  # a second one changes nothing
    await running
    assert made.steps == [
        "lead",
        "settle, Lease held",
        "lead ended, Lease held",
        "withdraw, Lease held",
        "drain, Lease free",
        "part ended",
    ]
    [page] = made.stopping
    assert (page.status, page.body) == (503, b"this example is stopping\n")


async def test_a_part_that_fails_ends_the_program_and_others_need_not_wait(
    api: KubeApi, client: Client
) -> None:
    made = Recorded(api, client)

    async def fail(_api: Client, _term: int) -> None:
        raise ZeroDivisionError

    made.program._lead = fail
    with pytest.raises(ExceptionGroup):
        await made.program.run()
    assert made.steps == ["part ended", "withdraw, Lease held", "drain, Lease free"]


async def test_without_a_lease_it_leads_at_once(api: KubeApi, client: Client) -> None:
    made = Recorded(api, client, lease=None)
    running = asyncio.gather(made.program.run())
    await until(lambda: "lead" in made.steps)
    assert made.leadership.leads
    assert [made.leadership.fenced_in(term)._leads() for term in (0, 1)] == [True, False]
    stop()
    await running
    assert api.count("create", "leases") == 0


def test_an_event_loop_without_a_turn_is_not_alive(client: Client) -> None:
    now = 0.0
    made = ControlPlaneProgram("example", Leadership(client, "me", None), Recorded.lead)
    made.health._monotonic = lambda: now
    made.health._beat = 0.0
    assert made.probes["/livez"](Query({})).status == 200
    now = 31.0
    assert made.probes["/livez"](Query({})).status == 503


async def test_informers_are_shared_by_kind_and_view(api: KubeApi, client: Client) -> None:
    api.put(NAMESPACES, {"metadata": {"name": "shop"}})
    informers = SharedInformers(client)
    first = informers.get(NAMESPACES, _name)
    assert informers.get(NAMESPACES, _name) is first
    seen: list[tuple[str, str | None, str | None]] = []
    async with asyncio.TaskGroup() as group:
        running = group.create_task(informers.run())
        await first.wait_synced()
        first.subscribe(lambda *change: seen.append(change))
        api.put(NAMESPACES, {"metadata": {"name": "late"}})
        await until(lambda: len(seen) == 2)
        started_late = informers.get(NAMESPACES, msgspec.json.decode)
        await started_late.wait_synced()
        running.cancel()
    assert seen == [("shop", None, "shop"), ("late", None, "late")]
    assert api.count("watch", "namespaces") == 2


def _name(raw: bytes) -> str:
    return str(msgspec.json.decode(raw)["metadata"]["name"])


async def test_what_was_read_is_left_to_no_collector() -> None:
    gc.unfreeze()  # what programs of other tests froze
    was_read, frozen = anyio.Event(), gc.get_freeze_count()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(settle_for_ever, was_read.wait)
            await anyio.lowlevel.checkpoint()
            assert gc.get_freeze_count() == frozen
            kept = [[number] for number in range(1000)]
            was_read.set()
            await until(lambda: gc.get_freeze_count() >= frozen + len(kept), "a frozen heap")
            group.cancel_scope.cancel()
    finally:
        gc.unfreeze()
