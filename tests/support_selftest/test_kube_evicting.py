"""Evictions, as the double and a real server do them.

Whoever gives another ``ask`` holds another server to them.
"""

from __future__ import annotations

from typing import Any

import pytest
from koord_kube.protocol.resources import NODES, PODS

from tests.support.kube_asking import Answer, Asking
from tests.support.kube_evictions import PDBS
from tests.support_selftest.kube_clients import node, pod

__all__ = ["TestEvictions"]

EVICTION = PODS.path("p", "default", "eviction")
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
LABELS = {"labels": {"app": "web"}}


def eviction(name: str = "p", **more: Any) -> Any:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}


async def put_pod(ask: Asking, **spec: Any) -> None:
    given = pod(spec={"automountServiceAccountToken": False, **spec}, **LABELS)
    await ask("POST", PODS.path("", "default"), given)
    path = PODS.path("p", "default", "status")
    assert (await ask("PATCH", path, {"status": READY})).status == 200


async def put_budget(ask: Asking, name: str, allowed: int, observed: int = 1) -> None:
    status = {
        "observedGeneration": observed,
        "disruptionsAllowed": allowed,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await ask.put(PDBS, {"metadata": {"name": name}, "spec": spec, "status": status}, "default")


async def evicted(ask: Asking, **more: Any) -> Answer:
    return await ask("POST", EVICTION, eviction(**more))


class TestEvictions:
    async def test_without_a_budget(self, ask: Asking) -> None:
        await put_pod(ask)
        done = await evicted(ask)
        assert (done.status, done.said["status"], done.said["code"]) == (201, "Success", 201)
        assert (await ask("GET", PODS.path("p", "default"))).status == 404
        assert (await evicted(ask)).refusal == (404, "NotFound")

    async def test_it_stays_until_its_kubelet_has_ended_it(self, ask: Asking) -> None:
        await ask("POST", NODES.path(), node("n1"))
        await put_pod(ask, nodeName="n1")
        assert (await evicted(ask)).status == 201
        meta = (await ask.get(PODS, "p", "default"))["metadata"]
        assert "deletionTimestamp" in meta
        assert meta["deletionGracePeriodSeconds"] == 30

    async def test_a_budget_that_is_used_up(self, ask: Asking) -> None:
        await put_pod(ask)
        await put_budget(ask, "b", 0)
        refused = await evicted(ask)
        assert refused.refusal == (429, "TooManyRequests")
        assert "Retry-After" not in refused.headers
        assert refused.said["details"]["causes"] == [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
            }
        ]

    async def test_a_budget_that_nobody_has_counted_yet(self, ask: Asking) -> None:
        await put_pod(ask)
        await put_budget(ask, "b", 0, observed=0)
        refused = await evicted(ask)
        assert refused.refusal == (429, "TooManyRequests")
        assert refused.said["details"]["retryAfterSeconds"] == 10
        assert refused.headers["Retry-After"] == "10"

    async def test_a_budget_is_spent(self, ask: Asking) -> None:
        await put_pod(ask)
        await put_budget(ask, "b", 1)
        assert (await evicted(ask)).status == 201
        status = (await ask.get(PDBS, "b", "default"))["status"]
        assert (status["disruptionsAllowed"], [*status["disruptedPods"]]) == (0, ["p"])

    async def test_two_budgets_are_a_failure(self, ask: Asking) -> None:
        await put_pod(ask)
        await put_budget(ask, "b", 1)
        await put_budget(ask, "c", 1)
        done = await evicted(ask)
        assert (done.refusal, done.said["code"]) == ((500, ""), 500)
        assert (await ask("GET", PODS.path("p", "default"))).status == 200

    @pytest.mark.parametrize(
        ("body", "refusal"),
        [
            (eviction("q"), (400, "BadRequest")),
            (eviction() | {"kind": "Pod", "apiVersion": "v1"}, (400, "BadRequest")),
            (eviction(deleteOptions={"preconditions": {"uid": "other"}}), (409, "Conflict")),
        ],
    )
    async def test_what_is_wrong(self, ask: Asking, body: Any, refusal: Any) -> None:
        await put_pod(ask)
        assert (await ask("POST", EVICTION, body)).refusal == refusal
