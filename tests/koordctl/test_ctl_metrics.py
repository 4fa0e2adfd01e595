"""``koordctl metrics``."""

from __future__ import annotations

import pytest
from koordctl.koordlet_documents import SeriesDocument, SeriesRow
from koordctl.metrics import query_lines
from koordctl.output.tables import plain

from tests.koordctl.conftest import Failing, Run


def test_a_query(koordlet: str, run: Run) -> None:
    at = f"--address={koordlet}"
    lines = run("metrics", "query", "pod_cpu_usage", "--window=20m", at).splitlines()
    assert lines[0].split() == ["SERIES", "AVG", "P95", "MAX", "LAST", "OVER", "20", "M"]
    [web] = [line for line in lines if line.startswith("shop/web-7c9d8b5f4-x2x9k ")]
    *_, last, curve = web.split()
    assert last == "1.54"
    assert len(curve) == 40
    assert set(curve) <= set("▁▂▃▄▅▆▇█")
    assert any(line.startswith("uid-ended ") for line in lines), "one that runs no longer"
    query = ["metrics", "query", "node_psi", "psi_resource=io", "psi_degree=some"]
    header, row = run(*query, "--aggregation", "p99,count", at).splitlines()
    assert header.split()[:3] == ["SERIES", "P99", "COUNT"]
    assert row.startswith("io avg10 some  ")
    assert " % " in row


def test_kinds(koordlet: str, run: Run) -> None:
    lines = run("metrics", "kinds", "--address", koordlet).splitlines()
    [row] = [line for line in lines if line.startswith("pod_psi ")]
    assert row.split()[1] == "percent"
    assert row.endswith("pod_uid, psi_resource, psi_precision, psi_degree")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("moon", 'koordlet says: 400 /v1/metrics/query: parameter "kind" is "moon"'),
        ("node_psi pod_uid=1", 'node_psi has no label "pod_uid"'),
        ("node_psi --window=5d", 'parameter "window" is "5d"; expected 1 to 43200'),
        ("node_psi --aggregation=p42", '"aggregation" is "p42"'),
        ("node_psi psi_resource=io psi_resource=cpu", '"psi_resource" is given twice'),
    ],
)
def test_what_koordlet_refuses(koordlet: str, failing: Failing, argv: str, words: str) -> None:
    code, line = failing("metrics", "query", *argv.split(), "--address", koordlet)
    assert code == 1
    assert words in line


def test_nothing_measured() -> None:
    lines = plain(query_lines(SeriesDocument("node_psi", 0.0, [], window_seconds=60)))
    assert lines == ["node_psi: nothing measured in the last 60 s."]


def test_series_left_out_are_said() -> None:
    found = SeriesDocument(
        "x", 0.0, [SeriesRow(values={"avg": 1.0})], window_seconds=90, left_out=7
    )
    assert plain(query_lines(found)) == [
        "SERIES  AVG  OVER 90 S",
        "node      1",
        "7 more series not shown; give LABEL=VALUE to select some.",
    ]
