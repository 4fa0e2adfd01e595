"""Grafana's dashboards ask for what the programs serve."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from koord_service.program_metrics import program_metrics
from prometheus_client.parser import text_string_to_metric_families

from tests.support.metrics_pages import metrics_pages
from tools import dashboards

DASHBOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text()) for path in sorted(dashboards.GRAFANA.glob("*.json"))
}
PANELS = [
    (program, panel)
    for program, dashboard in DASHBOARDS.items()
    for panel in dashboard["panels"]
    if panel["type"] != "row"
]
_PREFIXES = "koord_|koordlet_|scheduler_|descheduler_|pykoord_|process_|ALERTS"
_SELECTOR = re.compile(rf"\b((?:{_PREFIXES})\w*)(?:\{{([^}}]*)\}})?")
_MATCHER = re.compile(r"(\w+)=~?\"")
_BY = re.compile(r"(?:by|on|group_left) \(([^)]*)\)")
_SCRAPED = {"instance", "job"}
"""Labels that Prometheus adds."""

Labels = dict[str, set[str]]


@pytest.fixture(scope="module")
def served() -> dict[str, Labels]:
    """The labels of every metric that a program can serve, by program; a cluster has them all."""
    found = {
        program: _labels(text + program_metrics(program))
        for program, text in metrics_pages().items()
    }
    alerts = {"ALERTS": {"alertname", "alertstate", "severity"}}  # Prometheus' own
    found["cluster"] = {name: by for of in found.values() for name, by in of.items()} | alerts
    return found


def _labels(page: str) -> Labels:
    found: Labels = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, set(_SCRAPED)).update(sample.labels)
    return found


def test_they_are_made_of_their_descriptions() -> None:
    for path, text in dashboards.texts().items():
        assert path.read_text() == text, "run: python tools/dashboards.py"
    assert DASHBOARDS.keys() == {path.stem for path in dashboards.texts()}


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
    assert grouped - {""} <= known, f"{title}: there is no label of {grouped}"


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
