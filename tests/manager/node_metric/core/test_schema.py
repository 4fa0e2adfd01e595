from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from koord_manager.node_metric.core import schema


def nodes(given: Any) -> Iterator[dict[str, Any]]:
    if isinstance(given, dict):
        yield given
        for one in given.values():
            yield from nodes(one)
    elif isinstance(given, list):
        for one in given:
            yield from nodes(one)


@pytest.mark.parametrize(
    ("document", "schemas"),
    [
        (json.loads(schema.v2()), ("definitions",)),
        (json.loads(schema.v3()), ("components", "schemas")),
    ],
)
def test_every_reference_leads_somewhere_and_every_operation_names_its_kind(
    document: dict[str, Any], schemas: tuple[str, ...]
) -> None:
    found = document
    for part in schemas:
        found = found[part]
    root = f"#/{'/'.join(schemas)}/"
    references = {one["$ref"] for one in nodes(document) if isinstance(one.get("$ref"), str)}
    assert references
    assert all(one.removeprefix(root) in found for one in references)
    for path in document["paths"].values():
        kind = path["get"]["x-kubernetes-group-version-kind"]
        assert kind == {
            "group": "metrics.koordinator.sh",
            "version": "v1alpha1",
            "kind": "NodeMetric",
        }
    (one,) = [one for one in found if one.endswith(".NodeMetric")]
    assert "podsMetric" in found[one]["properties"]["status"]["properties"]


def test_version_2_has_no_alternatives() -> None:
    assert not [one for one in nodes(json.loads(schema.v2())) if {"anyOf", "oneOf"} & one.keys()]


def test_the_index_leads_to_the_document() -> None:
    (one,) = schema.v3_index()["paths"].values()
    assert one["serverRelativeURL"].startswith(f"{schema.V3_PATH}?hash=")
