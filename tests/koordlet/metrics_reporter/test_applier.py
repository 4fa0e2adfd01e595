"""Exported views: when they are applied, and what fails."""

from __future__ import annotations

from typing import Any

from koord_kube.protocol.api import ApiError, NotFoundError
from koord_kube.protocol.resources import CUSTOM_NODE_RESOURCES
from koordlet.metrics_reporter.applier import ObjectApplier


class ApplyApiDouble:
    """Counts what is applied; a double of an API server with or without the definition."""

    def __init__(self) -> None:
        self.defined = True
        self.away = False
        self.requests: list[tuple[str, dict[str, Any]]] = []

    async def apply(self, resource, name, given, manager, subresource="") -> dict[str, Any]:
        assert (resource, name, manager) == (CUSTOM_NODE_RESOURCES, "n1", "koordlet")
        if self.away:
            raise ApiError("refused")
        if not self.defined:
            raise NotFoundError("no such kind", 404)
        self.requests.append((subresource, given))
        return {}


class Life:
    """One applier, its clock, and the object that it exports."""

    def __init__(self) -> None:
        self.api, self.seconds = ApplyApiDouble(), 0.0
        self.usage = 1
        self.wanted: dict[str, Any] | None = self.state(1)
        self.applier = ObjectApplier(
            self.api,
            CUSTOM_NODE_RESOURCES,
            "n1",
            lambda: self.wanted,
            lambda built: {**built, "status": {**built["status"], "usage": self.usage}},
            "koordlet",
            interval=3.0,
            reapply_seconds=60.0,
            now=lambda: 1000.0 + self.seconds,
            monotonic=lambda: self.seconds,
            chance=lambda: 1.0,
        )

    def state(self, lasting: int) -> dict[str, Any]:
        status = {"lasting": lasting}
        return {"apiVersion": "v", "kind": "K", "metadata": {"name": "n1"}, "status": status}

    async def look(self, seconds: float = 3.0) -> int:
        """Return how many requests a look made."""
        self.seconds += seconds
        before = len(self.api.requests)
        await self.applier.round()
        return len(self.api.requests) - before


async def test_it_is_applied_when_something_lasting_changes_and_at_an_interval():
    life = Life()
    assert await life.look() == 2
    (part, whole), (status, last) = life.api.requests
    assert (part, status) == ("", "status")
    assert "status" not in whole
    assert last["status"] == {"lasting": 1, "usage": 1}
    life.usage = 2
    assert await life.look() == 0
    life.wanted = life.state(2)
    assert await life.look() == 2
    life.usage = 3
    assert await life.look(59.0) == 0
    assert await life.look(1.0) == 2
    assert life.api.requests[-1][1]["status"] == {"lasting": 2, "usage": 3}
    assert life.applier.state.patched == 3
    life.wanted = None
    assert await life.look(100.0) == 0


async def test_a_missing_definition_is_said_once_and_tried_again_seldom(caplog):
    life = Life()
    life.api.defined = False
    for _ in range(3):
        assert await life.applier.round() >= 60.0
    lines = [one for one in caplog.records if one.getMessage() == "cannot publish"]
    assert len(lines) == 1
    assert "customnoderesources.node.katalyst.kubewharf.io: no such kind" in (
        life.applier.state.problem
    )
    life.api.defined = True
    assert await life.look() == 2
    assert life.applier.state.problem == ""


async def test_after_a_failure_all_of_it_is_applied_again():
    life = Life()
    assert await life.look() == 2
    life.wanted, life.api.away = life.state(2), True
    assert await life.look() == 0
    # Back as it was, but what the server has is not known.
    life.wanted, life.api.away = life.state(1), False
    assert await life.look() == 2
