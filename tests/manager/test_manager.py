"""One manager in the test's own event loop: how its life ends, and what it says of itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.resources import LEASES
from koord_manager import manager as module
from koord_manager import webhook_side
from koord_manager.config import Settings
from koord_manager.leading import Term
from koord_manager.main import ending
from koord_manager.manager import Manager
from koord_manager.pages import Known, pages
from koord_service.status import Query
from prometheus_client import CollectorRegistry

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE

NAMESPACE, NAME = "koordinator-system", "koordinator-manager"
SETTINGS = Settings(
    metrics_addr="127.0.0.1:0",
    health_probe_addr="",
    webhook_address="127.0.0.1:0",
    retry_period=0.5,
    renew_deadline=60,
    lease_duration=120,
)


class Side:
    def __init__(self, api: KubeApi, client: Client) -> None:
        self.api = api
        self.client = client

    def manager(self) -> Manager:
        return Manager(SETTINGS, self.client, "m1_0")

    @property
    def holder(self) -> str:
        try:
            return str(self.api.get(LEASES, NAME, NAMESPACE)["spec"]["holderIdentity"])
        except KeyError:
            return ""

    async def until(self, true: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not true():
                await asyncio.sleep(0.01)


@pytest.fixture
async def side() -> AsyncIterator[Side]:
    async with KubeApi() as api, Client(Cluster(api.url), Limits(qps=0)) as client:
        yield Side(api, client)


@pytest.fixture(autouse=True)
def nobody_is_to_find_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_side, "_DRAIN_SECONDS", 0.0)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, object]]]:
    found: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(
        type(module.log), "warning", lambda _, message, **more: found.append((message, more))
    )
    return found


class TestEnding:
    async def test_it_ends_when_it_is_told_to(self, side: Side) -> None:
        serving = asyncio.gather(side.manager().serve())
        await side.until(lambda: side.holder)
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
        assert side.holder == ""

    async def test_a_defect_of_a_controller_ends_it_and_gives_the_lease_back(
        self, side: Side, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held: list[str] = []

        async def fail(_: Term) -> None:
            held.append(side.holder)
            raise ZeroDivisionError("nobody\nexpected this")

        monkeypatch.setattr(Term, "run", fail)
        with pytest.raises(ExceptionGroup) as raised:
            await side.manager().serve()
        assert held == ["m1_0"]
        assert side.holder == ""
        said = ending(raised.value)
        assert said.startswith("defect: ZeroDivisionError: nobody\nexpected this (test_manager.py")

    async def test_an_address_that_is_taken_is_no_defect(self, side: Side) -> None:
        error = ExceptionGroup("", [ExceptionGroup("", [OSError(98, "address already in use")])])
        assert ending(error) == "[Errno 98] address already in use"


class TestTroubleIsTold:
    async def test_the_same_of_many_objects_is_one_line(
        self, side: Side, lines: list[tuple[str, dict[str, object]]]
    ) -> None:
        made = side.manager()
        for number in range(1000):
            made._tell(f"node-{number}: annotation is no JSON")
        made._tell("node-1: something else")
        assert [more["what"] for _, more in lines] == [
            "node-0: annotation is no JSON",
            "node-1: something else",
        ]

    async def test_it_is_said_again_with_how_often_that_was(
        self,
        side: Side,
        lines: list[tuple[str, dict[str, object]]],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        made, now = side.manager(), 1000.0
        monkeypatch.setattr(module.time, "monotonic", lambda: now)
        for _ in range(3):
            made._tell("nodes: 500 no")
        now += 301.0
        made._tell("pods: 500 no")
        assert [more for _, more in lines] == [
            {"what": "nodes: 500 no", "times": None},
            {"what": "pods: 500 no", "times": 3},
        ]


class TestPages:
    async def test_what_moves_is_looked_up_in_the_event_loop(
        self, side: Side, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads: set[threading.Thread] = set()
        made = side.manager()

        def why(_: str) -> dict[str, str]:
            threads.add(threading.current_thread())
            return {"node": "n1"}

        monkeypatch.setattr(made, "_why", why)
        serving = asyncio.gather(made.serve())
        await side.until(lambda: side.holder)
        shown = pages(made._known(), CollectorRegistry())
        page = await asyncio.to_thread(shown["/v1/why"], Query({"node": "n1"}))
        assert json.loads(page.body) == {"node": "n1"}
        assert threads == {threading.current_thread()}
        os.kill(os.getpid(), signal.SIGTERM)
        await serving

    def test_an_event_loop_without_a_turn_is_not_alive(self) -> None:
        known = Known("m1", lambda: -1e9, bool, str, str, tuple, lambda _: None)
        shown = pages(known, CollectorRegistry())
        assert shown["/healthz"](Query()).status == 503
        assert shown["/readyz"](Query()).status == 200
