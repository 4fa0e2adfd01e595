"""Both servers together: nodes that report, and what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from koord_kube.protocol.resources import CONFIG_MAPS
from koord_manager.node_metric import service
from koord_manager.node_metric.core.store import NodeIdentity
from koord_manager.node_metric.receiver import HANDSHAKE_TIMEOUT, SERVER_OPTIONS
from koord_manager.node_metric.service import written
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koordlet.metrics_reporter.direct_link import LinkError

from tests.support.certificates import HAVE_OPENSSL
from tests.support.metrics_service import STATUS, Manager, make_manager
from tests.support.processes import PATIENCE

pytestmark = pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates")


class Reported:
    """Stands in for the recorder of Events, and remembers them."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def record(self, regarding: Any, reason: str, _message: str, warning: bool = False) -> None:
        assert (regarding["kind"], warning) == ("Node", True)
        self.events.append((regarding["metadata"]["name"], reason))


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[Manager]:
    made = make_manager(tmp_path, recorder=Reported())
    await made.start()
    made.lead(7)
    yield made
    await made.service.stop()


async def send(
    manager: Manager, node: str, token: str, status: bytes = STATUS, **more: Any
) -> None:
    link = manager.link(node, token, **more)
    try:
        await link.send(status, 1.0, PATIENCE)
    finally:
        await link.close()


def metric(manager: Manager, name: str, **labels: str) -> float | None:
    return manager.registry.get_sample_value(f"koord_manager_node_metric_{name}", labels)


async def test_a_node_reports_over_tls(manager: Manager) -> None:
    await send(manager, "n1", manager.koordlet_of("n1"))
    kept = manager.service.store.get("n1")
    assert kept is not None
    assert kept.status == STATUS
    assert manager.heard == [("n1", STATUS, manager.now)]
    await manager.service.age()
    assert (metric(manager, "nodes"), metric(manager, "bytes")) == (1, len(STATUS))
    assert metric(manager, "reports_total", code="OK") == 1


async def test_who_only_connects_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sooner = {HANDSHAKE_TIMEOUT: 100}
    options = tuple((name, sooner.get(name, value)) for name, value in SERVER_OPTIONS)
    monkeypatch.setattr(service, "SERVER_OPTIONS", options)
    made = make_manager(tmp_path)
    await made.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", made.service.report_port)
    # gRPC's own time is 120 seconds.
    assert await asyncio.wait_for(reader.read(), PATIENCE / 2) == b""
    writer.close()
    await made.service.stop()


async def test_silent_nodes_are_reported_and_forgotten(manager: Manager) -> None:
    for node in ("n1", "n2"):
        await send(manager, node, manager.koordlet_of(node))
    manager.now += 170
    await send(manager, "n2", manager.koordlet_of("n2"))
    manager.now += 11
    await manager.service.age()
    assert manager.recorder.events == [("n1", "NodeMetricStale")]
    assert metric(manager, "stale_nodes") == 1
    manager.now += 800
    await manager.service.age()
    assert manager.service.store.get("n1") is None
    assert (metric(manager, "nodes"), metric(manager, "bytes")) == (1, len(STATUS))


async def test_who_does_not_lead_keeps_nothing(manager: Manager) -> None:
    token = manager.koordlet_of("n1")
    await send(manager, "n1", token)
    manager.resign()
    assert (len(manager.service.store), manager.service.receiver.bytes) == (0, 0)
    with pytest.raises(LinkError, match="does not lead"):
        await send(manager, "n1", token)
    # The Lease is held already, and the term not begun.
    manager.leads = True
    await send(manager, "n1", token)
    assert len(manager.service.store) == 0


def test_a_new_leader_waits_for_all_nodes_but_not_for_ever(tmp_path: Path) -> None:
    manager = make_manager(tmp_path)
    assert not manager.service.complete()
    manager.lead(7, settled=False)
    assert not manager.service.complete()
    manager.nodes |= {"n1": NodeIdentity("u", ""), "n2": NodeIdentity("v", "")}
    manager.put("n1")
    assert not manager.service.complete()
    manager.put("n2")
    assert manager.service.complete()
    manager.nodes["n3"] = NodeIdentity("w", "")
    assert manager.service.complete()
    manager.lead(8, settled=False)
    assert not manager.service.complete()
    manager.now += 75
    assert manager.service.complete()


def test_a_node_that_reports_seldom_is_waited_for_as_long(tmp_path: Path) -> None:
    manager = make_manager(tmp_path)
    manager.nodes |= {"n1": NodeIdentity("u", ""), "n2": NodeIdentity("v", "")}
    manager.strategies["n2"] = ColocationStrategy(metric_report_seconds=300)
    manager.lead(7)
    assert not manager.service.complete()
    manager.now += 240
    assert manager.service.complete()


def test_a_part_of_the_nodes_is_not_taken_for_all(tmp_path: Path) -> None:
    manager = make_manager(tmp_path, all_known=False)
    manager.lead(7)
    manager.nodes["n1"] = NodeIdentity("u", "")
    manager.put("n1")
    assert not manager.service.complete()
    manager.nodes["n2"] = NodeIdentity("v", "")
    manager.all_known = True
    manager.put("n2")
    assert manager.service.complete()


async def test_the_front_proxy_is_looked_for_until_it_is_found(manager: Manager) -> None:
    known = dict(manager.reviews.objects)
    manager.reviews.objects.clear()
    assert "404" in await manager.service._read_front_proxy()
    manager.reviews.put(
        CONFIG_MAPS, {"metadata": {"name": "extension-apiserver-authentication"}}, "kube-system"
    )
    assert "kube-system/extension" in await manager.service._read_front_proxy()
    manager.reviews.objects.update(known)
    assert await manager.service._read_front_proxy() == ""
    manager.reviews.away = True
    assert await manager.service._read_front_proxy() == "nobody answers"
    assert manager.service._front_proxy is not None


async def test_it_runs_until_it_is_cancelled(manager: Manager) -> None:
    running = asyncio.get_running_loop().create_task(manager.service.run())
    async with asyncio.timeout(PATIENCE):
        while manager.service._front_proxy is None:
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_port_that_is_taken(manager: Manager) -> None:
    place = ("127.0.0.1", manager.service.report_port)
    other = make_manager(manager.folder / "other")
    with pytest.raises(OSError, match="reports cannot be taken there"):
        await other.service.start(("127.0.0.1", 0), place)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("", "[::]:9444"), ("::1", "[::1]:9444"), ("127.0.0.1", "127.0.0.1:9444")],
)
def test_addresses_as_grpc_takes_them(host: str, expected: str) -> None:
    assert written(host, 9444) == expected
