from __future__ import annotations

from typing import Any

import pytest
from koord_manager.pod_webhook.document import about, read
from koord_model.priority import PriorityClass


def pod(spec: dict[str, Any] | None = None, **labels: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in labels.items()}
    containers = {"containers": [{"name": "c"}]}
    return {"metadata": {"name": "p", "labels": named}, "spec": containers | (spec or {})}


def asking(group: str, **amounts: str) -> dict[str, Any]:
    return {"name": "c", "resources": {group: amounts}}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, "no pod: Object missing required field `spec`"),
        ({"spec": {}}, "no pod: Object missing required field `containers` - at `$.spec`"),
        ({"spec": []}, "no pod: Expected `object`, got `array` - at `$.spec`"),
        (pod({"containers": [1]}), "no pod: Expected `object`, got `int` - at `$.spec.containers"),
        (pod({"priority": "1"}), "no pod: Expected `int | null`, got `str` - at `$.spec.priority`"),
        (
            {"spec": {"containers": []}, "metadata": {"labels": {"a": 1}}},
            "no pod: Expected `str`, got `int` - at `$.metadata.labels[...]`",
        ),
    ],
)
def test_what_is_no_pod_is_said(given: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=r"^no pod: ") as raised:
        read(given)
    assert str(raised.value).startswith(line)


def test_its_name_is_what_it_has_or_will_begin_with() -> None:
    assert about(read(pod()), "ns") == 'pod "ns/p"'
    generated = {**pod(), "metadata": {"generateName": "web-"}}
    assert about(read(generated), "ns") == 'pod "ns/web-*"'


def test_what_it_requests_is_what_runs_together_and_more_while_it_starts() -> None:
    spec = {
        "containers": [asking("requests", cpu="1"), asking("requests", cpu="500m", memory="1Gi")],
        "initContainers": [
            {**asking("requests", cpu="100m"), "restartPolicy": "Always"},
            asking("requests", cpu="2", memory="1Mi"),
        ],
        "overhead": {"cpu": "10m"},
    }
    assert read(pod(spec)).requests() == {"cpu": 2110, "memory": 1 << 30}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, PriorityClass.BATCH),
        ({"containers": [asking("limits", cpu="0")]}, PriorityClass.BATCH),
        ({"containers": [asking("limits", cpu="1")]}, PriorityClass.PROD),
        ({"initContainers": [asking("requests", memory="1")]}, PriorityClass.PROD),
        ({"resources": {"requests": {"memory": "1"}}}, PriorityClass.PROD),
        ({"priority": 7000}, PriorityClass.MID),
    ],
)
def test_the_class_it_is_treated_as_having(spec: dict[str, Any], expected: PriorityClass) -> None:
    assert read(pod(spec)).treated_class() is expected
