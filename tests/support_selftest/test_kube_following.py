"""Rules of lists and watches that our informers rely on, as the double and a real server have them.

Whoever gives another ``ask`` holds another server to them.
"""

from __future__ import annotations

from typing import Any

import pytest
from koord_kube.protocol.resources import NODES

from tests.support.kube_asking import Answer, Asking, Events
from tests.support.kube_list_options import NO_PROGRESS
from tests.support_selftest.kube_clients import node
from tests.support_selftest.notes import NOTES, note

__all__ = ["TestLists", "TestWatches"]

ALL = NOTES.path()
INITIAL = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


async def put_notes(ask: Asking, number: int) -> None:
    for index in range(number):
        await ask.put(NOTES, note(f"n{index}", metadata={"labels": {"zone": f"z{index % 2}"}}))


def names(answer: Answer) -> list[str]:
    return [one["metadata"]["name"] for one in answer.said["items"]]


async def version_of(ask: Asking) -> str:
    return str((await ask("GET", ALL)).said["metadata"]["resourceVersion"])


class TestLists:
    async def test_pages_are_of_one_moment(self, ask: Asking) -> None:
        await put_notes(ask, 5)
        page = await ask("GET", ALL, limit="2")
        first = page.said["metadata"]
        assert (names(page), first["remainingItemCount"]) == (["n0", "n1"], 3)
        await ask.delete(NOTES, "n2")
        await ask.put(NOTES, note("n5"))
        found, more = names(page), first["continue"]
        while more:
            page = await ask("GET", ALL, **{"limit": "2", "continue": more})
            found += names(page)
            meta = page.said["metadata"]
            assert meta["resourceVersion"] == first["resourceVersion"]
            more = meta.get("continue")
        assert found == ["n0", "n1", "n2", "n3", "n4"]
        assert names(await ask("GET", ALL)) == ["n0", "n1", "n3", "n4", "n5"]

    async def test_with_a_selector_nobody_knows_how_many_are_left(self, ask: Asking) -> None:
        await put_notes(ask, 5)
        page = await ask("GET", ALL, limit="2", labelSelector="zone=z0")
        assert names(page) == ["n0", "n2"]
        assert "continue" in page.said["metadata"]
        assert "remainingItemCount" not in page.said["metadata"]

    async def test_tokens_that_are_wrong(self, ask: Asking) -> None:
        await put_notes(ask, 3)
        query = {"limit": "2", "continue": "abc"}
        assert (await ask("GET", ALL, **query)).refusal == (400, "BadRequest")
        more = (await ask("GET", ALL, limit="2")).said["metadata"]["continue"]
        query = {"limit": "2", "continue": more, "resourceVersion": "1"}
        assert (await ask("GET", ALL, **query)).refusal == (400, "BadRequest")

    async def test_from_the_cache_all_come(self, ask: Asking) -> None:
        await put_notes(ask, 4)
        assert len(names(await ask("GET", ALL, limit="2", resourceVersion="0"))) <= 4

    async def test_of_a_time_to_come(self, ask: Asking) -> None:
        later = str(int(await version_of(ask)) + 1000)
        refused = await ask("GET", ALL, resourceVersion=later)
        assert refused.refusal == (504, "Timeout")
        assert refused.said["details"]["retryAfterSeconds"] == 1
        assert refused.causes == [""]
        assert refused.said["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"

    async def test_not_older_than_a_version(self, ask: Asking) -> None:
        await put_notes(ask, 2)
        version = await version_of(ask)
        await ask.put(NOTES, note("n2"))
        query = {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}
        found = await ask("GET", ALL, **query)
        assert {"n0", "n1"} <= set(names(found))
        assert int(found.said["metadata"]["resourceVersion"]) >= int(version)

    @pytest.mark.parametrize(
        ("query", "causes"),
        [
            ({"resourceVersionMatch": "NotOlderThan"}, ["resourceVersionMatch"]),
            ({"resourceVersionMatch": "Older", "resourceVersion": "1"}, ["resourceVersionMatch"]),
            ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, ["resourceVersionMatch"]),
            ({"sendInitialEvents": "true"}, ["sendInitialEvents"]),
        ],
    )
    async def test_options_that_do_not_fit(
        self, ask: Asking, query: dict[str, str], causes: list[str]
    ) -> None:
        refused = await ask("GET", ALL, **query)
        assert (refused.refusal, refused.causes) == ((422, "Invalid"), causes)

    async def test_kinds_of_items(self, ask: Asking) -> None:
        await ask.put(NOTES, note())
        await ask("POST", NODES.path(), node("n1"))
        found = await ask("GET", ALL)
        assert (found.said["kind"], found.said["items"][0]["kind"]) == ("NoteList", "Note")
        found = await ask("GET", NODES.path())
        assert found.said["kind"] == "NodeList"
        assert "kind" not in found.said["items"][0]

    @pytest.mark.parametrize(
        ("selector", "wanted"),
        [
            ("zone=z0", ["n0", "n2"]),
            ("zone==z0", ["n0", "n2"]),
            ("zone!=z0", ["n1", "n3"]),
            ("zone in (z0, z1)", ["n0", "n1", "n2"]),
            ("zone notin (z0),zone", ["n1"]),
            ("!zone", ["n3"]),
        ],
    )
    async def test_label_selectors(self, ask: Asking, selector: str, wanted: Any) -> None:
        await put_notes(ask, 3)
        await ask.put(NOTES, note("n3"))
        assert names(await ask("GET", ALL, labelSelector=selector)) == wanted

    async def test_field_selectors(self, ask: Asking) -> None:
        await put_notes(ask, 2)
        assert names(await ask("GET", ALL, fieldSelector="metadata.name=n1")) == ["n1"]
        assert names(await ask("GET", ALL, fieldSelector="metadata.name!=n1")) == ["n0"]
        refused = await ask("GET", ALL, fieldSelector="spec.x=1")
        assert refused.refusal == (400, "BadRequest")


async def told(events: Events, number: int) -> list[tuple[str, Any]]:
    """Types, and names or what an error is."""
    found = [await events.next() for _ in range(number)]
    return [(type_, one["metadata"].get("name") or one.get("reason")) for type_, one in found]


async def first_of(events: Events) -> tuple[str, Any]:
    """The first event of a watch that begins with a list, where the server can do that."""
    found = await events.next()
    if found[1].get("message") == str(NO_PROGRESS):
        pytest.skip("the etcd behind this server is older than 3.4.31")
    return found


class TestWatches:
    async def test_what_was_since(self, ask: Asking) -> None:
        version = (await ask.put(NOTES, note()))["metadata"]["resourceVersion"]
        await ask.put(NOTES, note(spec={"a": 2}))
        await ask.delete(NOTES, "n1")
        async with ask.watching(ALL, resourceVersion=version) as events:
            await ask.put(NOTES, note("n2"))
            assert await told(events, 3) == [
                ("MODIFIED", "n1"), ("DELETED", "n1"), ("ADDED", "n2"),
            ]  # fmt: skip

    async def test_what_is_deleted_has_the_version_of_its_end(self, ask: Asking) -> None:
        made = await ask.put(NOTES, note(spec={"a": 1}))
        version = made["metadata"]["resourceVersion"]
        async with ask.watching(ALL, resourceVersion=version) as events:
            await ask.delete(NOTES, "n1")
            type_, last = await events.next()
        assert (type_, last["spec"]) == ("DELETED", {"a": 1})
        assert int(last["metadata"]["resourceVersion"]) > int(version)

    async def test_without_a_version_all_are_added_first(self, ask: Asking) -> None:
        await put_notes(ask, 2)
        for query in ({}, {"resourceVersion": "0"}):
            async with ask.watching(ALL, **query) as events:
                await ask.put(NOTES, note("n0", spec={"again": str(query)}))
                seen = await told(events, 2)
                assert sorted(seen) == [("ADDED", "n0"), ("ADDED", "n1")]

    async def test_with_a_selector(self, ask: Asking) -> None:
        """What leaves it is deleted for the watch, as it was; what comes into it is added."""
        version = await version_of(ask)
        for labels in ({"z": "a"}, {"z": "b"}, {"z": "a", "more": "x"}, {"z": "a"}):
            await ask.put(NOTES, note(metadata={"labels": labels}))
        await ask.put(NOTES, note("other", metadata={"labels": {"z": "b"}}))
        await ask.delete(NOTES, "n1")
        seen = []
        async with ask.watching(ALL, resourceVersion=version, labelSelector="z=a") as events:
            for _ in range(5):
                type_, found = await events.next()
                seen.append((type_, found["metadata"]["labels"]["z"]))
        types = ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
        assert seen == [(type_, "a") for type_ in types]

    async def test_from_too_long_ago(self, ask: Asking) -> None:
        await put_notes(ask, 1)
        async with ask.watching(ALL, resourceVersion="1") as events:
            type_, found = await events.next()
            assert (type_, found["code"], found["reason"]) == ("ERROR", 410, "Expired")
            assert found["message"].startswith("too old resource version: 1 (")
            await events.end()

    async def test_it_ends_in_time(self, ask: Asking) -> None:
        version = await version_of(ask)
        async with ask.watching(ALL, resourceVersion=version, timeoutSeconds="1") as events:
            await events.end()

    async def test_bookmarks_before_the_end(self, ask: Asking) -> None:
        version = (await ask.put(NOTES, note()))["metadata"]["resourceVersion"]
        query = {"allowWatchBookmarks": "true", "timeoutSeconds": "4"}
        async with ask.watching(ALL, resourceVersion=version, **query) as events:
            await ask.put(NOTES, note(spec={"a": 1}))
            assert await told(events, 1) == [("MODIFIED", "n1")]
            type_, found = await events.next()
            assert (type_, found["kind"], found["apiVersion"]) == (
                "BOOKMARK", "Note", "example.org/v1",
            )  # fmt: skip
            assert found["metadata"].keys() == {"resourceVersion"}
            assert int(found["metadata"]["resourceVersion"]) > int(version)

    async def test_from_a_time_to_come(self, ask: Asking) -> None:
        """It waits, and says nothing of what comes until then."""
        later = str(int(await version_of(ask)) + 1000)
        async with ask.watching(ALL, resourceVersion=later, timeoutSeconds="1") as events:
            await ask.put(NOTES, note())
            await events.end()

    @pytest.mark.parametrize("version", ["", "0", "now"])
    async def test_that_begins_with_a_list(self, ask: Asking, version: str) -> None:
        await put_notes(ask, 2)
        now = await version_of(ask)
        query = INITIAL | (
            {"resourceVersion": now if version == "now" else version} if version else {}
        )
        async with ask.watching(ALL, **query) as events:
            seen = [await first_of(events), await events.next()]
            assert {(type_, one["metadata"]["name"]) for type_, one in seen} == {
                ("ADDED", "n0"), ("ADDED", "n1"),
            }  # fmt: skip
            type_, mark = await events.next()
            assert (type_, mark["metadata"]["annotations"]) == (
                "BOOKMARK", {"k8s.io/initial-events-end": "true"},
            )  # fmt: skip
            assert int(mark["metadata"]["resourceVersion"]) >= int(now)
            await ask.put(NOTES, note("n2"))
            assert await told(events, 1) == [("ADDED", "n2")]

    async def test_a_list_of_nothing_ends_at_once(self, ask: Asking) -> None:
        async with ask.watching(ALL, **INITIAL, labelSelector="zone=nowhere") as events:
            assert (await first_of(events))[0] == "BOOKMARK"

    async def test_a_list_of_a_time_to_come(self, ask: Asking) -> None:
        later = str(int(await version_of(ask)) + 1000)
        async with ask.watching(ALL, **INITIAL, resourceVersion=later) as events:
            type_, found = await first_of(events)
        assert (type_, found["code"], found["reason"]) == ("ERROR", 504, "Timeout")
        assert found["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"

    @pytest.mark.parametrize(
        ("query", "causes"),
        [
            ({"sendInitialEvents": "true"}, ["resourceVersionMatch"]),
            ({"resourceVersionMatch": "NotOlderThan"}, ["resourceVersionMatch"]),
            (
                {"resourceVersionMatch": "Exact", "sendInitialEvents": "true"},
                ["resourceVersionMatch"] * 2,
            ),
        ],
    )
    async def test_options_that_do_not_fit(
        self, ask: Asking, query: dict[str, str], causes: list[str]
    ) -> None:
        refused = await ask("GET", ALL, watch="1", resourceVersion="0", **query)
        assert (refused.refusal, refused.causes) == ((422, "Invalid"), causes)
