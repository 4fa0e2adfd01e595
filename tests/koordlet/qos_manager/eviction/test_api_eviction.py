"""Evicting against a double of the API server that has the real one's rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.credentials import TokenFile
from koord_kube.protocol.resources import PODS
from koordlet.qos_manager.eviction.api_eviction import EvictionApiBackend
from koordlet.qos_manager.eviction.policy.backend import EvictionOutcome, EvictionResult
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.kube_api import PDBS, KubeApi
from tests.support.listing import listed
from tests.support.processes import PATIENCE
from tests.support.views import pod_view

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def put_pod(api: KubeApi, name: str = "web", status: Any = READY, **labels: str) -> PodRecord:
    """A pod that the server has, as koordlet knows it."""
    spec = {"nodeName": "node-1", "terminationGracePeriodSeconds": 40}
    given = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}
    uid = api.put(PODS, given, "ns")["metadata"]["uid"]
    return pod_view(name, uid=uid).record


def put_budget(api: KubeApi, allowed: int, name: str = "budget", **more: Any) -> None:
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": 2 + allowed,
        "desiredHealthy": 2,
        **more,
    }
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    api.put(PDBS, {"metadata": {"name": name}, "spec": spec, "status": status}, "ns")


class Slept:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def slept() -> Slept:
    return Slept()


@pytest.fixture
def way(client: Client, slept: Slept) -> EvictionApiBackend:
    return EvictionApiBackend(client, sleep=slept)


async def test_the_pod_ends_in_its_own_time(api: KubeApi, way: EvictionApiBackend) -> None:
    record = put_pod(api)
    assert await way.evict(record, 40, forced=False) == EvictionOutcome(EvictionResult.EVICTED)
    meta = api.get(PODS, "web", "ns")["metadata"]
    assert (meta["deletionGracePeriodSeconds"], bool(meta["deletionTimestamp"])) == (40, True)
    [asked] = api.asked
    assert asked.path == "/api/v1/namespaces/ns/pods/web/eviction"
    assert (asked.body["apiVersion"], asked.body["kind"]) == ("policy/v1", "Eviction")


async def test_what_may_not_wait_has_a_second(api: KubeApi, way: EvictionApiBackend) -> None:
    record = put_pod(api)
    await way.evict(record, 40, forced=True)
    assert api.get(PODS, "web", "ns")["metadata"]["deletionGracePeriodSeconds"] == 1


async def test_a_pod_that_is_gone(api: KubeApi, way: EvictionApiBackend) -> None:
    assert await way.evict(pod_view().record, 30, forced=False) == EvictionOutcome(
        EvictionResult.GONE
    )


async def test_another_pod_of_its_name_stays(api: KubeApi, way: EvictionApiBackend) -> None:
    put_pod(api)
    outcome = await way.evict(pod_view("web", uid="another").record, 30, forced=False)
    assert outcome == EvictionOutcome(EvictionResult.GONE, "another pod of its name is there")
    assert "deletionTimestamp" not in api.get(PODS, "web", "ns")["metadata"]


class TestBudgets:
    async def test_one_that_allows_it_is_spent(self, api: KubeApi, way: EvictionApiBackend) -> None:
        records = [put_pod(api, name, app="web") for name in ("web-1", "web-2")]
        put_budget(api, 1)
        assert (await way.evict(records[0], 30, forced=False)).end is EvictionResult.EVICTED
        outcome = await way.evict(records[1], 30, forced=False)
        assert outcome.end is EvictionResult.REFUSED
        assert "429 Cannot evict pod as it would violate" in outcome.reason
        assert "budget needs 2 healthy pods and has 3 currently" in outcome.reason
        assert len(api.asked) == 2, "nothing is asked again in haste"

    async def test_one_that_is_behind_says_when_to_come_back(
        self, api: KubeApi, way: EvictionApiBackend
    ) -> None:
        record = put_pod(api, app="web")
        put_budget(api, 1, observedGeneration=0)
        outcome = await way.evict(record, 30, forced=False)
        assert (outcome.end, outcome.again_after) == (EvictionResult.REFUSED, 10.0)

    async def test_it_holds_for_what_may_not_wait(
        self, api: KubeApi, way: EvictionApiBackend
    ) -> None:
        record = put_pod(api, app="web")
        put_budget(api, 0)
        assert (await way.evict(record, 30, forced=True)).end is EvictionResult.REFUSED

    async def test_two_are_refused_in_the_answer_s_body(
        self, api: KubeApi, way: EvictionApiBackend
    ) -> None:
        record = put_pod(api, app="web")
        put_budget(api, 1)
        put_budget(api, 1, "other")
        outcome = await way.evict(record, 30, forced=False)
        assert outcome.end is EvictionResult.REFUSED
        assert "500 This pod has more than one PodDisruptionBudget" in outcome.reason
        assert len(api.asked) == 1
        assert "deletionTimestamp" not in api.get(PODS, "web", "ns")["metadata"]

    async def test_those_of_other_pods_do_not_count(
        self, api: KubeApi, way: EvictionApiBackend
    ) -> None:
        record = put_pod(api, app="db")
        put_budget(api, 0)
        assert (await way.evict(record, 30, forced=False)).end is EvictionResult.EVICTED

    async def test_a_pod_that_is_not_ready_goes_where_enough_are(
        self, api: KubeApi, way: EvictionApiBackend
    ) -> None:
        record = put_pod(api, status={"phase": "Running"}, app="web")
        put_budget(api, 0)
        assert (await way.evict(record, 30, forced=False)).end is EvictionResult.EVICTED

    async def test_a_broken_one_is_no_reason_for_haste(
        self, api: KubeApi, way: EvictionApiBackend
    ) -> None:
        record = put_pod(api, app="web")
        put_budget(api, -1)
        outcome = await way.evict(record, 30, forced=False)
        assert (outcome.end, outcome.again_after) == (EvictionResult.REFUSED, 60.0)


class TestTrouble:
    @pytest.mark.parametrize("status", [429, 500, 503, 504])
    async def test_a_server_in_trouble_is_asked_again(
        self, api: KubeApi, way: EvictionApiBackend, slept: Slept, status: int
    ) -> None:
        record = put_pod(api)
        api.fail(status=status, times=2, retry_after=3)
        assert (await way.evict(record, 30, forced=False)).end is EvictionResult.EVICTED
        assert slept.seconds == [3, 3]

    async def test_not_for_ever(self, api: KubeApi, way: EvictionApiBackend, slept: Slept) -> None:
        record = put_pod(api)
        api.fail(status=503, times=9)
        outcome = await way.evict(record, 30, forced=False)
        assert (outcome.end, len(api.asked)) == (EvictionResult.FAILED, 4)
        assert sum(slept.seconds) <= 7

    async def test_what_a_server_asks_is_heeded_within_reason(
        self, api: KubeApi, way: EvictionApiBackend, slept: Slept
    ) -> None:
        record = put_pod(api)
        api.fail(status=503, retry_after=200)
        await way.evict(record, 30, forced=False)
        assert slept.seconds == [8]

    async def test_no_answer_is_not_known(self, api: KubeApi, slept: Slept) -> None:
        record = put_pod(api)
        api.fail(hang=True, times=9)
        async with Client(Cluster(api.url), Limits(answer=0.05)) as client:
            outcome = await EvictionApiBackend(client, sleep=slept).evict(record, 30, forced=False)
        assert outcome == EvictionOutcome(
            EvictionResult.UNKNOWN, "pods ns/web/eviction: no answer in time"
        )

    async def test_an_answer_that_was_lost_is_found_out(self, api: KubeApi, slept: Slept) -> None:
        record = put_pod(api)
        api.fail(slow=PATIENCE)
        async with Client(Cluster(api.url), Limits(answer=1.0)) as client:
            way = EvictionApiBackend(client, sleep=slept)
            assert (await way.evict(record, 30, forced=False)).end is EvictionResult.EVICTED

    @pytest.mark.parametrize("status", [400, 403, 422])
    async def test_no_right_is_no_trouble(
        self, api: KubeApi, way: EvictionApiBackend, status: int
    ) -> None:
        record = put_pod(api)
        api.fail(status=status)
        outcome = await way.evict(record, 30, forced=False)
        assert (outcome.end, outcome.again_after) == (EvictionResult.REFUSED, 60.0)

    async def test_a_new_token_is_read(self, api: KubeApi, tmp_path: Path) -> None:
        record = put_pod(api)
        token = tmp_path / "token"
        token.write_text("first")
        api.tokens = frozenset({"first"})
        async with Client(Cluster(api.url, TokenFile(token))) as client:
            await listed(client, PODS)
            token.write_text("second")
            api.tokens = frozenset({"second"})
            assert (
                await EvictionApiBackend(client).evict(record, 30, forced=False)
            ).end is EvictionResult.EVICTED
