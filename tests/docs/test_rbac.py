"""deploy/ allows koordlet what it asks of the API server, each gate its own, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from koord_kube.answers import TaskSubmitter
from koord_kube.background_writer import BackgroundWriter
from koord_kube.core.events import EventSource
from koord_kube.event_recorder import EventRecorder
from koord_kube.pod_evictor import PodEvictor
from koord_kube.protocol.api import ApiError, ListPage, NotFoundError, Object, WatchEvent
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import DEVICES, NODE_TOPOLOGIES, Resource
from koord_kube.shared_backoff import SharedBackoff
from koordlet.metrics_reporter.documents.metric_policy import MetricCollectPolicy
from koordlet.metrics_reporter.documents.node_metric import NodeMetricStatus
from koordlet.metrics_reporter.publisher import ObjectPublisher
from koordlet.metrics_reporter.reporter import NodeMetricReporter
from koordlet.qos_manager.eviction.api_eviction import EvictionApiBackend
from koordlet.qos_manager.eviction.evictor import record_event
from koordlet.qos_manager.eviction.policy.events import PodEvent
from koordlet.states_informer.node_objects import NodeObjects

from tests.support.processes import PATIENCE
from tests.support.views import pod_view

DEPLOY = Path(__file__).parents[2] / "deploy"
FILE = DEPLOY / "base" / "rbac" / "koordlet.yaml"
NAME = "node-1"
_USAGE: Object = {"nodeUsage": {"resources": {}}, "systemUsage": {"resources": {}}}
Right = tuple[str, str, str]
"""API group, resource with its subresource, verb."""


@pytest.fixture(scope="module")
def documents() -> Mapping[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(FILE.read_text())}


def of_component(name: str) -> set[Right]:
    text = (DEPLOY / "components" / name / "rbac.yaml").read_text()
    return granted({one["kind"]: one for one in yaml.safe_load_all(text)})


def granted(documents: Mapping[str, Any]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in documents["ClusterRole"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class Noted:
    """An API server on which there is nothing yet but what is created; notes each request."""

    def __init__(self) -> None:
        self.asked: set[Right] = set()
        self._there: dict[Resource, Object] = {}

    def _note(self, resource: Resource, verb: str, subresource: str = "") -> None:
        name = "/".join(one for one in (resource.plural, subresource) if one)
        self.asked.add((resource.group, name, verb))

    async def get(self, resource: Resource, name: str, _: str = "") -> Object:
        self._note(resource, "get")
        if resource not in self._there:
            raise NotFoundError(f"{name} is not there")
        return self._there[resource]

    async def pages(self, resource: Resource, *_: str, **__: str) -> AsyncGenerator[ListPage, None]:
        self._note(resource, "list")
        yield ListPage([], "1", first=True)

    async def watch(
        self, resource: Resource, *_: str, listing: bool = False, **__: str
    ) -> AsyncGenerator[WatchEvent, None]:
        self._note(resource, "watch")
        if listing:
            raise ApiError("a server that does not list by watches", 422)
        nothing: tuple[WatchEvent, ...] = ()
        for one in nothing:
            yield one

    async def create(
        self, resource: Resource, given: Object, _: str = "", __: str = "", subresource: str = ""
    ) -> Object:
        self._note(resource, "create", subresource)
        self._there[resource] = given | {"metadata": {"resourceVersion": "1"}}
        return self._there[resource]

    async def write(self, request: Request) -> bytes:
        assert request.method == "POST"
        self._note(request.resource, "create", request.subresource)
        return b"{}"

    async def patch(self, resource: Resource, *_: Any, subresource: str = "", **__: str) -> Object:
        self._note(resource, "patch", subresource)
        return self._there.get(resource, {})


async def _watch(api: Any, tmp_path: Path) -> None:
    """Follow this node's objects until each kind was listed and watched."""
    state = NodeObjects(api, NAME, f"{tmp_path}/cluster.json", print)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        following = group.create_task(state.run())
        while sum(verb == "watch" for *_, verb in api.asked) < len(state.ages()):
            await asyncio.sleep(0.01)
        following.cancel()


async def _say(api: Any) -> None:
    """Tell of a pod."""
    writer = BackgroundWriter(TaskSubmitter(api.write).submit, SharedBackoff())
    event = PodEvent(pod_view().record.pod, "evictPodSuccess", "evicted")
    record_event(EventRecorder(writer, EventSource("koordlet", NAME)), event)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        telling = group.create_task(writer.run())
        while not writer.counts["written"]:
            await asyncio.sleep(0.01)
        telling.cancel()


async def _publish(api: Any, resource: Resource) -> None:
    publisher = ObjectPublisher(api, resource, NAME, lambda _: {"a": 1}, lambda *_: {"a": 2})
    await publisher.round()
    await publisher.round()


async def test_what_koordlet_asks_is_what_it_may(
    documents: Mapping[str, Any], tmp_path: Path
) -> None:
    api: Any = Noted()
    await _watch(api, tmp_path)
    await _publish(api, NODE_TOPOLOGIES)
    reporter = NodeMetricReporter(
        NAME, lambda _: NodeMetricStatus({"nodeMetric": _USAGE}), MetricCollectPolicy, api
    )
    await reporter.round()
    await _say(api)
    # The kubelet asks on koordlet's behalf whether it may see /pods and /configz.
    kubelet = {("", "nodes/pods", "get"), ("", "nodes/configz", "get")}
    assert api.asked | kubelet == granted(documents)


async def test_gates_that_are_off_by_default_have_rights_of_their_own() -> None:
    api: Any = Noted()
    await EvictionApiBackend(PodEvictor(api.write, SharedBackoff())).evict(
        pod_view().record, 30, forced=False
    )
    assert api.asked == of_component("evictions")
    api = Noted()
    await _publish(api, DEVICES)
    assert api.asked == of_component("devices")
    assert of_component("nodes-proxy") == {("", "nodes/proxy", "get")}


@pytest.mark.parametrize("name", ["evictions", "devices", "nodes-proxy"])
def test_rights_of_components_are_the_accounts(name: str) -> None:
    text = (DEPLOY / "components" / name / "rbac.yaml").read_text()
    role, binding = yaml.safe_load_all(text)
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == f"koordlet-{name}"
    assert [one["name"] for one in binding["subjects"]] == ["koordlet"]


def test_the_account_has_the_role(documents: Mapping[str, Any]) -> None:
    binding, account = documents["ClusterRoleBinding"], documents["ServiceAccount"]["metadata"]
    assert binding["roleRef"]["name"] == documents["ClusterRole"]["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account}]
    namespace = yaml.safe_load((DEPLOY / "base" / "namespace.yaml").read_text())
    assert namespace["metadata"]["name"] == account["namespace"]
