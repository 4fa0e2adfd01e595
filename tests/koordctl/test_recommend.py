from __future__ import annotations

from typing import Any

from koordctl.output.tables import plain
from koordctl.recommend import lines


def one(name: str, *containers: dict[str, Any], message: str = "of 3 pods") -> dict[str, Any]:
    status: dict[str, Any] = {
        "conditions": [{"type": "RecommendationProvided", "message": message}]
    }
    if containers:
        status["podStatus"] = {"containerStatuses": list(containers)}
    return {
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"target": {"type": "workload", "workload": {"kind": "Deployment", "name": name}}},
        "status": status,
    }


WEB = {
    "containerName": "main",
    "resources": {"cpu": "250m", "memory": "300Mi", "limits.cpu": "2", "limits.memory": "1Gi"},
}


def test_a_line_a_container_and_why_there_is_none() -> None:
    found = [one("web", WEB, {"containerName": "side"}), one("db", message="usage of 2.0 h is …")]
    assert plain(lines(found)) == [
        "TARGET                     CONTAINER  CPU   MEMORY  CPU LIMIT  MEMORY LIMIT",
        "shop/web (Deployment web)  main       250m  300Mi   2          1Gi",
        "shop/web (Deployment web)  side       –     –       –          –",
        "shop/db (Deployment db): usage of 2.0 h is …",
    ]


def test_of_one_that_was_asked_for_its_arithmetic_and_of_none() -> None:
    assert plain(lines([one("web", WEB)], named=True))[-1] == "shop/web (Deployment web): of 3 pods"
    bare = {"metadata": {"namespace": "shop", "name": "new"}, "spec": {}}
    assert plain(lines([bare]))[-1] == "shop/new: not processed yet"
    assert plain(lines([])) == [
        "No Recommendation found. Create one for each workload to get a recommendation for."
    ]


def test_what_others_wrote_is_shown_on_one_line() -> None:
    evil = {"containerName": "a\x1b[2J\n", "resources": {"cpu": "1\n2"}}
    for line in plain(lines([one("web", evil, message="x\ny")], named=True)):
        assert line.isprintable()
