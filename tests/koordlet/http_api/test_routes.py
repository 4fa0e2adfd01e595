"""Paths and parameters."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from koord_service.status import Query, QueryError, StatusPage
from koordlet.http_api.routes import pages

from tests.support.observed import NOW, ObservedNode, busy_node

NODE = busy_node(120)


def get(path: str, node: ObservedNode = NODE) -> StatusPage:
    name, _, query = path.partition("?")
    return pages(node.observed())[name](Query.parse(query))


def read(path: str, node: ObservedNode = NODE) -> dict[str, Any]:
    page = get(path, node)
    assert page.content_type == "application/json"
    found = json.loads(page.body)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("node", [NODE, ObservedNode()], ids=["busy", "empty"])
def test_every_page_is_served_with_and_without_data(node: ObservedNode) -> None:
    for path in pages(node.observed()):
        query = "?kind=node_cpu_usage" if path.endswith("/query") else ""
        assert get(path + query, node).status in (200, 503)


def test_health_and_readiness_are_statuses() -> None:
    assert get("/healthz").status == 200
    stuck = busy_node(0)
    stuck.now = NOW + 1000
    assert get("/healthz", stuck).status == 503
    assert read("/healthz", stuck)["status"] == "failed"
    assert get("/readyz").status == 200


def test_parameters_are_those_of_the_documents() -> None:
    found = read("/v1/metrics/query?kind=node_psi&psi_degree=some&aggregation=p95,last&window=1m")
    assert {one["labels"]["psi_resource"] for one in found["series"]} == {"cpu", "mem", "io"}
    assert list(found["series"][0]["values"]) == ["p95", "last"]
    assert found["window_seconds"] == 60
    assert "times" not in found
    found = read("/v1/metrics/query?kind=node_cpu_usage&points=1&window=2m&step=20")
    assert len(found["series"][0]["points"]) == len(found["times"]) == 6
    assert read("/v1/usage")["resource"] == "cpu"
    found = read("/v1/usage?resource=memory&window=1m&step=10s")
    assert (found["unit"], len(found["times"])) == ("bytes", 6)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/metrics/query", 'parameter "kind" is missing; /v1/metrics/kinds lists'),
        ("/v1/metrics/query?kind=moon", 'parameter "kind" is "moon"; /v1/metrics/kinds'),
        (
            "/v1/metrics/query?kind=node_psi&pod_uid=1",
            'node_psi has no label "pod_uid"; its labels',
        ),
        ("/v1/metrics/query?kind=node_cpu_usage&x=1", "its labels: none"),
        ("/v1/metrics/query?kind=node_psi&window=13h", 'parameter "window" is "13h"'),
        ("/v1/metrics/query?kind=node_psi&aggregation=p95,p96", '"aggregation" is "p96"'),
        ("/v1/metrics/query?kind=node_psi&points=yes", 'parameter "points" is "yes"'),
        ("/v1/usage?resource=gpu", 'parameter "resource" is "gpu"; expected one of cpu, memory'),
        ("/v1/usage?step=0", 'parameter "step" is "0"'),
    ],
)
def test_what_cannot_be(path: str, words: str) -> None:
    with pytest.raises(QueryError, match=re.escape(words)):
        get(path)


@pytest.mark.parametrize("path", ["/", "/app.js", "/page.js", "/charts.js", "/style.css"])
def test_the_web_page_asks_for_nothing_from_elsewhere_and_sets_names_as_text(path: str) -> None:
    page = get(path)
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    text = page.body.decode().replace("http://www.w3.org/2000/svg", "")
    sources = ("http:", "https:", "//cdn")
    ways = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(")
    assert not [one for one in (*sources, *ways) if one in text]


def test_the_web_page_names_files_that_are_served() -> None:
    served = pages(NODE.observed())
    text = "".join(get(path).body.decode() for path in ("/", "/app.js", "/page.js", "/charts.js"))
    named = re.findall(r'(?:href|src)="([^":]+)"|from "\./([^"]+)"', text)
    files = {"/app.js", "/page.js", "/charts.js", "/style.css"}
    assert {f"/{one or other}" for one, other in named} == files
    asked = re.findall(r'ask\(["`]([a-z0-9/]+)', text)
    assert len(asked) == 9
    assert {f"/{path}" for path in asked} <= set(served)
