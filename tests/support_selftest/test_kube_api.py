"""The double of the API server keeps the rules that clients rely on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from koord_kube.resources import EVENTS, LEASES, NODE_METRICS, NODES, PODS, Resource

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


async def test_creating_what_is_there_is_a_conflict(ask: Asking) -> None:
    status, made = await ask("POST", ALL, METRIC)
    assert (status, made["metadata"]["generation"]) == (201, 1)
    status, refused = await ask("POST", ALL, METRIC)
    assert (status, refused["reason"]) == (409, "AlreadyExists")


async def test_creating_makes_no_status(ask: Asking) -> None:
    await ask("POST", ALL, METRIC | {"status": {"b": 2}})
    assert "status" not in ask.api.get(NODE_METRICS, "n1")


@pytest.mark.parametrize("path", [ONE, STATUS])
async def test_replacing_what_has_changed_since_is_a_conflict(ask: Asking, path: str) -> None:
    _, made = await ask("POST", ALL, METRIC)
    assert (await ask("PUT", path, made | {"spec": {"a": 2}, "status": {"b": 1}}))[0] == 200
    assert (await ask("PUT", path, made | {"spec": {"a": 3}, "status": {"b": 2}}))[0] == 409


async def test_replacing_a_custom_object_needs_its_version(ask: Asking) -> None:
    await ask("POST", ALL, METRIC)
    assert (await ask("PUT", ONE, METRIC))[0] == 422


@pytest.mark.parametrize(
    ("path", "spec", "status"),
    [(ONE, {"a": 5}, {"b": 1}), (STATUS, {"a": 1}, {"b": 6})],
)
async def test_the_status_is_a_thing_of_its_own(
    ask: Asking, path: str, spec: Any, status: Any
) -> None:
    ask.api.put(NODE_METRICS, METRIC | {"status": {"b": 1}})
    code, _ = await ask("PATCH", path, {"spec": {"a": 5}, "status": {"b": 6}})
    kept = ask.api.get(NODE_METRICS, "n1")
    assert (code, kept["spec"], kept["status"]) == (200, spec, status)


async def test_null_in_a_patch_removes(ask: Asking) -> None:
    ask.api.put(NODE_METRICS, METRIC | {"status": {"b": 1, "c": {"d": 1, "e": 2}}})
    await ask("PATCH", STATUS, {"status": {"b": None, "c": {"d": None}}})
    assert ask.api.get(NODE_METRICS, "n1")["status"] == {"c": {"e": 2}}


async def test_a_patch_that_changes_nothing_is_no_change(ask: Asking) -> None:
    before = ask.api.put(NODE_METRICS, METRIC)
    assert (await ask("PATCH", ONE, {"spec": {"a": 1}}))[1] == before


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "status"),
    [
        ("GET", ONE, None, "", 404),
        ("PATCH", ONE, {}, "", 404),
        ("PATCH", ONE, {}, "application/strategic-merge-patch+json", 415),
        ("POST", ALL, METRIC | {"kind": "Other"}, "", 400),
        ("POST", ALL, METRIC | {"metadata": {}}, "", 422),
        ("GET", LEASES.path("n1", "there", "status"), None, "", 404),
        ("GET", Resource("slo.koordinator.sh", "v1", "others", "Other").path(), None, "", 404),
    ],
)
async def test_refusals(
    ask: Asking, method: str, path: str, body: Any, kind: str, status: int
) -> None:
    assert (await ask(method, path, body, kind))[0] == status


async def test_a_list_of_one(ask: Asking) -> None:
    for name in ("n1", "n2"):
        ask.api.put(NODES, {"metadata": {"name": name}})
    _, found = await ask("GET", NODES.path(), fieldSelector="metadata.name=n2")
    assert [one["metadata"]["name"] for one in found["items"]] == ["n2"]
    assert "kind" not in found["items"][0]
    assert (await ask("GET", NODES.path(), fieldSelector="spec.x=1"))[0] == 400


async def test_leases_are_kept_by_namespace(ask: Asking) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
    }  # fmt: skip
    assert (await ask("POST", LEASES.path(namespace="a"), lease))[0] == 201
    assert (await ask("GET", LEASES.path("l", "a")))[0] == 200
    assert (await ask("GET", LEASES.path("l", "b")))[0] == 404


async def watched(ask: Asking, version: str, times: int = 1) -> list[tuple[str, str]]:
    url = ask.api.url + ALL
    query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "5"}
    lines = []
    async with ask.session.get(url, params=query | {"allowWatchBookmarks": "true"}) as got:
        ask.api.bookmark()
        for _ in range(times):
            event = json.loads(await got.content.readline())
            found = event["object"]
            lines.append((event["type"], found.get("reason", "") or found["metadata"].get("name")))
    return lines


async def test_a_watch_tells_what_was_since(ask: Asking) -> None:
    version = ask.api.put(NODE_METRICS, METRIC)["metadata"]["resourceVersion"]
    ask.api.put(NODE_METRICS, METRIC | {"spec": {"a": 2}})
    ask.api.delete(NODE_METRICS, "n1")
    assert await watched(ask, version, 3) == [
        ("MODIFIED", "n1"), ("DELETED", "n1"), ("BOOKMARK", None),
    ]  # fmt: skip


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


async def test_an_evicted_pod_stays_until_its_kubelet_has_ended_it(ask: Asking) -> None:
    put_pod(ask, nodeName="n1")
    for version in ("policy/v1", "policy/v1beta1"):
        status, done = await ask("POST", EVICTION, eviction(version=version))
        assert (status, done["status"]) == (201, "Success")
        assert "deletionTimestamp" in ask.api.get(PODS, "p", "ns")["metadata"]


async def test_a_pod_without_a_node_or_grace_goes_at_once(ask: Asking) -> None:
    for spec, options in (({}, {}), ({"nodeName": "n1"}, {"gracePeriodSeconds": 0})):
        put_pod(ask, **spec)
        assert (await ask("POST", EVICTION, eviction(deleteOptions=options)))[0] == 201
        assert (await ask("GET", PODS.path("p", "ns")))[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        eviction("q"),
        eviction(version="v1"),
        eviction() | {"kind": "Pod"},
        eviction() | {"metadata": {"name": "p", "namespace": "other"}},
    ],
)
async def test_requests_that_are_wrong(ask: Asking, body: Any) -> None:
    put_pod(ask)
    assert (await ask("POST", EVICTION, body))[0] == 400


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


async def test_two_budgets_are_a_failure_with_a_good_status(ask: Asking) -> None:
    put_pod(ask)
    put_budget(ask, "b", {})
    put_budget(ask, "c", {})
    status, said = await ask("POST", EVICTION, eviction())
    assert (status, said["status"], said["code"]) == (201, "Failure", 500)


async def test_a_budget_is_spent_once_for_each(ask: Asking) -> None:
    put_pod(ask, nodeName="n1")
    put_budget(ask, "b", {}, disruptionsAllowed=1)
    await ask("POST", EVICTION, eviction())
    status = ask.api.get(PDBS, "b", "ns")["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["p"])


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
