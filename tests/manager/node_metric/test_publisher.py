from __future__ import annotations

from typing import Any

import pytest
from koord_kube.client import Client, Cluster
from koord_kube.protocol.resources import API_SERVICES, ENDPOINT_SLICES
from koord_manager.node_metric.publisher import (
    API_SERVICE,
    NODE_METRICS,
    LeaderEndpoint,
    LeaderPublisher,
    PublishedGroup,
    slice_name,
)

from tests.support.kube_api import KubeApi

NAMESPACE = "koordinator-system"
PORTS = {"api": 9443, "report": 9444}


def endpoint(ip: str = "10.0.0.1") -> LeaderEndpoint:
    return LeaderEndpoint("koord-manager-leader", NAMESPACE, ip, PORTS)


@pytest.fixture
async def api() -> Any:
    async with KubeApi(installed=frozenset({API_SERVICES, ENDPOINT_SLICES})) as made:
        yield made


def addresses(api: KubeApi, name: str = "koord-manager-leader-ipv4") -> list[str]:
    found = api.get(ENDPOINT_SLICES, name, NAMESPACE)
    return [address for one in found["endpoints"] for address in one["addresses"]]


async def test_the_leader_is_the_only_endpoint(api: KubeApi) -> None:
    async with Client(Cluster(api.url)) as client:
        await LeaderPublisher(client, endpoint()).publish()
        found = api.get(ENDPOINT_SLICES, "koord-manager-leader-ipv4", NAMESPACE)
        assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "koord-manager-leader"
        assert found["ports"] == [
            {"name": "api", "port": 9443, "protocol": "TCP"},
            {"name": "report", "port": 9444, "protocol": "TCP"},
        ]
        spec = api.get(API_SERVICES, API_SERVICE)["spec"]
        assert spec["service"]["name"] == "koord-manager-leader"
        assert (spec["group"], spec["version"]) == ("metrics.koordinator.sh", "v1alpha1")
        await LeaderPublisher(client, endpoint("10.0.0.2")).publish()
        assert addresses(api) == ["10.0.0.2"]


async def test_what_others_say_of_the_api_service_stays_and_nothing_is_written_twice(
    api: KubeApi,
) -> None:
    async with Client(Cluster(api.url)) as client:
        publisher = LeaderPublisher(client, endpoint())
        await publisher.publish()
        found = api.get(API_SERVICES, API_SERVICE)
        found["spec"]["insecureSkipTLSVerify"] = True
        found["spec"]["service"]["port"] = 8443
        api.put(API_SERVICES, found)
        await publisher.publish()
        spec = api.get(API_SERVICES, API_SERVICE)["spec"]
        assert (spec["insecureSkipTLSVerify"], spec["service"]["port"]) == (True, 443)
        writes = api.count("update") + api.count("create")
        await publisher.publish()
        assert api.count("update") + api.count("create") == writes


@pytest.mark.parametrize(
    "service", [{"name": "metrics-server", "namespace": "kube-system", "port": 443}, None]
)
async def test_an_api_service_of_somebody_else_is_neither_taken_nor_deleted(
    api: KubeApi, service: Any
) -> None:
    theirs = {
        "metadata": {"name": API_SERVICE, "labels": {"app.kubernetes.io/managed-by": "somebody"}},
        "spec": {
            "group": "metrics.koordinator.sh",
            "version": "v1alpha1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": service,
        },
    }
    api.put(API_SERVICES, theirs)
    before = api.get(API_SERVICES, API_SERVICE)
    left: list[str] = []
    async with Client(Cluster(api.url)) as client:
        publisher = LeaderPublisher(
            client, endpoint(), on_foreign=lambda found: left.append(found["metadata"]["name"])
        )
        await publisher.publish()
        await publisher.unregister(NODE_METRICS)
    assert api.get(API_SERVICES, API_SERVICE) == before
    assert left == [API_SERVICE]
    assert addresses(api) == ["10.0.0.1"]


async def test_a_group_of_which_another_has_a_version_is_left_alone(api: KubeApi) -> None:
    """Clients would prefer ours of two versions."""
    versions = [PublishedGroup("custom.metrics.k8s.io", name, 100) for name in ("v2", "v1")]
    newer, older = (version.api_service for version in versions)
    foreign: list[str] = []
    async with Client(Cluster(api.url)) as client:
        publisher = LeaderPublisher(
            client, endpoint(), on_foreign=lambda found: foreign.append(found["metadata"]["name"])
        )
        await publisher.register(*versions)
        theirs = api.get(API_SERVICES, older)
        theirs["spec"]["service"] = {"name": "prometheus-adapter", "namespace": "monitoring"}
        api.put(API_SERVICES, theirs)
        theirs = api.get(API_SERVICES, older)
        assert api.get(API_SERVICES, newer)
        for _ in range(2):
            await publisher.register(*versions)
            assert [key.name for key in api.objects if key.resource == API_SERVICES] == [older]
        assert foreign == [older, older]
        assert api.get(API_SERVICES, older) == theirs


async def test_what_is_no_longer_served_is_deleted_unless_another_made_it(api: KubeApi) -> None:
    async with Client(Cluster(api.url)) as client:
        publisher = LeaderPublisher(client, endpoint())
        await publisher.unregister(NODE_METRICS)
        await publisher.publish()
        found = api.get(API_SERVICES, API_SERVICE)
        api.put(API_SERVICES, found | {"metadata": {**found["metadata"], "labels": {}}})
        await publisher.unregister(NODE_METRICS)
        await publisher.publish()
        await publisher.unregister(NODE_METRICS)
    assert not [key for key in api.objects if key.resource == API_SERVICES]


async def test_who_leads_no_more_takes_itself_away_and_nobody_else(api: KubeApi) -> None:
    async with Client(Cluster(api.url)) as client:
        mine, other = (
            LeaderPublisher(client, endpoint()),
            LeaderPublisher(client, endpoint("10.0.0.2")),
        )
        await mine.withdraw()
        await mine.publish()
        await mine.withdraw()
        assert addresses(api) == []
        await mine.publish()
        await other.publish()
        await mine.withdraw()
        assert addresses(api) == ["10.0.0.2"]


async def test_who_takes_over_in_the_middle_of_it_stays(api: KubeApi) -> None:
    async with Client(Cluster(api.url)) as client:
        publisher = LeaderPublisher(client, endpoint())
        await publisher.publish()
        get = client.get

        async def overtaken(*given: Any) -> Any:
            found = await get(*given)
            await LeaderPublisher(client, endpoint("10.0.0.2")).publish()
            return found

        async with Client(Cluster(api.url)) as late:
            late.get = overtaken  # type: ignore[method-assign]
            await LeaderPublisher(late, endpoint()).withdraw()
        assert addresses(api) == ["10.0.0.2"]


async def test_what_else_changes_in_the_middle_of_it_keeps_nobody_from_leaving(
    api: KubeApi,
) -> None:
    async with Client(Cluster(api.url)) as client:
        publisher = LeaderPublisher(client, endpoint())
        await publisher.publish()
        fault = api.fail(status=409, verb="update", plural="endpointslices")
        await publisher.withdraw()
        assert (fault.times, addresses(api)) == (0, [])


def test_addresses() -> None:
    assert slice_name(endpoint("fd00::1")) == "koord-manager-leader-ipv6"
    with pytest.raises(ValueError, match="does not appear to be"):
        endpoint("")
