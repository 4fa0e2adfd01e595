"""Grafana's dashboard asks for what koordlet serves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from koordlet.http_api.prometheus import SampleMetrics
from koordlet.http_api.strategy_metrics import StrategyMetrics
from koordlet.qos_manager.eviction.metrics import EvictionCounts, EvictionMetrics
from koordlet.qos_manager.eviction.policy.backend import EvictionResult
from prometheus_client import CollectorRegistry

from tests.support.decided import busy_decisions
from tests.support.observed import full_node

FILE = Path(__file__).parents[2] / "deploy" / "grafana" / "koordlet.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
_SELECTOR = re.compile(r"(koordlet_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r"(\w+)=~?\"")
_BY = re.compile(r"by \(([^)]*)\)")


@pytest.fixture(scope="module")
def served() -> dict[str, set[str]]:
    """The labels of every metric that koordlet can serve, by name."""
    registry = CollectorRegistry()
    observed = full_node().observed()
    registry.register(SampleMetrics(observed))
    registry.register(StrategyMetrics(observed, busy_decisions().decided()))
    counts = EvictionCounts()
    counts.ended(EvictionResult.EVICTED, "MemoryEvict", "batch", "job-1")
    registry.register(EvictionMetrics(observed.node, counts, lambda: 0))
    found: dict[str, set[str]] = {}
    for family in registry.collect():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions() -> Iterator[tuple[str, str]]:
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


@pytest.mark.parametrize(("title", "expression"), tuple(expressions()))
def test_metrics_and_labels_are_served(
    title: str, expression: str, served: dict[str, set[str]]
) -> None:
    selectors = _SELECTOR.findall(expression)
    assert selectors, title
    grouped = {name.strip() for names in _BY.findall(expression) for name in names.split(",")}
    for metric, matchers in selectors:
        assert metric in served, f"{title}: nobody serves {metric}"
        labels = {*_MATCHER.findall(matchers), *grouped}
        assert labels <= served[metric], f"{title}: {metric} has no label of {labels}"


def test_legends_name_labels_that_are_served(served: dict[str, set[str]]) -> None:
    known = set().union(*served.values())
    for panel in PANELS:
        for target in panel["targets"]:
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= known, panel["title"]


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells), panel["title"]
        taken |= cells
