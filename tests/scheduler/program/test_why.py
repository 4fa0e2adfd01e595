"""The scheduler's page about a pod over HTTP, and what koordctl prints of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from koord_kube.protocol.resources import LEASES
from koord_scheduler.program.program import SchedulerProgram
from koordctl.main import main

from tests.scheduler.program.test_program import NAMESPACE, SETTINGS, Side
from tests.scheduler.program.test_program import side as side  # a fixture
from tests.support.ports import free_port
from tests.support.waiting import until

Why = Callable[..., Awaitable[str]]
"""``koordctl why`` with arguments: what it prints."""
PORT = free_port()


@pytest.fixture
async def made(side: Side) -> AsyncIterator[SchedulerProgram]:
    settings = replace(SETTINGS, bind_address="127.0.0.1", port=PORT)
    async with side.scheduler(settings) as program:
        await until(lambda: not program._cache.silence(), "the cluster is read")
        yield program


@pytest.fixture
def why(capsys: pytest.CaptureFixture[str]) -> Why:
    async def ask(*arguments: str) -> str:
        await asyncio.to_thread(main, ["why", *arguments, f"--address=127.0.0.1:{PORT}"])
        return capsys.readouterr().out

    return ask


async def document(why: Why, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await why(*arguments, "--json"))
    return found


async def test_a_pod_that_fits_nowhere(side: Side, made: SchedulerProgram, why: Why) -> None:
    side.node("n1", "1500m")
    await side.pod("web", "2")
    await until(lambda: made.status().pending["unschedulable"] == 1, "it is tried")
    found = await document(why, "pending", f"{NAMESPACE}/web")
    assert (found["state"], found["paused"]) == ("unschedulable", "")
    assert found["diagnosis"]["nearest"][0]["lacks"] == {"cpu": "500m"}
    text = await why("pending", f"{NAMESPACE}/web")
    assert "n1 lacks 500m cpu" in text
    assert "  nodes with more room (NodeResourcesFit)" in text
    assert "koordctl why pending" in await why("scheduled", f"{NAMESPACE}/web")


async def test_a_pod_that_has_a_node(side: Side, made: SchedulerProgram, why: Why) -> None:
    for name, cpu in (("n1", "4"), ("n2", "8"), ("n3", "16"), ("n4", "32")):
        side.node(name, cpu)
    await side.pod("web", nodeSelector={"disk": "ssd"}, nodeName="n1")
    await until(lambda: made.status().cached == {"nodes": 4, "pods": 1, "assumed_pods": 0}, "all")
    found = await document(why, "scheduled", f"{NAMESPACE}/web")
    # Its selector counts, as if it had no node yet; the label is not there any more.
    assert (found["state"], found["rejectedBy"]) == ("bound", ["NodeAffinity"])
    await side.pod("plain", nodeName="n1")
    await until(lambda: made.status().cached["pods"] == 2, "it is known")
    text = await why("scheduled", f"{NAMESPACE}/plain")
    [own] = [line for line in text.splitlines() if line.endswith("its node")]
    assert own.split()[:2] == ["4", "n1"]
    assert "koordctl why scheduled" in await why("pending", f"{NAMESPACE}/plain")


async def test_a_pod_that_cannot_be_read_again(
    side: Side, made: SchedulerProgram, why: Why
) -> None:
    await side.pod("web", nodeName="n1")
    await until(lambda: made.status().cached["pods"] == 1, "it is known")
    side.api.fail(verb="get", plural="pods", status=503, message="try later")
    [line] = (await why("scheduled", f"{NAMESPACE}/web")).splitlines()
    assert "try later" in line


@pytest.mark.usefixtures("made")
async def test_pods_that_are_not_there_or_not_ours(side: Side, why: Why) -> None:
    await side.pod("theirs", schedulerName="other")
    with pytest.raises(SystemExit, match="1"):
        await why("pending", f"{NAMESPACE}/nothing")

    async def lines() -> list[str]:
        return (await why("pending", f"{NAMESPACE}/theirs")).splitlines()

    while "other" not in (await lines())[0]:
        await asyncio.sleep(0.01)
    assert len(await lines()) == 1


async def test_one_that_does_not_lead_says_who_does(side: Side, why: Why) -> None:
    spec = {
        "holderIdentity": "another_1",
        "leaseDurationSeconds": 3600,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
    }
    lease = {"metadata": {"name": "kube-scheduler"}, "spec": spec}
    side.api.put(LEASES, lease, "kube-system")
    async with side.scheduler(replace(SETTINGS, bind_address="127.0.0.1", port=PORT)) as made:
        await until(lambda: made._leadership.leader == "another_1", "it sees the leader")
        found = await document(why, "pending", f"{NAMESPACE}/web")
        assert found["state"] == "not leading"
        [line] = (await why("pending", f"{NAMESPACE}/web")).splitlines()
        assert "another_1" in line
