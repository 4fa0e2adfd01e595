"""Koordinator's services and flags over HTTP, and what the flags let the log say."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from koord_kube.protocol.resources import LEASES
from koord_scheduler.config.scheduler_config import SchedulerConfig, read_scheduler_config
from koord_scheduler.plugin import Plugin, Service
from koord_scheduler.program.program import SchedulerProgram
from koord_scheduler.state.cluster_state import ClusterState

from tests.scheduler.program.test_program import NAMESPACE, SETTINGS, Side
from tests.scheduler.program.test_program import side as side  # a fixture
from tests.support.ports import free_port
from tests.support.waiting import until

PORT = free_port()
WITH_PORT = replace(SETTINGS, bind_address="127.0.0.1", port=PORT)


class Shelves(Plugin):
    """A plugin of somebody else, which shows something."""

    name = "Shelves"

    def __init__(self, profile: int) -> None:
        self.profile = profile

    def services(self, nodes: ClusterState) -> Mapping[str, Service]:
        def shelf(given: Mapping[str, str]) -> Any:
            row = nodes.row(given["node"])
            if row is None:
                raise LookupError(f"no shelf on {given['node']}")
            return {"row": row, "asked": given.get("with", ""), "profile": self.profile}

        return {"/shelves/:node": shelf}


def config(enable_profiling: bool = True, plugin: Plugin | None = None) -> SchedulerConfig:
    shelves = {"filter": {"enabled": [{"name": "Shelves"}]}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "enableProfiling": enable_profiling,
        "profiles": [
            {"schedulerName": name, "plugins": shelves} for name in ("default-scheduler", "other")
        ],
    }
    profiles = itertools.count(1)
    added = {"Shelves": lambda _: plugin or Shelves(next(profiles))}
    return read_scheduler_config(json.dumps(document), added)


async def ask(path: str, method: str = "GET", body: str | None = None) -> tuple[int, str]:
    def exchange() -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    return await asyncio.to_thread(exchange)


async def ask_json(path: str) -> tuple[int, Any]:
    status, text = await ask(path)
    return status, json.loads(text)


@pytest.fixture
async def made(side: Side) -> AsyncIterator[SchedulerProgram]:
    async with side.scheduler(WITH_PORT, config()) as program:
        await until(lambda: program._leadership.leads, "it leads")
        yield program


async def test_a_node_as_koordinator_shows_it(side: Side, made: SchedulerProgram) -> None:
    side.node("n1")
    port = {"containerPort": 80, "hostPort": 8080}
    resources = {"requests": {"cpu": "1500m", "memory": "1Gi", "example.com/card": "2"}}
    container = {"name": "c", "image": "i", "ports": [port], "resources": resources}
    await side.pod("web", nodeName="n1", containers=[container, {"name": "d", "image": "i"}])
    await until(lambda: made.status().cached == {"nodes": 1, "pods": 1, "assumed_pods": 0}, "all")
    status, found = await ask_json("/apis/v1/nodes/n1")
    assert status == 200
    assert set(found["node"]) == {"metadata", "status"}, "its spec is empty"
    assert found["node"]["metadata"]["name"] == "n1"
    assert found["node"]["status"]["allocatable"]["cpu"] == "4"
    [pod] = [one["Pod"] for one in found["pods"]]
    assert pod["metadata"]["name"] == "web"
    assert pod["metadata"]["namespace"] == NAMESPACE
    assert found["usedPorts"] == {"0.0.0.0": [{"Protocol": "TCP", "Port": 8080}]}
    gib = 1 << 30
    none = {"EphemeralStorage": 0, "AllowedPodNumber": 0, "ScalarResources": None}
    cards = {"example.com/card": 2}
    assert found["requested"] == {
        "MilliCPU": 1500,
        "Memory": gib,
        **none,
        "ScalarResources": cards,
    }
    assert found["nonZeroRequested"] == {"MilliCPU": 1600, "Memory": gib + 200 * (1 << 20), **none}
    assert found["allocatable"] == {
        "MilliCPU": 4000,
        "Memory": 16 * gib,
        **none,
        "AllowedPodNumber": 110,
    }
    assert found["remaining"] == {
        "MilliCPU": 2500,
        "Memory": 15 * gib,
        "EphemeralStorage": 0,
        "AllowedPodNumber": 110,
        "ScalarResources": {"example.com/card": -2},
    }
    assert await ask_json("/apis/v1/nodes/n2") == (404, {"message": "cannot find node n2"})


async def test_plugins_show_what_they_know(side: Side, made: SchedulerProgram) -> None:
    side.node("n1")
    await until(lambda: made.status().cached["nodes"] == 1, "it is known")
    assert await ask_json("/apis/v1/__services__") == (
        200,
        {
            "GET": [
                "/apis/v1/__services__",
                "/apis/v1/nodes/:nodeName",
                "/apis/v1/plugins/Shelves/shelves/:node",
            ]
        },
    )
    row = made._scheduler.nodes.row("n1")
    shelves = "/apis/v1/plugins/Shelves/shelves"
    # Of the two profiles that have the plugin, the first one shows it.
    found = {"row": row, "asked": "books", "profile": 1}
    assert await ask_json(f"{shelves}/n1?with=books") == (200, found)
    assert await ask_json(f"{shelves}/n2") == (404, {"message": "no shelf on n2"})


async def test_only_the_leader_has_services(side: Side) -> None:
    spec = {
        "holderIdentity": "another_1",
        "leaseDurationSeconds": 3600,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
    }
    side.api.put(LEASES, {"metadata": {"name": "kube-scheduler"}, "spec": spec}, "kube-system")
    async with side.scheduler(WITH_PORT) as made:
        await until(lambda: made._leadership.leader == "another_1", "it sees the leader")
        found = await ask_json("/apis/v1/__services__")
    assert found == (503, {"message": "the instance is not leader"})


def lines(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    return [one.fields for one in caplog.records if one.getMessage() == message]


async def test_flags_are_set_while_it_runs(
    side: Side, made: SchedulerProgram, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pykoord")
    for name, cpu in (("n1", "8"), ("n2", "4"), ("n3", "1")):
        side.node(name, cpu)
    await until(lambda: made.status().cached["nodes"] == 3, "all")
    await side.pod("quiet", "100m")
    await side.bound("quiet")
    assert not lines(caplog, "score")
    done = await ask("/debug/flags/s", "PUT", "2")
    assert done == (200, "successfully set debugTopNScores to 2\n")
    done = await ask("/debug/flags/f", "PUT", "True")
    assert done == (200, "successfully set debugFilterFailure to True\n")
    await side.pod("web", "2")
    await side.bound("web")
    first, second = lines(caplog, "score")
    assert (first["pod"], first["rank"], first["node"]) == (f"{NAMESPACE}/web", 1, "n1")
    assert second["node"] == "n2"
    assert first["score"] > second["score"]
    scores = [one.split(":") for one in first["plugins"].split(",")]
    assert sum(int(score) for _, score in scores) == first["score"]
    [rejected] = lines(caplog, "nodes rejected")
    assert rejected == {
        "pod": f"{NAMESPACE}/web",
        "plugin": "NodeResourcesFit",
        "reason": "Insufficient cpu",
        "nodes": 1,
        "names": "n3",
    }
    await ask("/debug/flags/s", "PUT", "0")
    await ask("/debug/flags/f", "PUT", "false")
    assert made._scheduler.on_filtered is None, "it costs nothing any more"


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("flag", "body"), [("s", "many"), ("s", ""), ("s", "1_0"), ("f", "yes"), ("f", "")]
)
async def test_values_that_flags_cannot_have(flag: str, body: str) -> None:
    status, text = await ask(f"/debug/flags/{flag}", "PUT", body)
    assert status == 400
    assert f'"{body}"' in text


async def test_without_profiling_no_flag_can_be_set(side: Side) -> None:
    async with side.scheduler(WITH_PORT, config(enable_profiling=False)) as made:
        await until(lambda: made._leadership.leads, "it leads")
        assert (await ask("/debug/flags/s", "PUT", "2"))[0] == 501


async def test_flags_that_are_given_at_the_start(
    side: Side, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pykoord")
    for number in range(12):
        side.node(f"n{number}", "1")
    settings = replace(SETTINGS, debug_scores=1, debug_filters=True)
    async with side.scheduler(settings):
        await side.pod("small")
        await side.bound("small")
        await side.pod("large", "4")
        await until(lambda: lines(caplog, "nodes rejected"), "it is tried")
    assert [one["pod"] for one in lines(caplog, "score")] == [f"{NAMESPACE}/small"]
    rejected, *_ = lines(caplog, "nodes rejected")
    assert rejected["nodes"] == 12
    *names, more = rejected["names"].split(",")
    assert (len(set(names)), more) == (10, "…")


class Speechless(Plugin):
    """Rejects all nodes but one, and cannot say why."""

    name = "Shelves"

    def filter(self, pod: Any, nodes: ClusterState) -> Any:
        return lambda rows: rows == nodes.row("n2")

    def reasons(self, pod: Any, nodes: ClusterState, rows: Any) -> Any:
        raise RuntimeError("no reason")


async def test_a_plugin_that_cannot_say_why_keeps_no_pod_from_its_node(
    side: Side, caplog: pytest.LogCaptureFixture
) -> None:
    side.node("n1")
    side.node("n2")
    settings = replace(SETTINGS, debug_filters=True)
    async with side.scheduler(settings, config(plugin=Speechless())):
        await side.pod("web")
        await side.bound("web")
    [line] = lines(caplog, "cannot explain nodes")
    assert line["pod"] == f"{NAMESPACE}/web"
