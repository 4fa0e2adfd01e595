"""Plugins' fields in the object that is applied, and an API server that refuses some."""

from __future__ import annotations

from typing import Any

import pytest
from koord_kube.protocol.api import ApiError
from koord_kube.protocol.resources import CUSTOM_NODE_RESOURCES
from koordlet.metrics_reporter.applier import ObjectApplier
from koordlet.metrics_reporter.plugins.export import PluginFieldExport

OURS = {"apiVersion": "v", "kind": "K", "metadata": {"name": "n1"}, "status": {"ours": 1}}


def fields(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


class Export:
    """An applier with plugins' fields, and a double of an API server that refuses some labels."""

    def __init__(self) -> None:
        self.reported: dict[str, Any] | None = {}
        self.refused: set[str] = set()
        self.ours_refused = False
        self.requests = 0
        self.labels: dict[str, str] = {}
        self.at = 0.0
        self.export = PluginFieldExport(lambda: self.reported, now=lambda: self.at)
        self.applier = ObjectApplier(
            self,
            CUSTOM_NODE_RESOURCES,
            "n1",
            lambda: self.export.add(OURS),
            lambda built: built,
            "koordlet",
            judge=self.export.judge,
            reapply_seconds=1e9,
            now=lambda: self.at,
            monotonic=lambda: self.at,
            chance=lambda: 1.0,
        )

    async def apply(self, resource, name, given, manager, subresource="") -> dict[str, Any]:
        labels = given["metadata"].get("labels", {})
        if not subresource:
            self.requests += 1
            if self.ours_refused or self.refused & set(labels):
                raise ApiError("metadata.labels: Invalid value", 422)
            self.labels = labels
        return {}

    async def look(self, times: int = 1) -> dict[str, str]:
        for _ in range(times):
            self.at += 3
            await self.applier.round()
        return self.labels


@pytest.fixture
def export() -> Export:
    return Export()


async def test_nothing_is_sent_while_plugins_may_still_register(export: Export) -> None:
    export.reported = None
    await export.look()
    assert export.requests == 0
    export.reported = {"b": fields(b="1", shared="b"), "a": fields(a="1", shared="a")}
    # The first by name keeps what both want.
    assert await export.look() == {"a": "1", "b": "1", "shared": "a"}
    export.reported = {}
    assert await export.look() == {}


async def test_a_refused_plugin_is_found_and_the_others_stay(export: Export) -> None:
    export.refused = {"bad"}
    export.reported = {name: fields(**{name: "1"}) for name in ("a", "bad", "c")}
    assert await export.look(6) == {"a": "1", "c": "1"}
    assert export.applier.state.failures == 0
    requests = export.requests
    await export.look(5)
    assert export.requests == requests
    # It is tried again once it says something else.
    export.reported["bad"] = fields(good="1")
    assert await export.look(2) == {"a": "1", "good": "1", "c": "1"}


async def test_those_that_were_fine_stay_while_a_bad_one_is_looked_for(export: Export) -> None:
    export.reported = {name: fields(**{name: "1"}) for name in "abc"}
    assert await export.look() == {"a": "1", "b": "1", "c": "1"}
    export.refused = {"bad"}
    export.reported = {"a": fields(a="1"), "b": fields(bad="1"), "c": fields(c="2")}
    seen = [dict(await export.look()) for _ in range(6)]
    assert all(labels["a"] == "1" and "c" in labels for labels in seen)
    assert seen[-1] == {"a": "1", "c": "2"}


async def test_a_single_plugin_is_withheld_at_once(export: Export) -> None:
    export.refused = {"bad"}
    export.reported = {"p": fields(bad="1")}
    assert await export.look(2) == {}
    assert (export.requests, export.applier.state.failures) == (2, 0)


async def test_a_plugin_without_fields_does_not_keep_others_out(export: Export) -> None:
    export.refused = {"bad"}
    export.reported = {"a": {}, "bad": fields(bad="1"), "c": fields(c="1")}
    assert await export.look(8) == {"c": "1"}


async def test_a_refusal_of_our_own_fields_is_nobodys_fault(export: Export) -> None:
    export.ours_refused = True
    export.reported = {"a": fields(a="1"), "b": fields(b="1")}
    await export.look(4)
    assert export.applier.state.failures > 0
    export.ours_refused = False
    assert await export.look(20) == {"a": "1", "b": "1"}


async def test_changes_without_end_are_sent_once_a_minute(export: Export) -> None:
    for number in range(100):
        export.reported = {"p": fields(a=str(number))}
        await export.look()
    assert 5 <= export.requests <= 5 + 300 / 60
