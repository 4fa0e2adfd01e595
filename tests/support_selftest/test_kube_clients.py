"""The asyncio client of Kubernetes finds the double of the API server as it finds a real one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_kube.protocol.resources import NODES, PODS, PRIORITY_CLASSES
from kubernetes.aio import client

from tests.support.kube_api import KubeApi
from tests.support_selftest.kube_clients import ApiException, node, pod

Core = client.CoreV1Api
Custom = client.CustomObjectsApi
METRIC = ("slo.koordinator.sh", "v1alpha1", "nodemetrics")


def metric(name: str = "n1", **more: Any) -> Any:
    group = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric"}
    return {**group, "metadata": {"name": name}, **more}


async def status_of(call: Any) -> int:
    with pytest.raises(ApiException) as raised:
        await call
    return int(raised.value.status)


def names(found: Any) -> list[str]:
    return [one.metadata.name for one in found.items]


def put_nodes(api: KubeApi, number: int) -> None:
    for index in range(number):
        api.put(NODES, node(f"n{index:02}", zone=f"z{index % 2}"))


class TestPages:
    async def test_a_token_expires_and_another_goes_on(self, api: KubeApi, core: Core) -> None:
        put_nodes(api, 4)
        page = await core.list_node(limit=2)
        api.compact()
        with pytest.raises(ApiException) as raised:
            await core.list_node(limit=2, _continue=page.metadata._continue)
        assert raised.value.status == 410
        token = said(raised.value)["metadata"]["continue"]
        api.delete(NODES, "n02")
        assert names(await core.list_node(limit=2, _continue=token)) == ["n03"]


def said(raised: ApiException) -> Any:
    return json.loads(raised.body)


async def test_field_selectors(api: KubeApi, core: Core) -> None:
    for name, where in (("a", "n1"), ("b", "n2"), ("c", "")):
        api.put(PODS, pod(name, spec={"nodeName": where} if where else {}), "ns")

    async def found(selector: str) -> list[str]:
        return names(await core.list_pod_for_all_namespaces(field_selector=selector))

    assert await found("spec.nodeName=n1") == ["a"]
    assert await found("spec.nodeName!=n1,spec.nodeName!=") == ["b"]
    assert await found("metadata.namespace=ns,metadata.name=c") == ["c"]
    assert await status_of(core.list_node(field_selector="spec.nodeName=n1")) == 400


class TestPods:
    async def test_requests_come_from_limits(self, core: Core) -> None:
        limits = {"limits": {"cpu": "1"}}
        body = pod(spec={"containers": [{"name": "c", "image": "i", "resources": limits}]})
        made = await core.create_namespaced_pod("ns", body)
        assert made.spec.containers[0].resources.requests == {"cpu": "1"}

    async def test_the_priority_is_of_its_class(self, api: KubeApi, core: Core) -> None:
        api.put(PRIORITY_CLASSES, {"metadata": {"name": "koord-batch"}, "value": 5000})
        named = {"priorityClassName": "koord-batch"}
        made = await core.create_namespaced_pod("ns", pod(spec=named))
        assert made.spec.priority == 5000
        for wrong in ({**named, "priority": 5001}, {"priorityClassName": "none"}):
            call = core.create_namespaced_pod("ns", pod("q", spec=wrong))
            assert await status_of(call) == 403

    async def test_a_spec_is_what_it_is(self, core: Core) -> None:
        await core.create_namespaced_pod("ns", pod())
        await core.patch_namespaced_pod("p", "ns", {"metadata": {"labels": {"a": "b"}}})
        body = {"spec": {"priorityClassName": "other"}}
        assert await status_of(core.patch_namespaced_pod("p", "ns", body)) == 422


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({"name": "Upper"}, 422),
        ({"name": "a", "labels": {"a": "not a label"}}, 422),
        ({"name": "a", "labels": {"/": ""}}, 422),
        ({"name": "a", "annotations": {"a": "x" * 300_000}}, 422),
        ({"name": "a", "resourceVersion": "1"}, 500),
    ],
)
async def test_metadata(core: Core, meta: Any, code: int) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
    assert await status_of(core.create_node(body)) == code


async def test_discovery(api_client: client.ApiClient, core: Core) -> None:
    found = await core.get_api_resources()
    nodes = next(one for one in found.resources if one.name == "nodes")
    assert (nodes.kind, nodes.namespaced, nodes.short_names) == ("Node", False, ["no"])
    groups = {one.name for one in (await client.ApisApi(api_client).get_api_versions()).groups}
    assert {"apps", "coordination.k8s.io", "slo.koordinator.sh"} <= groups
    assert (await client.VersionApi(api_client).get_code()).major == "1"


async def test_what_cannot_be_done_there(api: KubeApi, custom: Custom) -> None:
    reviews = ("authentication.k8s.io", "v1", "tokenreviews")
    assert await status_of(custom.list_cluster_custom_object(*reviews)) == 405
    assert await status_of(custom.list_cluster_custom_object("none.io", "v1", "others")) == 404
