"""The page of a whole koordlet with every gate on, from the first second of its life."""

from __future__ import annotations

import asyncio

from koordlet.agent.feature_gates import DEFAULTS

from tests.koordlet.agent.test_qos_manager import _as_root, running
from tests.support.browser import Dom, needs_chromium, visit
from tests.support.node.workload import everything_on
from tests.support.ports import free_port
from tests.support.waiting import until

__all__ = ["_as_root"]
pytestmark = needs_chromium


async def test_with_every_gate_from_the_first_second() -> None:
    port = free_port()
    more = {"status_address": f"127.0.0.1:{port}"}
    gates = sorted(DEFAULTS.keys() - {"Accelerators"})  # the machine's own, by a driver
    async with running({"spec": everything_on()}, *gates, **more) as node:
        await until(lambda: node.agent._status[0]._listener is not None, "it listens")
        first = Dom(await asyncio.to_thread(visit, f"http://127.0.0.1:{port}/", judged=True))
        await until(lambda: node.deciding.decider.states(), "it decides")
        page = Dom(await asyncio.to_thread(visit, f"http://127.0.0.1:{port}/"))
    for dom in (first, page):
        assert dom.by_id("problem").get("hidden") == ""
    assert len([row for row in page.rows if row and row[0].startswith("▸") and "_" in row[0]]) > 10
