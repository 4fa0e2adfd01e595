from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_serving.aggregated.core.list_options import (
    ListOptions,
    NameSelector,
    ObjectForm,
    ResourceVersionMatch,
    StatusError,
    continuation,
    form,
    parse,
)

KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ListOptions()),
        ({"limit": "500", "resourceVersion": "0"}, ListOptions(limit=500, version=0)),
        ({"watch": ""}, ListOptions(watch=True)),
        ({"watch": "1", "allowWatchBookmarks": "t"}, ListOptions(watch=True, bookmarks=True)),
        ({"watch": "false", "timeoutSeconds": "30"}, ListOptions(timeout=30)),
        ({"continue": continuation(9, "n1")}, ListOptions(version=9, after="n1")),
        (
            {"continue": continuation(9, "n1"), "resourceVersion": "0"},
            ListOptions(version=9, after="n1"),
        ),
        (
            {"resourceVersion": "18446744073709551615", "resourceVersionMatch": "Exact"},
            ListOptions(version=2**64 - 1, match=ResourceVersionMatch.EXACT),
        ),
        (
            {
                "watch": "true",
                "sendInitialEvents": "true",
                "allowWatchBookmarks": "true",
                "resourceVersionMatch": "NotOlderThan",
                "resourceVersion": "",
            },
            None,
        ),
        ({"includeObject": "Object"}, ListOptions(whole_in_rows=True)),
    ],
)
def test_what_is_asked_for(query: dict[str, str], expected: ListOptions | None) -> None:
    if expected is None:
        found = parse(query | {"resourceVersion": "0"})
        assert (found.initial, found.bookmarks, found.version) == (True, True, 0)
    else:
        assert parse(query) == expected


@pytest.mark.parametrize("version", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}])
def test_the_first_watch_of_client_go(version: dict[str, str]) -> None:
    """Its list by a watch, which names no version."""
    query = {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
    }
    options = parse(query | version)
    assert (options.watch, options.initial, options.bookmarks) == (True, True, True)
    assert options.version == (0 if version.get("resourceVersion") else -1)


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"limit": "-1"}, 400, "limit: Invalid value"),
        ({"limit": "١"}, 400, "limit: Invalid value"),
        ({"resourceVersion": "x" * 999}, 400, "resourceVersion: Invalid value"),
        ({"watch": "yes"}, 400, "watch: Invalid value"),
        ({"continue": "%%"}, 400, "continue key is not valid"),
        ({"continue": continuation(0, "n1")}, 400, "continue key is not valid"),
        ({"continue": continuation(3, "n"), "resourceVersion": "3"}, 400, "not allowed"),
        ({"resourceVersionMatch": "Exact"}, 422, "forbidden unless resourceVersion"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, 'resourceVersion "0"'),
        ({"resourceVersionMatch": "Newest", "resourceVersion": "0"}, 422, "not supported"),
        ({"sendInitialEvents": "true"}, 422, "forbidden for list"),
        ({"sendInitialEvents": "true", "watch": "1"}, 422, "requires setting resourceVersionMatch"),
        (
            {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
            422,
            "requires setting resourceVersionMatch",
        ),
        (
            {"watch": "1", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
            422,
            "for watch",
        ),
        ({"fieldSelector": "status.x=1"}, 400, "there is metadata.name"),
        ({"labelSelector": "a in b"}, 400, "unable to parse requirement"),
        ({"labelSelector": "!a=b"}, 400, "unable to parse requirement"),
        ({"labelSelector": "a," * 4096}, 400, "longer than"),
    ],
)
def test_what_cannot_be_is_refused(query: dict[str, str], status: int, message: str) -> None:
    with pytest.raises(StatusError, match=message) as caught:
        parse(query)
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("fields", "labels", "expected"),
    [
        ("", "", {"n1", "n2", "n3"}),
        ("metadata.name=n1", "", {"n1"}),
        ("metadata.name==n1", "", {"n1"}),
        ("metadata.name!=n1", "", {"n2", "n3"}),
        ("metadata.name!=n1,metadata.name!=n2", "", {"n3"}),
        ("metadata.name=n1,metadata.name=n2", "", set()),
        ("", "a=b", set()),
        ("", "a", set()),
        ("", "a in (b,c), !d", set()),
        ("", "!a", {"n1", "n2", "n3"}),
        ("", "a!=b", {"n1", "n2", "n3"}),
        ("", "a notin (b, c),x.y/z!=", {"n1", "n2", "n3"}),
        ("metadata.name=n2", "a notin (b)", {"n2"}),
    ],
)
def test_selectors(fields: str, labels: str, expected: set[str]) -> None:
    names = parse({"fieldSelector": fields, "labelSelector": labels}).names
    assert {name for name in ("n1", "n2", "n3") if names.include(name)} == expected
    assert names.all is (names == NameSelector())


@given(st.dictionaries(st.sampled_from(["fieldSelector", "labelSelector", "continue"]), st.text()))
def test_any_text_is_understood_or_refused(query: dict[str, str]) -> None:
    try:
        found = parse(query).limit
    except StatusError as refused:
        found = refused.status
    assert found in (0, 400, 422)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", ObjectForm.OBJECT),
        ("*/*", ObjectForm.OBJECT),
        ("application/json", ObjectForm.OBJECT),
        (KUBECTL, ObjectForm.TABLE),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", ObjectForm.OBJECT),
        ("application/vnd.kubernetes.protobuf, application/json", ObjectForm.OBJECT),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", ObjectForm.METADATA),
    ],
)
def test_forms(accept: str, expected: ObjectForm) -> None:
    assert form(accept) is expected


def test_who_takes_no_json_gets_what_there_is() -> None:
    with pytest.raises(StatusError, match="application/json;as=Table") as caught:
        form("application/vnd.kubernetes.protobuf")
    assert caught.value.status == 406
