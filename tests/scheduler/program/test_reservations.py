"""Reservations from the API and back."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from koord_kube.protocol.resources import PODS, RESERVATIONS
from koord_scheduler.config.scheduler_config import SchedulerConfig, scheduler_config
from koordctl.main import main

from tests.scheduler.program.test_program import NAMESPACE, SETTINGS, Side
from tests.scheduler.program.test_program import side as side  # a fixture
from tests.support.ports import free_port
from tests.support.reservations import OF_WEB, reservation
from tests.support.waiting import until


def config(**args: Any) -> SchedulerConfig:
    enabled = {"multiPoint": {"enabled": [{"name": "Reservation", "weight": 5000}]}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    given = {"plugins": enabled, "pluginConfig": [{"name": "Reservation", "args": args}]}
    return scheduler_config({**kind, "profiles": [given]})


def status(side: Side, name: str) -> dict[str, Any]:
    found: dict[str, Any] = side.api.get(RESERVATIONS, name)["status"]
    return found


async def test_koordctl_says_why_a_reservation_waits(
    side: Side, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    settings = replace(SETTINGS, bind_address="127.0.0.1", port=port)
    side.node("n1", "4")
    side.api.put(RESERVATIONS, reservation("waits", "4500m", owners=[OF_WEB]))
    async with side.scheduler(settings, config()) as program:
        await until(lambda: "conditions" in status(side, "waits"), "a condition")
        await until(lambda: program.status().pending["unschedulable"] == 1, "it waits")
        address = f"--address=127.0.0.1:{port}"
        await asyncio.to_thread(main, ["why", "pending", "Reservation/waits", "--json", address])
    found = json.loads(capsys.readouterr().out)
    assert (found["pod"], found["state"]) == ("Reservation/waits", "unschedulable")
    assert found["diagnosis"]["nearest"][0]["lacks"] == {"cpu": "500m"}
    assert side.events("waits") == {"FailedScheduling"}


async def test_a_reservation_takes_the_place_of_pods(side: Side) -> None:
    side.node("n1", "4")
    async with side.scheduler(config=config(enablePreemption=True)):
        await side.pod("low", "3", priorityClassName="low")
        await until(lambda: side.node_of("low") == "n1", "it is placed")
        side.api.put(RESERVATIONS, reservation("r", "4", owners=[OF_WEB]))
        await until(lambda: "Preempted" in side.events("low"), "its owner is reported")
        side.api.delete(PODS, "low", NAMESPACE)  # as the kubelet does at last
        await until(lambda: status(side, "r").get("phase") == "Available", "its room is free")
        assert status(side, "r")["nodeName"] == "n1"


async def test_where_the_kind_is_unknown_the_plugin_does_nothing(side: Side) -> None:
    side.api.installed.discard(RESERVATIONS)
    side.node("n1", "4")
    async with side.scheduler(config=config()):
        await side.pod("a", "1")
        await until(lambda: side.node_of("a") == "n1", "it is placed")


async def test_a_reservation_takes_over_a_pod_that_runs(
    side: Side,
) -> None:
    more = {"preAllocation": True, "allocatePolicy": "Restricted", "allocateOnce": False}
    side.node("n1", "4")
    async with side.scheduler(config=config()):
        await side.pod("a", "3")
        await side.bound("a")
        side.api.put(RESERVATIONS, reservation("r", "4", owners=[OF_WEB], **more))
        await until(lambda: status(side, "r").get("phase") == "Available", "it has a node")
        annotations = side.api.get(PODS, "a", NAMESPACE)["metadata"]["annotations"]
        written = json.loads(annotations["scheduling.koordinator.sh/reservation-allocated"])
        assert written == {"name": "r", "uid": "u-r"}
        await until(lambda: "currentOwners" in status(side, "r"), "the controller looks")
    assert [one["name"] for one in status(side, "r")["currentOwners"]] == ["a"]
    assert status(side, "r")["allocated"] == {"cpu": "3"}
