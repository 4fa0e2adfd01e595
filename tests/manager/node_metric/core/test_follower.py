from __future__ import annotations

import json
from typing import Any

import pytest
from koord_manager.node_metric.core.follower import Follower, page
from koord_manager.node_metric.core.store import NodeMetricStore
from koord_serving.aggregated.core.list_options import ObjectForm, StatusError, continuation, parse


def store() -> NodeMetricStore:
    kept = NodeMetricStore()
    kept.begin(7)
    for name in ("n1", "n2"):
        kept.put(name, b"{}", 0, 0)
    return kept


def follower(kept: NodeMetricStore, **query: str) -> Follower:
    options = parse({"watch": "1"} | query)
    return Follower(kept, options, ObjectForm.OBJECT, lambda: 0.0)


def reported(lines: Any) -> list[tuple[str, str]]:
    events = [json.loads(one) for one in lines]
    return [(one["type"], one["object"].get("metadata", {}).get("name", "")) for one in events]


BOTH = [("ADDED", "n1"), ("ADDED", "n2")]
SINCE = [("MODIFIED", "n1"), ("DELETED", "n2")]
NOT_OLDER = {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}


@pytest.mark.parametrize(
    ("query", "first", "then"),
    [
        # Without a version all that there is comes first.
        ({}, BOTH, SINCE),
        ({"resourceVersion": "0"}, BOTH, SINCE),
        ({"resourceVersion": ""}, BOTH, SINCE),
        ({"resourceVersion": "newest"}, [], SINCE),
        ({"fieldSelector": "metadata.name=n2"}, BOTH[1:], SINCE[1:]),
        ({"sendInitialEvents": "false"} | NOT_OLDER, [], SINCE),
        ({"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}, [], SINCE),
    ],
)
def test_what_is_sent_first_and_then(query: dict[str, str], first: Any, then: Any) -> None:
    kept = store()
    if query.get("resourceVersion") == "newest":
        query = {"resourceVersion": str(kept.version)}
    follows = follower(kept, **query)
    assert reported(follows.first()) == first
    assert reported(follows.next()) == []
    kept.put("n1", b"{}", 1, 1)
    kept.forget("n2")
    assert reported(follows.next()) == then
    assert reported(follows.next()) == []
    assert str(kept.version) in follows.bookmark().decode()


@pytest.mark.parametrize("version", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}])
def test_initial_events_end_with_a_bookmark(version: dict[str, str]) -> None:
    kept = store()
    query = {"sendInitialEvents": "true", "allowWatchBookmarks": "1"} | NOT_OLDER
    del query["resourceVersion"]
    query |= version
    lines = list(follower(kept, **query).first())
    assert reported(lines) == [("ADDED", "n1"), ("ADDED", "n2"), ("BOOKMARK", "")]
    last = json.loads(lines[-1])["object"]["metadata"]
    assert last["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert last["resourceVersion"] == str(kept.version)


FUTURE = str((7 << 20) + 3)


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ({"resourceVersion": "5"}, 410, "Expired"),
        ({"resourceVersion": FUTURE}, 504, "ResourceVersionTooLarge"),
        (
            {"sendInitialEvents": "true", "allowWatchBookmarks": "1"}
            | NOT_OLDER
            | {"resourceVersion": FUTURE},
            504,
            "ResourceVersionTooLarge",
        ),
    ],
)
def test_versions_that_cannot_be_followed_are_refused_at_once(
    query: dict[str, str], status: int, reason: str
) -> None:
    with pytest.raises(StatusError) as caught:
        follower(store(), **query)
    assert (caught.value.status, caught.value.cause or caught.value.reason) == (status, reason)


def test_who_falls_too_far_behind_hears_so_last() -> None:
    kept = store()
    follows = follower(kept, resourceVersion=str(kept.version))
    for number in range(600):
        kept.put(f"m{number}", b"{}", 0, 0)
        kept.forget(f"m{number}")
    (line,) = follows.next()
    assert json.loads(line)["object"]["code"] == 410
    assert follows.ended


def test_another_term_ends_it() -> None:
    kept = store()
    follows = follower(kept)
    assert follows.current
    kept.begin(9)
    assert not follows.current


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({}, 200),
        ({"resourceVersion": "0"}, 200),
        ({"resourceVersion": "5"}, 200),
        ({"resourceVersion": "5", "resourceVersionMatch": "Exact"}, 410),
        ({"resourceVersion": str((7 << 20) + 2), "resourceVersionMatch": "Exact"}, 200),
        ({"resourceVersion": str((7 << 20) + 3)}, 504),
    ],
)
def test_versions_of_lists(query: dict[str, str], status: int) -> None:
    kept = store()
    if status != 200:
        with pytest.raises(StatusError) as caught:
            page(kept, parse(query))
        assert caught.value.status == status
        return
    found = page(kept, parse(query))
    assert (len(found.objects), found.version) == (2, kept.version)


def test_a_page_of_a_list_from_before_a_fail_over_is_expired() -> None:
    kept = store()
    first = page(kept, parse({"limit": "1"}))
    assert first.after == "n1"
    query = {"limit": "1", "continue": continuation(first.version, first.after)}
    assert [one.name for one in page(kept, parse(query)).objects] == ["n2"]
    kept.begin(9)
    with pytest.raises(StatusError) as caught:
        page(kept, parse(query))
    assert caught.value.status == 410
