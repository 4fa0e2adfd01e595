"""One manager in the test's own event loop: how its life ends, and what it says of itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import grpc
import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.resources import CONFIG_MAPS, LEASES
from koord_manager.node_metric.receiver import SERVICE
from koord_manager.node_metric.report_authorizer import REVIEWS
from koord_manager.program import webhook_server
from koord_manager.program.config import Settings
from koord_manager.program.leading import LeaderControllers
from koord_manager.program.manager import Manager
from koord_manager.program.node_metric_server import CA_CONFIG_MAP
from koord_manager.program.pages import pages
from koord_proto.node_metric_pb2 import ReportRequest
from koord_service.logs import EventLog
from koord_service.status import Query, QueryError
from prometheus_client import CollectorRegistry

from tests.support.kube_api import KubeApi, koordlet_account
from tests.support.ports import free_port
from tests.support.processes import PATIENCE
from tests.support.relay import relaying
from tests.support.service_account_tokens import unsigned_token

NAMESPACE, NAME = "koordinator-system", "koordinator-manager"
LEASE, LEADER_NAME = "leases", f"koordinator-manager-leader.{NAMESPACE}.svc"
ADDRESSES = 17
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

    def manager(self, settings: Settings = SETTINGS) -> Manager:
        return Manager(settings, self.client, "m1_0")

    @property
    def holder(self) -> str:
        try:
            return str(self.api.get(LEASES, NAME, NAMESPACE)["spec"]["holderIdentity"])
        except KeyError:
            return ""

    @property
    def authority(self) -> str:
        """Whom koordlets are to trust, "" before it is said."""
        try:
            return str(self.api.get(CONFIG_MAPS, CA_CONFIG_MAP, NAMESPACE)["data"]["ca.crt"])
        except KeyError:
            return ""

    async def until(self, true: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not true():
                await asyncio.sleep(0.01)


@pytest.fixture
async def side() -> AsyncIterator[Side]:
    limits = Limits(qps=0, answer=PATIENCE)
    async with KubeApi() as api, Client(Cluster(api.url), limits) as client:
        yield Side(api, client)


@pytest.fixture(autouse=True)
def nobody_is_to_find_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_server, "_DRAIN_SECONDS", 0.0)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, object]]]:
    found: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(
        EventLog, "warning", lambda _, message, **more: found.append((message, more))
    )
    return found


class TestEnding:
    async def test_it_ends_when_it_is_asked_to(self, side: Side) -> None:
        serving = asyncio.gather(side.manager().serve())
        await side.until(lambda: side.holder)
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
        assert side.holder == ""

    async def test_a_defect_of_a_controller_ends_it_and_gives_the_lease_back(
        self, side: Side, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held: list[str] = []

        async def fail(_: LeaderControllers) -> None:
            held.append(side.holder)
            raise ZeroDivisionError("nobody\nexpected this")

        monkeypatch.setattr(LeaderControllers, "run", fail)
        with pytest.raises(ExceptionGroup):
            await side.manager().serve()
        assert held == ["m1_0"]
        assert side.holder == ""


async def test_what_the_api_server_says_is_not_for_unknown_callers(
    side: Side, lines: list[tuple[str, dict[str, object]]]
) -> None:
    made = side.manager()
    secret = 'User "system:serviceaccount:koordinator-system:koord-manager" cannot'
    fault = side.api.fail(status=403, plural="leases", times=1 << 30, message=secret)
    serving = asyncio.gather(made.serve())
    await side.until(lambda: any("leases" in one for one in made._problems()))
    known = made._page_sources()
    page = await asyncio.to_thread(pages(known, made.registry)["/v1/status"], Query({}))
    problems = json.loads(page.body)["problems"]
    assert any(one.startswith(f"leases {NAMESPACE}/{NAME}: ") for one in problems)
    assert "serviceaccount" not in page.body.decode()
    assert any(secret in str(more.get("what")) for _, more in lines), "it is in the log"
    fault.times = 0
    os.kill(os.getpid(), signal.SIGTERM)
    await serving


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
        shown = pages(made._page_sources(), CollectorRegistry())
        page = await asyncio.to_thread(shown["/v1/why"], Query({"node": "n1"}))
        assert json.loads(page.body) == {"node": "n1"}
        assert threads == {threading.current_thread()}
        page = await asyncio.to_thread(shown["/v1/why"], Query({"service": "shop/web"}))
        assert "--feature-gates=ServiceProfiles=true" in json.loads(page.body)["reason"]
        for wrong in ({}, {"node": "n1", "service": "shop/web"}):
            with pytest.raises(QueryError, match='"node" or "service"'):
                shown["/v1/why"](Query(wrong))
        os.kill(os.getpid(), signal.SIGTERM)
        await serving


class TestUnknownCallers:
    """Anybody may call where nodes report, with as many tokens as they like."""

    async def test_they_neither_depose_the_leader_nor_keep_nodes_out(self, side: Side) -> None:
        """From many addresses, while the API server answers no review any more."""
        port = free_port()
        serving = asyncio.gather(
            side.manager(
                replace(
                    SETTINGS,
                    enable_node_metric_api=True,
                    pod_ip="127.0.0.1",
                    node_metric_api_address="127.0.0.1:0",
                    node_metric_report_address=f"127.0.0.1:{port}",
                )
            ).serve()
        )
        await side.until(lambda: side.authority)
        known = Caller(side.authority, port, unsigned_token("n1"))
        side.api.access.identities[known.token] = koordlet_account("n1")
        await known.accepted()
        reviews, leases = side.api.count("create", "tokenreviews"), side.api.count("update", LEASE)
        side.api.fail(times=1_000_000, hang=True, plural="tokenreviews")
        async with AsyncExitStack() as at_exit:
            callers = []
            for address in range(2, 2 + ADDRESSES):
                relay = relaying(lambda: ("127.0.0.1", port), source=f"127.0.0.{address}")
                at = await at_exit.enter_async_context(relay)
                tokens = (unsigned_token(f"{address}-{one}") for one in range(8))
                callers += [Caller(side.authority, at, one) for one in tokens]
            for one in (known, *callers):
                at_exit.push_async_callback(one.channel.close)
            loop = asyncio.get_running_loop()
            calling = [loop.create_task(one.call()) for one in callers]
            most = reviews + REVIEWS.unknown
            await side.until(lambda: side.api.count("create", "tokenreviews") >= most)
            await side.api.wait_for("update", leases + 3, LEASE)
            await known.accepted()
            # Those without a place are refused at once.
            more = len(calling) - REVIEWS.unknown
            await side.until(lambda: sum(one.done() for one in calling) == more)
            refused = {one.result() for one in calling if one.done()}
            assert refused == {grpc.StatusCode.UNAVAILABLE}
            assert side.api.count("create", "tokenreviews") == most
            assert side.holder == "m1_0"
            for one in calling:
                one.cancel()
            await asyncio.gather(*calling, return_exceptions=True)
        os.kill(os.getpid(), signal.SIGTERM)
        await serving


class Caller:
    """Reports of n1, by a connection of its own."""

    def __init__(self, authority: str, port: int, token: str) -> None:
        self.token = token
        self.channel = grpc.aio.secure_channel(
            f"127.0.0.1:{port}",
            grpc.ssl_channel_credentials(authority.encode()),
            (("grpc.ssl_target_name_override", LEADER_NAME),),
        )

    async def call(self) -> grpc.StatusCode | None:
        report = self.channel.unary_unary(f"/{SERVICE}/Report")
        request = ReportRequest(node="n1", session="s", sequence=1, status=b"{}")
        try:
            await report(
                request.SerializeToString(),
                metadata=(("authorization", f"Bearer {self.token}"),),
                wait_for_ready=True,
            )
        except grpc.aio.AioRpcError as error:
            return error.code()
        return None

    async def accepted(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self.call() is not None:
                await asyncio.sleep(0.05)
