"""Grafana's dashboards ask for what the programs serve."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from koord_kube.core.evictions import EvictionResult
from koordlet.http_api.prometheus import SampleMetrics
from koordlet.http_api.strategy_metrics import StrategyMetrics
from koordlet.qos_manager.eviction.metrics import EvictionCounts, EvictionMetrics
from prometheus_client import CollectorRegistry

from tests.support.decided import busy_decisions
from tests.support.descheduler_metrics import full_descheduler_registry
from tests.support.observed import full_node
from tests.support.scheduler_metrics import full_registry

GRAFANA = Path(__file__).parents[2] / "deploy" / "grafana"
DASHBOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text()) for path in sorted(GRAFANA.iterdir())
}
PANELS = [
    (program, panel)
    for program, dashboard in DASHBOARDS.items()
    for panel in dashboard["panels"]
    if panel["type"] != "row"
]
_SELECTOR = re.compile(r"\b((?:koordlet|scheduler|descheduler|pykoord)_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r"(\w+)=~?\"")
_BY = re.compile(r"(?:by|on) \(([^)]*)\)")
_SCRAPED = {"instance"}
"""Labels that Prometheus adds."""


def _registry_of_koordlet() -> CollectorRegistry:
    registry = CollectorRegistry()
    observed = full_node().observed()
    registry.register(SampleMetrics(observed))
    registry.register(StrategyMetrics(observed, busy_decisions().decided()))
    counts = EvictionCounts()
    counts.ended(EvictionResult.EVICTED, "MemoryEvict", "batch", "job-1")
    registry.register(EvictionMetrics(observed.node, counts, lambda: 0))
    return registry


@pytest.fixture(scope="module")
def served() -> dict[str, dict[str, set[str]]]:
    """The labels of every metric that a program can serve, by name."""
    registries = {
        "koordlet": _registry_of_koordlet(),
        "koord-scheduler": full_registry(),
        "koord-descheduler": full_descheduler_registry(),
    }
    found: dict[str, dict[str, set[str]]] = {program: {} for program in registries}
    for program, registry in registries.items():
        for family in registry.collect():
            for sample in family.samples:
                labels = found[program].setdefault(sample.name, set(_SCRAPED))
                labels.update(sample.labels)
    return found


def expressions() -> Iterator[tuple[str, str, str]]:
    for program, panel in PANELS:
        for target in panel["targets"]:
            yield program, panel["title"], target["expr"]
    for program, dashboard in DASHBOARDS.items():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                yield program, variable["name"], variable["query"]["query"]


@pytest.mark.parametrize(("program", "title", "expression"), tuple(expressions()))
def test_metrics_and_labels_are_served(
    program: str, title: str, expression: str, served: dict[str, dict[str, set[str]]]
) -> None:
    labels_of = served[program]
    selectors = _SELECTOR.findall(expression)
    assert selectors, title
    for metric, matchers in selectors:
        assert metric in labels_of, f"{title}: nobody serves {metric}"
        labels = set(_MATCHER.findall(matchers))
        assert labels <= labels_of[metric], f"{title}: {metric} has no label of {labels}"
    grouped = {name.strip() for names in _BY.findall(expression) for name in names.split(",")}
    known = set().union(*(labels_of[metric] for metric, _ in selectors))
    assert grouped <= known, f"{title}: there is no label of {grouped}"


def test_legends_name_labels_that_are_served(served: dict[str, dict[str, set[str]]]) -> None:
    for program, panel in PANELS:
        known = set().union(*served[program].values())
        for target in panel["targets"]:
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= known, panel["title"]


@pytest.mark.parametrize("program", DASHBOARDS)
def test_panels_have_ids_of_their_own_and_do_not_overlap(program: str) -> None:
    panels = DASHBOARDS[program]["panels"]
    ids = [panel["id"] for panel in panels]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells), panel["title"]
        taken |= cells
