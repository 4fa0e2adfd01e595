"""The asyncio client of Kubernetes finds the double of the API server as it finds a real one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_kube.resources import LEASES, NODE_METRICS, NODES, PODS, PRIORITY_CLASSES
from kubernetes.aio import client, watch

from tests.support.kube_api import KubeApi
from tests.support.kube_evictions import PDBS
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
    async def test_they_are_of_one_moment(self, api: KubeApi, core: Core) -> None:
        put_nodes(api, 5)
        page = await core.list_node(limit=2)
        assert (names(page), page.metadata.remaining_item_count) == (["n00", "n01"], 3)
        api.delete(NODES, "n02")
        put_nodes(api, 7)
        found = names(page)
        while page.metadata._continue:
            page = await core.list_node(limit=2, _continue=page.metadata._continue)
            found += names(page)
        assert found == ["n00", "n01", "n02", "n03", "n04"]
        assert len(names(await core.list_node())) == 7

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

    async def test_a_token_of_somebody_else(self, core: Core) -> None:
        assert await status_of(core.list_node(limit=2, _continue="abc")) == 400

    async def test_from_the_cache_all_come(self, api: KubeApi, core: Core) -> None:
        put_nodes(api, 4)
        assert len(names(await core.list_node(limit=2, resource_version="0"))) == 4


def said(raised: ApiException) -> Any:
    return json.loads(raised.body)


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("zone=z0", ["n00", "n02"]),
        ("zone==z0", ["n00", "n02"]),
        ("zone!=z0", ["n01", "n03"]),
        ("zone in (z0, z1)", ["n00", "n01", "n02"]),
        ("zone notin (z0),zone", ["n01"]),
        ("!zone", ["n03"]),
    ],
)
async def test_label_selectors(api: KubeApi, core: Core, selector: str, wanted: Any) -> None:
    put_nodes(api, 3)
    api.put(NODES, node("n03"))
    assert names(await core.list_node(label_selector=selector)) == wanted


async def test_field_selectors(api: KubeApi, core: Core) -> None:
    for name, where in (("a", "n1"), ("b", "n2"), ("c", "")):
        api.put(PODS, pod(name, spec={"nodeName": where} if where else {}), "ns")

    async def found(selector: str) -> list[str]:
        return names(await core.list_pod_for_all_namespaces(field_selector=selector))

    assert await found("spec.nodeName=n1") == ["a"]
    assert await found("spec.nodeName!=n1,spec.nodeName!=") == ["b"]
    assert await found("metadata.namespace=ns,metadata.name=c") == ["c"]
    assert await status_of(core.list_node(field_selector="spec.nodeName=n1")) == 400


async def test_a_watch_with_a_selector(api: KubeApi, core: Core) -> None:
    """What leaves it is deleted for the watch, as it was; what comes into it is added."""
    version = (await core.list_node()).metadata.resource_version
    api.put(NODES, node("n1", zone="a"))
    api.put(NODES, node("n1", zone="b"))
    api.put(NODES, node("n1", zone="a", more="x"))
    api.put(NODES, node("n1", zone="a"))
    api.put(NODES, node("other", zone="b"))
    api.delete(NODES, "n1")
    seen = []
    async with watch.Watch() as events:
        asked = {"label_selector": "zone=a", "resource_version": version}
        async for one in events.stream(core.list_node, **asked):
            seen.append((one["type"], one["object"].metadata.labels["zone"]))
            last = int(one["object"].metadata.resource_version)
            if len(seen) == 5:
                break
    assert seen == [(type_, "a") for type_ in ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]]
    assert last == int((await core.list_node()).metadata.resource_version)


async def test_a_watch_from_too_long_ago(api: KubeApi, core: Core) -> None:
    version = api.put(NODES, node("n1"))["metadata"]["resourceVersion"]
    api.compact()
    async with watch.Watch() as events:
        asked = {"resource_version": version, "timeout_seconds": 5}
        with pytest.raises(ApiException) as raised:
            async for _ in events.stream(core.list_node, **asked):
                pass
    assert raised.value.status == 410


class TestDeleting:
    @pytest.mark.parametrize("wrong", ["uid", "resource_version"])
    async def test_preconditions(self, api: KubeApi, core: Core, wrong: str) -> None:
        meta = api.put(NODES, node("n1"))["metadata"]
        good = {"uid": meta["uid"], "resource_version": meta["resourceVersion"]}
        bad = client.V1DeleteOptions(preconditions=client.V1Preconditions(**{wrong: "1"}))
        assert await status_of(core.delete_node("n1", body=bad)) == 409
        options = client.V1DeleteOptions(preconditions=client.V1Preconditions(**good))
        done = await core.delete_node("n1", body=options)
        assert (done["status"], done["details"]["uid"]) == ("Success", meta["uid"])
        assert await status_of(core.delete_node("n1")) == 404

    async def test_finalizers_hold_it(self, api: KubeApi, custom: Custom) -> None:
        await custom.create_cluster_custom_object(
            *METRIC, metric() | {"metadata": {"name": "n1", "finalizers": ["a.b/c"]}}
        )
        held = await custom.delete_cluster_custom_object(*METRIC, "n1")
        assert "deletionTimestamp" in held["metadata"]
        more = {"metadata": {"finalizers": ["a.b/c", "d.e/f"]}}
        assert await status_of(self.patch(custom, more)) == 422
        await self.patch(custom, {"metadata": {"finalizers": None}})
        assert api.objects == {}

    @staticmethod
    async def patch(custom: Custom, body: Any) -> Any:
        kind = "application/merge-patch+json"
        return await custom.patch_cluster_custom_object(*METRIC, "n1", body, _content_type=kind)

    async def test_a_pod_waits_for_its_kubelet(self, api: KubeApi, core: Core) -> None:
        await core.create_namespaced_pod("ns", pod(spec={"nodeName": "n1"}))
        gone = await core.delete_namespaced_pod("p", "ns")
        assert gone.metadata.deletion_grace_period_seconds == 30
        await core.delete_namespaced_pod("p", "ns", grace_period_seconds=0)
        assert api.objects == {}

    async def test_all_that_are_selected(self, api: KubeApi, core: Core) -> None:
        put_nodes(api, 4)
        await core.delete_collection_node(label_selector="zone=z1")
        assert names(await core.list_node()) == ["n00", "n02"]


class TestPatches:
    @pytest.mark.parametrize(
        "body",
        [
            [{"op": "add", "path": "/metadata/labels/b", "value": "2"}],
            {"metadata": {"labels": {"b": "2"}}},
        ],
    )
    async def test_of_a_node(self, api: KubeApi, core: Core, body: Any) -> None:
        api.put(NODES, node("n1", a="1"))
        assert (await core.patch_node("n1", body)).metadata.labels == {"a": "1", "b": "2"}

    async def test_conditions_are_merged_by_type(self, api: KubeApi, core: Core) -> None:
        ready = {"type": "Ready", "status": "True"}
        api.put(NODES, node("n1") | {"status": {"conditions": [ready]}})
        body = {"status": {"conditions": [{"type": "New", "status": "True"}]}}
        await core.patch_node_status("n1", body)
        await core.patch_node_status(
            "n1", {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}
        )
        found = api.get(NODES, "n1")["status"]["conditions"]
        assert [one["type"] for one in found] == ["New"]

    async def test_a_custom_object_knows_no_strategies(self, api: KubeApi, custom: Custom) -> None:
        api.put(NODE_METRICS, metric())
        body = {"metadata": {"labels": {"a": "b"}}}
        kind = "application/strategic-merge-patch+json"
        call = custom.patch_cluster_custom_object(*METRIC, "n1", body, _content_type=kind)
        assert await status_of(call) == 415

    async def test_a_version_in_it_is_a_condition(self, api: KubeApi, core: Core) -> None:
        old = api.put(NODES, node("n1"))["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": old, "labels": {"a": "1"}}}
        assert (await core.patch_node("n1", body)).metadata.labels == {"a": "1"}
        assert await status_of(core.patch_node("n1", body)) == 409

    async def test_a_test_that_fails(self, api: KubeApi, core: Core) -> None:
        api.put(NODES, node("n1", a="1"))
        body = [{"op": "test", "path": "/metadata/labels/a", "value": "2"}]
        assert await status_of(core.patch_node("n1", body)) == 422


class TestNodes:
    async def test_status_and_spec_are_apart(self, api: KubeApi, core: Core) -> None:
        api.put(NODES, node("n1") | {"spec": {"unschedulable": True}})
        body = {"spec": {"unschedulable": False}, "status": {"allocatable": {"cpu": "4000m"}}}
        await core.patch_node("n1", body | {"spec": {"unschedulable": True}})
        assert "status" not in api.get(NODES, "n1")
        await core.patch_node_status("n1", body | {"metadata": {"annotations": {"a": "b"}}})
        kept = api.get(NODES, "n1")
        assert (kept["spec"], kept["metadata"]["annotations"]) == (
            {"unschedulable": True},
            {"a": "b"},
        )
        assert kept["status"] == {"allocatable": {"cpu": "4"}}

    @pytest.mark.parametrize(("amount", "code"), [("x", 400), ("-1", 422)])
    async def test_amounts(self, api: KubeApi, core: Core, amount: str, code: int) -> None:
        api.put(NODES, node("n1"))
        body = {"status": {"allocatable": {"kubernetes.io/batch-cpu": amount}}}
        assert await status_of(core.patch_node_status("n1", body)) == code

    async def test_an_update_may_not_say_what_it_replaces(self, api: KubeApi, core: Core) -> None:
        api.put(NODES, node("n1"))
        assert (await core.replace_node("n1", node("n1", a="b"))).metadata.labels == {"a": "b"}
        old = node("n1")
        old["metadata"]["resourceVersion"] = "7"
        assert await status_of(core.replace_node("n1", old)) == 409


class TestPods:
    async def test_names_are_made(self, core: Core) -> None:
        body = pod()
        body["metadata"] = {"generateName": "web-"}
        made = [(await core.create_namespaced_pod("ns", body)).metadata.name for _ in range(2)]
        assert len({*made}) == 2
        assert all(one.startswith("web-") and len(one) == 9 for one in made)

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

    async def test_an_eviction_against_a_budget(self, api: KubeApi, core: Core) -> None:
        await core.create_namespaced_pod("ns", pod(labels={"a": "b"}))
        await core.patch_namespaced_pod_status("p", "ns", {"status": {"phase": "Running"}})
        budget = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}}
        status = {"observedGeneration": 9, "disruptionsAllowed": 0}

        api.put(PDBS, budget | {"status": status}, "ns")
        body = client.V1Eviction(metadata=client.V1ObjectMeta(name="p"))
        assert await status_of(core.create_namespaced_pod_eviction("p", "ns", body)) == 429


class TestLeases:
    async def test_what_is_in_one(self, api: KubeApi, api_client: client.ApiClient) -> None:
        leases = client.CoordinationV1Api(api_client)
        body: Any = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
            "spec": {"holderIdentity": "me", "renewTime": "2026-01-01T00:00:00.000001Z"},
        }
        made = await leases.create_namespaced_lease("ns", body)
        assert made.spec.holder_identity == "me"
        for field, value, code in (
            ("renewTime", "2026-01-01T00:00:00Z", 400),
            ("leaseDurationSeconds", 0, 422),
        ):
            wrong = {"spec": {field: value}}
            assert await status_of(leases.patch_namespaced_lease("l", "ns", wrong)) == code
        assert await status_of(leases.replace_namespaced_lease("l", "ns", body)) == 422
        body["metadata"]["resourceVersion"] = made.metadata.resource_version
        await leases.replace_namespaced_lease("l", "ns", body | {"spec": {"holderIdentity": "x"}})
        assert await status_of(leases.replace_namespaced_lease("l", "ns", body)) == 409
        assert api.get(LEASES, "l", "ns")["spec"] == {"holderIdentity": "x"}


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


async def test_config_maps_hold_text(core: Core) -> None:
    body: Any = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    frozen = body | {"data": {"a": "1"}, "immutable": True}
    await core.create_namespaced_config_map("ns", frozen)
    call = core.patch_namespaced_config_map("c", "ns", {"data": {"a": 1}})
    assert await status_of(call) == 400
    call = core.patch_namespaced_config_map("c", "ns", {"data": {"a": "2"}})
    assert await status_of(call) == 422


async def test_a_dry_run_keeps_nothing(api: KubeApi, core: Core) -> None:
    made = await core.create_node(node("n1"), dry_run="All")
    assert made.metadata.uid
    assert api.objects == {}
    api.put(NODES, node("n1"))
    await core.delete_node("n1", dry_run="All")
    await core.patch_node("n1", {"metadata": {"labels": {"a": "b"}}}, dry_run="All")
    assert api.get(NODES, "n1")["metadata"]["labels"] == {}
    assert await status_of(core.delete_node("n1", dry_run="Some")) == 400


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
