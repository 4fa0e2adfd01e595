"""The double of the API server keeps the rules that clients rely on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from koord_kube.protocol.resources import EVENTS, LEASES, NODE_METRICS, NODES, PODS

from tests.support.kube_api import KubeApi
from tests.support.kube_evictions import PDBS

METRIC = {
    "apiVersion": "slo.koordinator.sh/v1alpha1",
    "kind": "NodeMetric",
    "metadata": {"name": "n1"},
    "spec": {"a": 1},
}
ALL = NODE_METRICS.path()
ONE = NODE_METRICS.path("n1")
STATUS = NODE_METRICS.path("n1", subresource="status")
MERGE = "application/merge-patch+json"


class Asking:
    def __init__(self, api: KubeApi, session: aiohttp.ClientSession) -> None:
        self.api, self.session = api, session

    async def __call__(
        self, method: str, path: str, body: Any = None, kind: str = "", **query: str
    ) -> tuple[int, Any]:
        headers = {"Content-Type": kind or ("application/json" if method != "PATCH" else MERGE)}
        data = None if body is None else json.dumps(body)
        url = self.api.url + path
        async with self.session.request(
            method, url, data=data, params=query, headers=headers
        ) as got:
            text = await got.text()
        return got.status, json.loads(text) if text.startswith("{") else text


@pytest.fixture
async def ask() -> AsyncIterator[Asking]:
    async with KubeApi() as api, aiohttp.ClientSession() as session:
        yield Asking(api, session)


async def test_leases_are_kept_by_namespace(ask: Asking) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
    }  # fmt: skip
    assert (await ask("POST", LEASES.path(namespace="a"), lease))[0] == 201
    assert (await ask("GET", LEASES.path("l", "a")))[0] == 200
    assert (await ask("GET", LEASES.path("l", "b")))[0] == 404


async def watched(ask: Asking, version: str, times: int = 1) -> list[tuple[str, str]]:
    url = ask.api.url + ALL
    query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "60"}
    lines = []
    async with ask.session.get(url, params=query | {"allowWatchBookmarks": "true"}) as got:
        ask.api.bookmark()
        for _ in range(times):
            event = json.loads(await got.content.readline())
            found = event["object"]
            lines.append((event["type"], found.get("reason", "") or found["metadata"].get("name")))
    return lines


async def test_a_watch_from_before_a_compaction_is_gone(ask: Asking) -> None:
    version = ask.api.put(NODE_METRICS, METRIC)["metadata"]["resourceVersion"]
    ask.api.compact()
    assert await watched(ask, version) == [("ERROR", "Expired")]
    ask.api.gone_as_status = True
    assert (await ask("GET", ALL, watch="1", resourceVersion=version))[0] == 410


async def test_tokens(ask: Asking) -> None:
    ask.api.tokens = frozenset({"good"})
    assert (await ask("GET", ALL))[0] == 401
    ask.session.headers["Authorization"] = "Bearer good"
    assert (await ask("GET", ALL))[0] == 200


EVICTION = PODS.path("p", "ns", "eviction")
RUNS = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def eviction(name: str = "p", version: str = "policy/v1", **more: Any) -> Any:
    return {"apiVersion": version, "kind": "Eviction", "metadata": {"name": name}, **more}


def put_pod(ask: Asking, status: Any = None, **spec: Any) -> None:
    given = {"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": spec}
    ask.api.put(PODS, given | {"status": status or RUNS}, "ns")


def put_budget(ask: Asking, name: str, selector: Any, **status: Any) -> None:
    given = {"observedGeneration": 9, "disruptionsAllowed": 0, **status}
    spec = {"selector": selector}
    ask.api.put(PDBS, {"metadata": {"name": name}, "spec": spec, "status": given}, "ns")


async def test_a_pod_without_a_node_or_grace_goes_at_once(ask: Asking) -> None:
    for spec, options in (({}, {}), ({"nodeName": "n1"}, {"gracePeriodSeconds": 0})):
        put_pod(ask, **spec)
        assert (await ask("POST", EVICTION, eviction(deleteOptions=options)))[0] == 201
        assert (await ask("GET", PODS.path("p", "ns")))[0] == 404


async def test_evicting_what_is_not_there_or_cannot_be(ask: Asking) -> None:
    assert (await ask("POST", EVICTION, eviction()))[0] == 404
    assert (await ask("POST", NODES.path("n1", "", "eviction"), eviction()))[0] == 404


@pytest.mark.parametrize(
    ("selector", "status"),
    [({"matchLabels": {"app": "web"}}, 429), ({"matchLabels": {"app": "db"}}, 201), ({}, 429),
     (None, 201)],
)  # fmt: skip
async def test_which_budgets_select_a_pod(ask: Asking, selector: Any, status: int) -> None:
    put_pod(ask)
    put_budget(ask, "b", selector)
    found, said = await ask("POST", EVICTION, eviction())
    assert found == status
    if status == 429:
        assert said["details"]["causes"][0]["reason"] == "DisruptionBudget"


@pytest.mark.parametrize("status", [{"phase": "Failed"}, {"phase": "Pending"}])
async def test_budgets_do_not_hold_pods_that_disrupt_nothing(ask: Asking, status: Any) -> None:
    put_pod(ask, status)
    put_budget(ask, "b", {})
    put_budget(ask, "c", {})
    assert (await ask("POST", EVICTION, eviction()))[1]["status"] == "Success"


async def test_events_are_in_the_namespace_of_what_they_are_about(ask: Asking) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"namespace": "ns"},
    }
    assert (await ask("POST", EVENTS.path("", "other"), event))[0] == 422
    assert (await ask("POST", EVENTS.path("", "ns"), event))[0] == 201
    event["metadata"] = {"name": "e2", "namespace": "other"}
    assert (await ask("POST", EVENTS.path("", "ns"), event))[0] == 400
