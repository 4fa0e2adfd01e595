"""An informer, a client and a double of the API server, through what befalls them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.core.reflector import ReflectorTiming
from koord_kube.credentials import TokenFile
from koord_kube.informer import Informer
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import LEASES, NODE_SLOS, NODES, Resource

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE
from tests.support.waiting import until

PACE = ReflectorTiming(first=0.004, cap=0.02)


def node(name: str = "n1", color: object = "red") -> Object:
    return {"metadata": {"name": name, "labels": {"color": color}}}


def color(raw: bytes) -> str:
    found = json.loads(raw)["metadata"].get("labels", {}).get("color")
    if not isinstance(found, str):
        raise TypeError(f"color is {found!r}; expected a string")
    return found


class Follower:
    """A running informer, its changes and its warnings."""

    def __init__(self, client: Client, resource: Resource = NODES, **more: Any) -> None:
        self.changes: list[tuple[str, str | None, str | None]] = []
        self.warnings: list[str] = []
        self.informer = Informer(
            client,
            resource,
            decode=color,
            on_change=self._changed,
            on_warning=self.warnings.append,
            **({"timing": PACE} | more),
        )

    def _changed(self, key: str, before: str | None, after: str | None) -> None:
        assert self.informer.objects.get(key) == after
        self.changes.append((key, before, after))

    async def sees(self, **objects: str) -> None:
        await until(lambda: dict(self.informer.objects) == objects)

    async def is_watching(self, api: KubeApi, watches: int) -> None:
        """Until so many watches were asked for in all, the last is open, and all is known."""
        await until(lambda: api.count("watch") >= watches and api.open_watches() == 1)
        await until(lambda: self.informer.synced)


def listings(api: KubeApi) -> int:
    """How often all was asked for, and answered."""
    streams = sum("sendInitialEvents" in one.query for one in api.asked)
    can = api.streams_lists and api.knows_progress
    return api.count("list") + (streams if can else 0)


class Following:
    """Makes followers, and ends them."""

    def __init__(self, group: asyncio.TaskGroup, client: Client, api: KubeApi) -> None:
        self._group, self.client, self._api = group, client, api
        self._tasks: list[asyncio.Task[None]] = []

    def __call__(self, client: Client | None = None, **more: Any) -> Follower:
        follower = Follower(client or self.client, **more)
        self._tasks.append(self._group.create_task(follower.informer.run()))
        return follower

    async def watching(self, client: Client | None = None, **more: Any) -> Follower:
        """One that has listed, and whose watch is open."""
        follower = self(client, **more)
        await follower.is_watching(self._api, 1)
        return follower

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()


@pytest.fixture(params=["by a watch", "in pages", "of an old etcd"])
def lists(request: pytest.FixtureRequest, api: KubeApi) -> str:
    """How the server lists."""
    api.streams_lists = request.param != "in pages"
    api.knows_progress = request.param != "of an old etcd"
    return str(request.param)


@pytest.fixture
async def follow(api: KubeApi, client: Client) -> AsyncIterator[Following]:
    async with asyncio.TaskGroup() as group:
        following = Following(group, client, api)
        yield following
        following.end()


class TestObjects:
    async def test_it_follows(self, api: KubeApi, follow: Following, lists: str) -> None:
        api.put(NODES, node())
        one = follow()
        await one.sees(n1="red")
        await one.is_watching(api, 1)
        api.put(NODES, node("n2"))
        await one.sees(n1="red", n2="red")
        api.put(NODES, node("n1", "blue"))
        await one.sees(n1="blue", n2="red")
        api.delete(NODES, "n1")
        await one.sees(n2="red")
        assert one.changes == [
            ("n1", None, "red"), ("n2", None, "red"), ("n1", "red", "blue"), ("n1", "blue", None),
        ]  # fmt: skip
        assert (one.informer.problem, one.warnings) == ("", [])
        assert (listings(api), api.count("list")) == (1, 0 if lists == "by a watch" else 1)

    async def test_one_name(self, api: KubeApi, follow: Following) -> None:
        one = await follow.watching(name="n2")
        for name in ("n1", "n2", "n3"):
            api.put(NODES, node(name))
        await one.sees(n2="red")
        assert one.changes == [("n2", None, "red")]

    async def test_namespaces(self, api: KubeApi, follow: Following) -> None:
        one, all_ = follow(resource=LEASES, namespace="a"), follow(resource=LEASES)
        for namespace in ("a", "b"):
            api.put(LEASES, node("l"), namespace)
        await until(lambda: set(one.informer.objects) == {"a/l"})
        await until(lambda: set(all_.informer.objects) == {"a/l", "b/l"})

    @pytest.mark.usefixtures("lists")
    async def test_many(self, api: KubeApi, follow: Following) -> None:
        for number in range(1200):
            api.put(NODES, node(f"n{number}"))
        one = follow()
        async with asyncio.timeout(PATIENCE):
            await one.informer.wait_synced()
        assert len(one.informer.objects) == len(one.changes) == 1200
        assert listings(api) == 1
        # Nothing of this has to come from etcd.
        versions = {each.query.get("resourceVersion") for each in api.asked if each.verb == "list"}
        assert versions <= {"0"}

    async def test_only_what_is_labelled_so(self, api: KubeApi, follow: Following) -> None:
        for name, shade in (("n1", "red"), ("n2", "blue")):
            api.put(NODES, node(name, shade))
        one = await follow.watching(label_selector="color in (red, green)")
        api.put(NODES, node("n3", "blue"))
        api.put(NODES, node("n2", "green"))
        api.put(NODES, node("n1", "blue"))
        await one.sees(n2="green")
        assert one.changes == [("n1", None, "red"), ("n2", None, "green"), ("n1", "red", None)]

    async def test_what_decodes_to_the_same_is_no_change(
        self, api: KubeApi, follow: Following
    ) -> None:
        api.put(NODES, node())
        one = await follow.watching()
        api.put(NODES, node() | {"spec": {"unschedulable": True}})
        api.put(NODES, node("n2"))
        await one.sees(n1="red", n2="red")
        assert [key for key, *_ in one.changes] == ["n1", "n2"]

    async def test_the_view_is_live_and_only_to_be_read(
        self, api: KubeApi, follow: Following
    ) -> None:
        one = follow()
        before = one.informer.objects
        api.put(NODES, node())
        await one.sees(n1="red")
        assert dict(before) == {"n1": "red"}
        with pytest.raises(TypeError):
            before["n1"] = "blue"  # type: ignore[index]

    @pytest.mark.usefixtures("lists")
    async def test_a_list_after_changes_and_deletions(
        self, api: KubeApi, follow: Following
    ) -> None:
        for name in ("n1", "n2", "n3"):
            api.put(NODES, node(name))
        one = await follow.watching()
        one.changes.clear()
        await api.stop()
        api.delete(NODES, "n1")
        api.put(NODES, node("n2", "blue"))
        api.put(NODES, node("n4"))
        api.compact()
        await api.start()
        await one.sees(n2="blue", n3="red", n4="red")
        assert sorted(one.changes, key=lambda change: change[0]) == [
            ("n1", "red", None), ("n2", "red", "blue"), ("n4", None, "red"),
        ]  # fmt: skip

    @pytest.mark.usefixtures("lists")
    async def test_what_is_recalled_holds_until_the_first_list(
        self, api: KubeApi, client: Client, follow: Following
    ) -> None:
        for name in ("n1", "n2"):
            api.put(NODES, node(name))
        one = follow()
        one.informer.recall({"n1": "red", "n2": "blue", "n3": "red"})
        assert (len(one.informer.objects), one.informer.synced) == (3, False)
        await one.sees(n1="red", n2="red")
        assert one.changes == [("n2", "blue", "red"), ("n3", "red", None)]

    async def test_age(self, api: KubeApi, follow: Following) -> None:
        clock = iter(float(second) for second in range(10, 10_000))
        one = follow(monotonic=lambda: next(clock))
        assert one.informer.age(1e9) == float("inf")
        await one.is_watching(api, 1)
        before = one.informer.synced_at
        assert one.informer.age(before + 5) == 5
        api.bookmark()
        await until(lambda: one.informer.synced_at > before)


class TestDecoding:
    async def test_the_last_good_version_stays(self, api: KubeApi, follow: Following) -> None:
        for name in ("n1", "n2"):
            api.put(NODES, node(name))
        one = await follow.watching()
        for wrong in (1, 1, 2):
            api.put(NODES, node("n1", wrong) | {"spec": {"at": len(api.asked)}})
        api.put(NODES, node("n2", "blue"))
        await one.sees(n1="red", n2="blue")
        assert one.warnings == [
            f"nodes n1: color is {wrong}; expected a string (its last good version stays)"
            for wrong in (1, 2)
        ]
        assert one.informer.problem == one.warnings[-1]
        assert one.informer.is_followed  # others of its kind are as they should be
        api.expire_watches()
        await one.is_watching(api, 2)
        assert dict(one.informer.objects) == {"n1": "red", "n2": "blue"}
        assert len(one.warnings) == 2
        api.put(NODES, node("n1", "green"))
        await one.sees(n1="green", n2="blue")
        assert one.informer.problem == ""

    @pytest.mark.usefixtures("lists")
    @pytest.mark.parametrize("watched", [True, False])
    async def test_what_is_gone_is_no_problem(
        self, api: KubeApi, follow: Following, watched: bool
    ) -> None:
        api.put(NODES, node("n1", 1))
        one = await follow.watching()
        assert (dict(one.informer.objects), len(one.warnings)) == ({}, 1)
        if watched:
            api.delete(NODES, "n1")
        else:
            await api.stop()
            api.delete(NODES, "n1")
            api.compact()
            await api.start()
        await until(lambda: one.informer.problem == "")


class TestSource:
    @pytest.mark.usefixtures("lists")
    async def test_what_is_known_is_never_older_after_a_list(
        self, api: KubeApi, follow: Following
    ) -> None:
        """The list after a 410 is of the state that was known, or a later one."""
        api.put(NODES, node())
        one = follow()
        await one.sees(n1="red")
        last = api.put(NODES, node(color="blue"))["metadata"]["resourceVersion"]
        await one.sees(n1="blue")
        before = listings(api)
        api.expire_watches()
        await until(lambda: listings(api) > before and api.open_watches() == 1)
        asked = [each.query for each in api.asked if each.query.get("resourceVersionMatch")]
        assert asked[-1]["resourceVersion"] == last
        assert "limit" not in asked[-1]
        assert one.warnings == []

    async def test_an_incomplete_list_is_ignored(self, api: KubeApi, follow: Following) -> None:
        """Objects missing from it are not taken for gone, and no watch starts from there."""
        for name in ("n1", "n2"):
            api.put(NODES, node(name))
        one = follow()
        one.informer.recall({"n3": "red"})
        api.breaks_lists = 3
        await until(lambda: api.count("watch") >= 4)
        await one.sees(n1="red", n2="red")
        assert [each.query.get("resourceVersion") for each in api.asked] == [None] * 4
        gone = [change for change in one.changes if change[2] is None]
        assert gone == [("n3", "red", None)]
        assert one.changes[-1] == gone[0]

    async def test_a_server_that_passes_over_what_it_does_not_know(
        self, api: KubeApi, follow: Following
    ) -> None:
        api.put(NODES, node())
        api.marks_lists = False
        async with Client(Cluster(api.url), Limits(answer=0.2)) as client:
            one = follow(client)
            await until(lambda: one.informer.synced)
            assert api.count("list") == 1
            follow.end()

    async def test_too_many_requests(self, api: KubeApi, follow: Following) -> None:
        api.put(NODES, node())
        api.fail(status=429, times=2)
        one = follow()
        assert not one.informer.synced
        async with asyncio.timeout(PATIENCE):
            await one.informer.wait_synced()
        assert dict(one.informer.objects) == {"n1": "red"}
        assert listings(api) == 3
        assert one.warnings == ["nodes: 429 this is a test"]

    async def test_retry_after_is_respected(
        self, api: KubeApi, follow: Following, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waits: list[float] = []
        sleep = anyio.sleep

        async def noted(seconds: float) -> None:
            waits.append(seconds)
            await sleep(min(seconds, 0.01))

        monkeypatch.setattr(anyio, "sleep", noted)
        api.put(NODES, node())
        api.fail(status=429, retry_after=7)
        await follow().sees(n1="red")
        assert [one for one in waits if one >= 7] != []

    async def test_a_token_that_was_replaced(
        self, api: KubeApi, follow: Following, tmp_path: Path
    ) -> None:
        (tmp_path / "token").write_text("old")
        api.tokens = frozenset({"old"})
        token = TokenFile(tmp_path / "token")
        async with Client(Cluster(api.url, token)) as client:
            one = await follow.watching(client)
            api.tokens = frozenset({"new"})
            api.end_watches()
            # Refused until the kubelet has written the new one.
            await until(lambda: "401" in one.informer.problem)
            (tmp_path / "token").write_text("new")
            await until(lambda: api.open_watches() == 1)
            api.put(NODES, node())
            await one.sees(n1="red")
            assert (one.informer.problem, len(one.warnings)) == ("", 1)
            follow.end()

    async def test_a_watch_that_is_cut_goes_on_where_it_was(
        self, api: KubeApi, follow: Following
    ) -> None:
        one = await follow.watching()
        last = api.put(NODES, node())
        await one.sees(n1="red")
        api.cut_watches()
        await one.is_watching(api, 2)
        api.put(NODES, node(color="blue"))
        await one.sees(n1="blue")
        assert listings(api) == 1
        asked = [each.query.get("resourceVersion") for each in api.asked if each.verb == "watch"]
        assert asked[1:] == [last["metadata"]["resourceVersion"]]
        assert (one.informer.problem, one.warnings) == ("", [])

    async def test_bookmarks_save_a_list(self, api: KubeApi, follow: Following) -> None:
        one = await follow.watching(name="n1")
        api.put(NODES, node("n2"))
        api.compact()
        api.bookmark()
        before = one.informer.synced_at
        await until(lambda: one.informer.synced_at > before)
        api.end_watches()
        await one.is_watching(api, 2)
        api.put(NODES, node("n1"))
        await one.sees(n1="red")
        assert listings(api) == 1

    async def test_who_has_to_know_all_does_not_wait_for_a_late_watch(
        self, api: KubeApi, follow: Following, lists: str
    ) -> None:
        for name in ("n1", "n2"):
            api.put(NODES, node(name))
        one = await follow.watching()
        api.silence_watches()
        api.put(NODES, node("n1", "blue"))
        api.delete(NODES, "n2")
        assert one.informer.objects == {"n1": "red", "n2": "red"}
        async with asyncio.timeout(PATIENCE):
            await one.informer.catch_up(0.0)
        assert one.informer.objects == {"n1": "blue"}
        await one.is_watching(api, 2)
        api.put(NODES, node("n3"))
        await one.sees(n1="blue", n3="red")

    async def test_a_watch_that_is_not_late_saves_a_list(
        self, api: KubeApi, follow: Following
    ) -> None:
        one = await follow.watching()
        asked = listings(api)
        api.put(NODES, node())
        await one.informer.catch_up(PATIENCE)
        assert one.informer.objects == {"n1": "red"}
        assert [each.query.get("limit") for each in api.asked if each.verb == "list"] == ["1"]
        assert listings(api) == asked + 1  # for the version alone

    async def test_of_a_kind_that_is_not_there_all_is_known(
        self, api: KubeApi, follow: Following
    ) -> None:
        api.installed.discard(NODE_SLOS)
        one = follow(resource=NODE_SLOS, optional=True)
        await one.informer.wait_known()
        api.fail(verb="list", status=503)
        async with asyncio.timeout(PATIENCE):
            await one.informer.catch_up(PATIENCE)

    async def test_a_slow_server(self, api: KubeApi, follow: Following) -> None:
        api.put(NODES, node())
        api.fail(times=2, slow=0.2, verb="watch")
        async with Client(Cluster(api.url), Limits(listing=0.05)) as client:
            one = follow(client)
            await until(lambda: "no answer in time" in one.informer.problem)
            assert not one.informer.is_followed
            await one.sees(n1="red")
            await until(lambda: one.informer.problem == "")
            follow.end()

    @pytest.mark.parametrize("verb", ["watch", "list"])
    async def test_a_list_may_take_longer_than_other_answers(
        self, api: KubeApi, follow: Following, verb: str
    ) -> None:
        """Who gives up begins anew, and is the slower the busier everybody is."""
        api.put(NODES, node())
        api.streams_lists = verb == "watch"
        api.fail(slow=1.0, verb=verb)
        async with Client(Cluster(api.url), Limits(answer=0.5)) as client:
            one = follow(client)
            await one.sees(n1="red")
            assert one.warnings == []
            follow.end()

    @pytest.mark.usefixtures("lists")
    async def test_a_server_restored_from_a_backup(self, api: KubeApi, follow: Following) -> None:
        """It takes the old version and says nothing; but it was away for long, so one lists."""
        one = await follow.watching()
        await api.stop()
        await until(lambda: one.informer._reflector.failures >= 5)
        api._version = api._compacted = 500
        api.put(NODES, node())
        await api.start()
        await one.sees(n1="red")

    @pytest.mark.parametrize("optional", [False, True])
    async def test_a_kind_that_is_installed_later(
        self, api: KubeApi, follow: Following, optional: bool
    ) -> None:
        api.installed.discard(NODE_SLOS)
        one = follow(resource=NODE_SLOS, name="n1", optional=optional)
        await api.wait_for("watch", 4)
        await asyncio.wait_for(one.informer.wait_known(), PATIENCE)
        assert (one.informer.absent, one.informer.synced) == (True, False)
        problem = (
            "nodeslos metadata.name=n1: 404 no such kind in slo.koordinator.sh/v1alpha1; "
            "is its CRD installed? (koordctl crds install)"
        )
        assert one.informer.problem == ("" if optional else problem)
        assert one.warnings == ([] if optional else [problem])
        api.installed.add(NODE_SLOS)
        api.put(NODE_SLOS, node())
        await one.sees(n1="red")
        assert (one.informer.problem, one.informer.absent) == ("", False)
        api.fail(status=500, times=10**6)
        api.cut_watches()
        await until(lambda: one.informer.problem != "")
        assert len(one.warnings) == (1 if optional else 2)

    async def test_it_lists_again_after_half_a_day(self, api: KubeApi, follow: Following) -> None:
        now = 0.0
        one = await follow.watching(
            monotonic=lambda: now, timing=ReflectorTiming(first=0.001, cap=0.001)
        )
        now = 10 * 3600.0
        api.end_watches()
        await one.is_watching(api, 2)
        assert listings(api) == 1
        now = 14 * 3600.0
        api.end_watches()
        await one.is_watching(api, 3)
        assert listings(api) == 2

    async def test_problem_that_comes_back_is_said_again(
        self, api: KubeApi, follow: Following
    ) -> None:
        one = follow()
        for times in (1, 2):
            await one.is_watching(api, 1)
            api.put(NODES, node(color=f"red{times}"))
            await one.sees(n1=f"red{times}")
            await api.stop()
            await until(lambda: "refused" in one.informer.problem)
            assert dict(one.informer.objects) == {"n1": f"red{times}"}
            await api.start()
            await until(lambda: one.informer.problem == "")
            assert len(one.warnings) == times
