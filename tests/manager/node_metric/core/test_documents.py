from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator
from koord_kube.definitions.node_metric import STATUS as SCHEMA
from koord_kube.definitions.strict_decoder import StrictDecoder
from koord_manager.node_metric.core import documents, schema
from koord_manager.node_metric.core.store import EventType, MetricEvent, MetricPage, StoredMetric
from koord_serving.aggregated.core.list_options import NameSelector, ObjectForm, StatusError, parse

from tests.support.mutilation import mutilated
from tests.support.node_metric_statuses import ODD as ODD_VALUES
from tests.support.node_metric_statuses import WHOLE, strictly

DECODER = StrictDecoder(SCHEMA)
STATUS = b'{"nodeMetric":{"nodeUsage":{"resources":{"cpu":"1500m","memory":"2Gi"}}},"x":[1e3]}'
ODD = b'{"nodeMetric":{"nodeUsage":{"resources":{"cpu":2,"memory":"x"}}}}'
CREATED, NOW = "2026-01-01T00:00:00Z", 1_767_225_600.0 + 3 * 86400


def kept(name: str = "n1", **more: Any) -> StoredMetric:
    given = {"status": STATUS, "version": 12, "came": 3, "heard": 0.0} | more
    return StoredMetric(name, "u", CREATED, **given)


def listed(page: MetricPage, shape: ObjectForm, **more: Any) -> Any:
    pieces = documents.listed(page, more.pop("names", NameSelector()), shape, full=False, now=NOW)
    return json.loads(b"".join(pieces))


def test_an_object_has_the_status_as_it_came_and_says_since_when_it_is_stale() -> None:
    found = documents.encoded(kept(stale_since=CREATED))
    assert STATUS in found
    meta = {"name": "n1", "uid": "u", "resourceVersion": "12", "creationTimestamp": CREATED}
    assert json.loads(found) == {
        "apiVersion": "metrics.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": meta | {"annotations": {"metrics.koordinator.sh/stale-since": CREATED}},
        "status": json.loads(STATUS),
    }
    assert json.loads(documents.encoded(kept()))["metadata"] == meta


def test_lists() -> None:
    page = MetricPage((kept("n1"), kept("n2")), 40, "n2", 7)
    found = listed(page, ObjectForm.OBJECT)
    assert found["kind"] == "NodeMetricList"
    assert [one["metadata"]["name"] for one in found["items"]] == ["n1", "n2"]
    assert found["metadata"]["resourceVersion"] == "40"
    assert found["metadata"]["remainingItemCount"] == 7
    options = parse({"continue": found["metadata"]["continue"]})
    assert (options.version, options.after) == (40, "n2")
    some = listed(page, ObjectForm.OBJECT, names=NameSelector(only=frozenset({"n2"})))
    assert [one["metadata"]["name"] for one in some["items"]] == ["n2"]
    assert "remainingItemCount" not in some["metadata"]
    assert listed(MetricPage((), 4), ObjectForm.OBJECT)["items"] == []


def test_metadata_alone() -> None:
    found = listed(MetricPage((kept(),), 40), ObjectForm.METADATA)
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert found["items"][0]["kind"] == "PartialObjectMetadata"
    assert "status" not in found["items"][0]


@pytest.mark.parametrize(
    ("more", "cells"),
    [
        ({}, ["1500m", "2048Mi", "3d", "True"]),
        ({"stale_since": "2026-01-03T23:50:00Z"}, ["1500m", "2048Mi", "3d", "False (10m)"]),
        ({"status": b"{}"}, ["<unknown>", "<unknown>", "3d", "True"]),
        ({"status": ODD}, ["2000m", "<unknown>", "3d", "True"]),
        ({"status": b'{"nodeMetric":[]}'}, ["<unknown>", "<unknown>", "3d", "True"]),
    ],
)
def test_rows(more: dict[str, Any], cells: list[str]) -> None:
    found = listed(MetricPage((kept(**more),), 40), ObjectForm.TABLE)
    assert found["kind"] == "Table"
    names = [one["name"] for one in found["columnDefinitions"]]
    assert names == ["Name", "CPU", "Memory", "Age", "Healthy"]
    assert found["rows"][0]["cells"] == ["n1", *cells]
    assert found["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    whole = json.loads(documents.shown(kept(), ObjectForm.TABLE, full=True, now=NOW))["rows"][0]
    assert whole["object"]["kind"] == "NodeMetric"


def test_an_event_is_one_line_and_an_end_has_its_own_version() -> None:
    event = MetricEvent(EventType.DELETED, 77, kept())
    line = documents.line(event, ObjectForm.OBJECT, full=False, now=NOW)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    found = json.loads(line)
    assert (found["type"], found["object"]["metadata"]["resourceVersion"]) == ("DELETED", "77")


def test_bookmarks() -> None:
    found = json.loads(documents.bookmark(9, ObjectForm.OBJECT, initial_end=True))
    assert found["type"] == "BOOKMARK"
    assert found["object"]["metadata"]["resourceVersion"] == "9"
    assert found["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert json.loads(documents.bookmark(9, ObjectForm.TABLE))["object"]["kind"] == "Table"
    assert b"annotations" not in documents.bookmark(9, ObjectForm.METADATA)


def test_refusals() -> None:
    refused = StatusError(504, "Timeout", "too new", retry_after=1, cause="C")
    found = json.loads(documents.error_line(refused))
    assert found["type"] == "ERROR"
    status = found["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 504, "Timeout")
    assert status["details"]["retryAfterSeconds"] == 1
    assert status["details"]["causes"] == [{"reason": "C", "message": "too new"}]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "0s"), (119.9, "119s"), (120, "2m"), (10799, "179m"), (10800, "3h"),
        (172_799, "47h"), (172_800, "2d"), (2 * 86400 * 365, "2y"),
    ],
)  # fmt: skip
def test_spans(seconds: float, expected: str) -> None:
    assert documents.human(seconds) == expected


def published() -> Any:
    """The schema of a list in the OpenAPI document, as JSON schema."""
    document = json.loads(schema.v3())
    (name,) = [one for one in document["components"]["schemas"] if one.endswith("NodeMetricList")]
    return document | {"$ref": f"#/components/schemas/{name}"}


PUBLISHED = Draft4Validator(published())


@given(st.integers(), st.lists(st.sampled_from(ODD_VALUES), min_size=1, max_size=2))
def test_whatever_report_is_taken_all_answers_stay_valid(seed: int, parts: list[Any]) -> None:
    sent = json.dumps(mutilated(WHOLE, random.Random(seed), parts)).replace("Infinity", "1e999")
    try:
        status = DECODER.normalized(sent.encode())
    except ValueError:
        return
    objects = kept("n1", status=status), kept("n2")
    page = MetricPage(objects, 40)
    whole = b"".join(documents.listed(page, NameSelector(), ObjectForm.OBJECT, full=True, now=NOW))
    PUBLISHED.validate(strictly(whole))
    for form in ObjectForm:
        for piece in (
            b"".join(documents.listed(page, NameSelector(), form, full=True, now=NOW)),
            documents.shown(objects[0], form, full=True, now=NOW),
            documents.line(
                MetricEvent(EventType.MODIFIED, 12, objects[0]), form, full=True, now=NOW
            ),
        ):
            assert isinstance(strictly(piece), dict)
            assert b"\n" not in piece[:-1]
