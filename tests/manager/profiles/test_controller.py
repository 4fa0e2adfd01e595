from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

import pytest
from koord_kube.protocol.api import Api, ApiError, ConflictError, ListPage, NotFoundError
from koord_kube.protocol.resources import PODS, Resource
from koord_manager.profiles.controller import ColocationProfileController, ProfilePace
from koord_manager.webhooks.cluster_view import ClusterView

from tests.support.merge_patch import merged
from tests.support.processes import PATIENCE

Object = dict[str, Any]
MANAGED = {"config.koordinator.sh/controller-managed": "true"}


class Pods:
    """A double of the API: pods that wait, merge patches, and refusals in their order.

    It holds the controller to its selector, and a patch to the UID of its pod.
    """

    def __init__(self, *pods: Object) -> None:
        self.pods = {pod["metadata"]["name"]: pod for pod in pods}
        self.patched: list[str] = []
        self.refusals: list[ApiError] = []
        self.listed = 0

    async def pages(
        self,
        resource: Resource,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
    ) -> AsyncGenerator[ListPage, None]:
        assert (resource, namespace, label_selector) == (PODS, "", "")
        assert field_selector == "spec.nodeName=,status.phase=Pending"
        self.listed += 1
        if self.refusals and self.refusals[0].status == 503:
            raise self.refusals.pop(0)
        for index, pod in enumerate(list(self.pods.values())):
            yield ListPage([json.dumps(pod).encode()], "1", first=index == 0)

    async def patch(
        self,
        resource: Resource,
        name: str,
        change: Mapping[str, Any],
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        assert (resource, namespace, subresource) == (PODS, "ns", "")
        self.patched.append(name)
        if self.refusals:
            raise self.refusals.pop(0)
        before = self.pods[name]
        if change["metadata"]["uid"] != before["metadata"]["uid"]:
            raise ConflictError("another pod", 409)
        self.pods[name] = merged(copy.deepcopy(before), change)
        return self.pods[name]


def pod(name: str = "a", **spec: object) -> Object:
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"u-{name}", "labels": {}},
        "spec": {"containers": [], **spec},
        "status": {"phase": "Pending"},
    }


def view(version: str = "1", **spec: object) -> ClusterView:
    metadata = {"labels": MANAGED, "resourceVersion": version}
    document = {"metadata": metadata, "spec": {"selector": {}, "labels": {"l": "1"}, **spec}}
    return ClusterView(profiles={"p": document}, namespaces={"ns": {}})


class Running:
    """A controller with its clock, its view and what it reported."""

    def __init__(self, pods: Pods, view: ClusterView, **options: Any) -> None:
        self.view, self.now, self.reported = view, 0.0, list[str]()
        more = {"on_warning": self.reported.append, "monotonic": lambda: self.now} | options
        self.controller = ColocationProfileController(cast("Api", pods), lambda: self.view, **more)


async def test_waiting_pods_get_what_the_profile_says_once() -> None:
    pods = Pods(pod("a"), pod("b"), pod("bound", nodeName="n"))
    running = Running(pods, view())
    await running.controller.look()
    await running.controller.look()
    assert pods.patched == ["a", "b"]
    assert pods.pods["a"]["metadata"]["labels"] == {"l": "1"}
    assert running.controller.updated == 2
    assert running.reported == []


@pytest.mark.parametrize("by_default", [True, False])
async def test_only_profiles_labelled_so_unless_all_are(by_default: bool) -> None:
    pods = Pods(pod())
    cluster = view()
    del cluster.profiles["p"]["metadata"]["labels"]
    await Running(pods, cluster, by_default=by_default).controller.look()
    assert bool(pods.patched) is by_default
    assert bool(pods.listed) is by_default


@pytest.mark.parametrize(
    ("forget", "looks"),
    [
        # Until it is time again, or the profile is another one; each is a time, its version, and
        # how many patches there are then.
        (600, [(0, "1", 1), (299, "1", 1), (300, "1", 2), (300, "2", 3)]),
        # Or what was written is forgotten.
        (60, [(0, "1", 1), (59, "1", 1), (61, "1", 2)]),
    ],
)
async def test_whoever_undoes_it_is_not_fought_with(
    forget: float, looks: list[tuple[float, str, int]]
) -> None:
    pods = Pods(pod())
    running = Running(pods, view(), pace=ProfilePace(again=300, forget=forget))
    for now, version, patched in looks:
        running.now, running.view = now, view(version)
        await running.controller.look()
        assert len(pods.patched) == patched, now
        pods.pods["a"]["metadata"]["labels"] = {}


async def test_no_more_pods_at_once_than_there_are_turns() -> None:
    pods = Pods(*(pod(name) for name in "abcde"))
    running = Running(pods, view(), pace=ProfilePace(qps=1, burst=2))
    await running.controller.look()
    assert (pods.patched, running.controller.postponed) == (["a", "b"], 3)
    running.now = 1
    await running.controller.look()
    assert (pods.patched, running.controller.postponed) == (["a", "b", "c"], 2)


@pytest.mark.parametrize(
    ("error", "reported", "again"),
    [
        (NotFoundError("gone", 404), 0, False),
        (ConflictError("changed", 409), 0, False),
        (ApiError("refused by a webhook", 403), 1, False),
        (ApiError("too many", 429), 1, True),
        (ApiError("no answer", 0), 1, True),
    ],
)
async def test_what_is_refused_is_tried_again_only_where_it_may_help(
    error: ApiError, reported: int, again: bool
) -> None:
    pods = Pods(pod())
    pods.refusals = [error]
    running = Running(pods, view())
    await running.controller.look()
    assert len(running.reported) == reported
    await running.controller.look()
    assert (len(pods.patched) == 2) is again
    assert running.controller.updated == again


async def test_another_pod_of_that_name_is_left_alone() -> None:
    pods = Pods(pod())
    running = Running(pods, view())
    listed = pods.pods["a"]
    pods.pods = {"a": {**listed, "metadata": {**listed["metadata"], "uid": "new"}}}

    async def stale(*_: object, **__: object) -> AsyncGenerator[ListPage, None]:
        yield ListPage([json.dumps(listed).encode()], "1", first=True)

    pods.pages = stale  # type: ignore[method-assign,assignment]
    await running.controller.look()
    assert pods.pods["a"]["metadata"]["labels"] == {}
    assert running.controller.updated == 0


async def test_each_line_is_reported_once() -> None:
    running = Running(Pods(pod()), view(qosClass="be", patch={"spec": {"priority": 1}}))
    await running.controller.look()
    await running.controller.look()
    assert len(running.reported) == 2


async def test_it_runs_on_when_pods_cannot_be_listed() -> None:
    pods = Pods(pod())
    pods.refusals = [ApiError("not now", 503), ApiError("not now", 503)]
    running = Running(pods, view(), pace=ProfilePace(interval=0))
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        task = group.create_task(running.controller.run())
        while not running.controller.updated:
            await asyncio.sleep(0)
        task.cancel()
    assert running.reported == ["colocationprofile: not now; tried again"]
