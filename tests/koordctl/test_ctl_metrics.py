"""``koordctl metrics``."""

from __future__ import annotations

import json

import pytest
from koordctl.koordlet_documents import SeriesDocument, SeriesRow
from koordctl.main import main
from koordctl.metrics import query_lines

Captured = pytest.CaptureFixture[str]


def test_a_query(koordlet: str, capsys: Captured) -> None:
    main(["metrics", "query", "pod_cpu_usage", "--window=20m", f"--address={koordlet}"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["SERIES", "AVG", "P95", "MAX", "LAST", "OVER", "20", "M"]
    [web] = [line for line in lines if line.startswith("shop/web-7c9d8b5f4-x2x9k ")]
    *_, last, curve = web.split()
    assert last == "1.54"
    assert len(curve) == 40
    assert set(curve) <= set("▁▂▃▄▅▆▇█")
    assert any(line.startswith("uid-ended ") for line in lines), "one that runs no longer"


def test_labels_and_aggregations(koordlet: str, capsys: Captured) -> None:
    query = ["metrics", "query", "node_psi", "psi_resource=io", "psi_degree=some"]
    main([*query, "--aggregation", "p99,count", "--address", koordlet])
    header, row = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["SERIES", "P99", "COUNT"]
    assert row.startswith("io avg10 some  ")
    assert " % " in row


def test_json(koordlet: str, capsys: Captured) -> None:
    main(["metrics", "query", "node_cpu_usage", "--json", "--address", koordlet])
    found = json.loads(capsys.readouterr().out)
    assert found["series"][0]["values"]["max"] > 10
    main(["metrics", "kinds", "--json", "--address", koordlet])
    assert json.loads(capsys.readouterr().out)["kinds"][0]["name"] == "node_cpu_usage"


def test_kinds(koordlet: str, capsys: Captured) -> None:
    main(["metrics", "kinds", "--address", koordlet])
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert rows["pod_psi"].split()[1] == "percent"
    assert rows["pod_psi"].endswith("pod_uid, psi_resource, psi_precision, psi_degree")


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["moon"], 1, 'koordlet says: 400 /v1/metrics/query: parameter "kind" is "moon"'),
        (["node_psi", "pod_uid=1"], 1, 'node_psi has no label "pod_uid"'),
        (["node_psi", "--window=5d"], 1, 'parameter "window" is "5d"; expected 1 to 43200'),
        (["node_psi", "--aggregation=p42"], 1, '"aggregation" is "p42"'),
        (["node_psi", "psi_resource=io", "psi_resource=cpu"], 1, '"psi_resource" is given twice'),
        (["node_psi", "io"], 2, '"io" is not a label; expected LABEL=VALUE'),
        (["node_psi", "window=5"], 2, '"window=5" is not a label'),
        ([], 2, "KIND"),
    ],
)
def test_what_cannot_be(
    koordlet: str, capsys: Captured, argv: list[str], code: int, words: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["metrics", "query", *argv, "--address", koordlet])
    assert end.value.code == code
    [line] = capsys.readouterr().err.splitlines()
    assert words in line


def test_nothing_measured() -> None:
    lines = list(query_lines(SeriesDocument("node_psi", 0.0, [], window_seconds=60)))
    assert lines == ["node_psi: nothing measured in the last 60 s."]


def test_series_left_out_are_said() -> None:
    found = SeriesDocument(
        "x", 0.0, [SeriesRow(values={"avg": 1.0})], window_seconds=90, left_out=7
    )
    assert list(query_lines(found)) == [
        "SERIES  AVG  OVER 90 S",
        "node      1",
        "7 more series not shown; give LABEL=VALUE to select some.",
    ]
