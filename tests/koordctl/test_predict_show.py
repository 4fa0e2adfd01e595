"""``koordctl predict show``."""

from __future__ import annotations

import datetime
import json

from koordctl.koordlet_documents import (
    Model,
    PodModel,
    PredictionsDocument,
    PredictorRow,
    ResourceUsage,
)
from koordctl.output.tables import plain
from koordctl.predict_show import by_cpu, head_lines, pod_lines

from tests.koordctl.conftest import Run


def test_a_busy_node(koordlet: str, run: Run) -> None:
    lines = run("predict", "show", "--address", koordlet).splitlines()
    assert lines[0].startswith("node-1  ")
    assert lines[0].endswith("  trained 40 s ago")
    rows = [" ".join(line.split()) for line in lines]
    for row in (
        "minPredictor 11.20 24.0 GiB 1.50 2.0 GiB",
        "NODE CPU P60 P90 P95 P98 MAX MEMORY P60 P90 P95 P98 MAX",
        "node 8.40 12.60 13.30 13.72 14.00 8.4 GiB 12.6 GiB 13.3 GiB 13.7 GiB 14.0 GiB",
        "2 pods of 8 too young for a prediction or without a model: counted with the request.",
    ):
        assert row in rows
    cpu, memory = rows.index("CPU, cores"), rows.index("Memory")
    header = "POD CLASS REQUEST P60 P90 P95 P98 MAX COUNTED WITH"
    assert rows[cpu + 1] == rows[memory + 1] == header
    assert rows[cpu + 2] == "ml/train-resnet-5 BE 2.00 4.20 6.30 6.65 6.86 7.00"
    assert rows[memory + 2].startswith("ml/train-resnet-5 BE 6.0 GiB 4.2 GiB 6.3 GiB")
    assert rows[cpu + 8] == "shop/web-7c9d8b5f4-x2x9k LS 2.00 0.60 0.90 0.95 0.98 1.00 its request"
    assert rows[cpu + 9].endswith("LS 0.10 – – – – – its request")
    assert len(rows) == memory + 10
    assert max(map(len, lines)) <= 120


def test_how_many(koordlet: str, run: Run) -> None:
    lines = run("predict", "show", "-n2", f"--address={koordlet}").splitlines()
    assert sum(line.startswith(("ml/", "batch/", "shop/")) for line in lines) == 4
    found = json.loads(run("predict", "show", "-n", "2", "--json", f"--address={koordlet}"))
    assert [pod["name"] for pod in found["pods"]] == ["train-resnet-5", "spark-exec-18"]
    assert found["pods"][0]["cpu"]["max"] == 7


def test_pods_without_a_model_come_last() -> None:
    pods = [PodModel(name="b"), PodModel(name="a"), PodModel(name="c", cpu={"p95": 0.0})]
    assert [pod.name for pod in by_cpu(pods)] == ["c", "a", "b"]


def test_before_anything_is_learnt() -> None:
    lines = plain(head_lines(PredictionsDocument(0.0, []), datetime.UTC))
    assert lines == ["this node  00:00:00  no training since koordlet started"]
    assert plain(pod_lines([])) == ["", "No pods to show."]


def test_what_is_not_known() -> None:
    found = PredictionsDocument(
        10.0,
        [],
        trained_at=20.0,
        predictors={"minPredictor": PredictorRow(ResourceUsage(1.0, 1 << 30))},
        models=[Model("sys")],
    )
    lines = [" ".join(line.split()) for line in plain(head_lines(found, datetime.UTC))]
    assert lines[0].endswith("trained 0 s ago")
    assert "minPredictor 1.00 1.0 GiB – –" in lines
    assert f"sys {' '.join(['–'] * 10)}" in lines


def test_names_cannot_drive_the_terminal() -> None:
    pods = [PodModel(name="a\x1b[2J", namespace="b\nc", qos="\x07")]
    found = PredictionsDocument(
        0.0, pods, node="\x1b", predictors={"\x1b": PredictorRow()}, models=[Model("\x07")]
    )
    text = "\n".join([*plain(head_lines(found, datetime.UTC)), *plain(pod_lines(pods))])
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "b c/a" in text
