"""Evicting against a double of the API server that has the real one's rules."""

from __future__ import annotations

from typing import Any

import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.core.evictions import (
    DisruptionTarget,
    EvictedPod,
    EvictionOutcome,
    EvictionResult,
)
from koord_kube.pod_evictor import PodEvictor
from koord_kube.protocol.api import NotLeadingError
from koord_kube.protocol.resources import PODS
from koord_kube.shared_backoff import SharedBackoff

from tests.support.kube_api import PDBS, KubeApi
from tests.support.processes import PATIENCE

EVICTED = EvictionOutcome(EvictionResult.EVICTED)
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def put_pod(api: KubeApi, name: str = "web", status: Any = READY, **labels: str) -> EvictedPod:
    """A pod that the server has."""
    containers = [{"name": "c", "image": "i"}]
    spec = {"nodeName": "node-1", "terminationGracePeriodSeconds": 40, "containers": containers}
    given = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}
    uid = api.put(PODS, given, "ns")["metadata"]["uid"]
    return EvictedPod("ns", name, uid)


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


class Slept(SharedBackoff):
    """Waits nowhere, and keeps how long it would have been."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    async def pause(self, *args: Any) -> None:
        _, wait, error, longest = args
        self.seconds.append(max(wait, min(error.retry_after, longest)))


@pytest.fixture
def slept() -> Slept:
    return Slept()


@pytest.fixture
def evictor(client: Client, slept: Slept) -> PodEvictor:
    return PodEvictor(client.write, slept, wall=lambda: 1_800_000_000.0)


async def test_the_pod_ends_in_its_own_time_or_in_a_second(
    api: KubeApi, evictor: PodEvictor
) -> None:
    for name, grace, seconds in (("web", None, 40), ("other", 1, 1)):
        pod = put_pod(api, name)
        assert await evictor.evict(pod, grace_seconds=grace) == EVICTED
        meta = api.get(PODS, name, "ns")["metadata"]
        assert (meta["deletionGracePeriodSeconds"], bool(meta["deletionTimestamp"])) == (
            seconds,
            True,
        )
    asked = api.asked[0]
    assert asked.path == "/api/v1/namespaces/ns/pods/web/eviction"
    assert (asked.body["apiVersion"], asked.body["kind"]) == ("policy/v1", "Eviction")


async def test_another_pod_of_its_name_stays(api: KubeApi, evictor: PodEvictor) -> None:
    gone = EvictedPod("ns", "web", "another")
    assert (await evictor.evict(gone)).end is EvictionResult.GONE
    put_pod(api)
    outcome = await evictor.evict(gone)
    assert outcome == EvictionOutcome(EvictionResult.GONE, "another pod of its name is there")
    assert "deletionTimestamp" not in api.get(PODS, "web", "ns")["metadata"]


@pytest.mark.parametrize(
    ("budgets", "reason", "again_after"),
    [
        ([{"disruptionsAllowed": 0}], "429 Cannot evict pod as it would violate", 0.0),
        ([{"observedGeneration": 0}], "429 ", 10.0),
        ([{}, {}], "500 This pod has more than one PodDisruptionBudget", 60.0),
        ([{"disruptionsAllowed": -1}], "", 60.0),
    ],
    ids=["forbids it", "is behind", "two", "broken"],
)
async def test_after_a_refusal_by_a_budget_there_is_no_immediate_retry(
    api: KubeApi,
    evictor: PodEvictor,
    budgets: list[dict[str, int]],
    reason: str,
    again_after: float,
) -> None:
    pod = put_pod(api, app="web")
    for number, status in enumerate(budgets):
        put_budget(api, 1, f"budget-{number}", **status)
    outcome = await evictor.evict(pod)
    assert (outcome.end, outcome.again_after) == (EvictionResult.REFUSED, again_after)
    assert reason in outcome.reason
    assert len(api.asked) == 1
    assert "deletionTimestamp" not in api.get(PODS, "web", "ns")["metadata"]


@pytest.mark.parametrize(
    ("failure", "end", "waits"),
    [
        *(({"status": status, "times": 2, "retry_after": 3}, EvictionResult.EVICTED, [3, 3])
          for status in (429, 500, 503, 504)),
        ({"status": 503, "retry_after": 200}, EvictionResult.EVICTED, [8]),
        ({"status": 503, "times": 9}, EvictionResult.FAILED, [1, 2, 4]),
        # A lack of rights is no problem of the server's. After a 401 the token is read again.
        ({"status": 401}, EvictionResult.EVICTED, []),
        ({"status": 401, "times": 2}, EvictionResult.REFUSED, []),
        *(({"status": status}, EvictionResult.REFUSED, []) for status in (400, 403, 422)),
    ],
)  # fmt: skip
async def test_requests_to_a_server_that_fails_are_repeated_a_few_times(
    api: KubeApi,
    evictor: PodEvictor,
    slept: Slept,
    failure: dict[str, int],
    end: EvictionResult,
    waits: list[float],
) -> None:
    pod = put_pod(api)
    api.fail(**failure)
    outcome = await evictor.evict(pod)
    assert outcome.end is end
    assert slept.seconds == pytest.approx(waits, rel=0.5)
    assert outcome.again_after == (60.0 if end is EvictionResult.REFUSED else 0.0)
    assert (str(failure["status"]) in outcome.reason) == (end is not EvictionResult.EVICTED)
    evicted = "deletionTimestamp" in api.get(PODS, "web", "ns")["metadata"]
    assert evicted == (end is EvictionResult.EVICTED)


async def test_without_an_answer_the_result_is_not_known_unless_it_is_found_out(
    api: KubeApi, slept: Slept
) -> None:
    pod = put_pod(api)
    api.fail(hang=True, times=9)
    async with Client(Cluster(api.url), Limits(answer=0.05)) as client:
        outcome = await PodEvictor(client.write, slept).evict(pod)
    reason = "pods ns/web/eviction: no answer in time"
    assert outcome == EvictionOutcome(EvictionResult.UNKNOWN, reason)


async def test_an_answer_that_was_lost_is_found_out(api: KubeApi, slept: Slept) -> None:
    pod = put_pod(api)
    api.fail(slow=PATIENCE)
    async with Client(Cluster(api.url), Limits(answer=1.0)) as client:
        assert await PodEvictor(client.write, slept).evict(pod) == EVICTED


async def test_a_deleted_pod_says_why_and_no_budget_keeps_it(
    api: KubeApi, evictor: PodEvictor
) -> None:
    pod = put_pod(api, app="web")
    put_budget(api, 0)
    why = DisruptionTarget("PreemptionByScheduler", "another one needs its node")
    assert await evictor.delete(pod, why) == EVICTED
    found = api.get(PODS, "web", "ns")
    assert found["metadata"]["deletionGracePeriodSeconds"] == 40
    [condition] = [one for one in found["status"]["conditions"] if one["type"] != "Ready"]
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "another one needs its node",
        "lastTransitionTime": "2027-01-15T08:00:00Z",
    }


async def test_another_pod_of_its_name_is_neither_deleted_nor_marked(
    api: KubeApi, evictor: PodEvictor
) -> None:
    put_pod(api)
    gone = EvictedPod("ns", "web", "another")
    outcome = await evictor.delete(gone, DisruptionTarget("PreemptionByScheduler", ""))
    assert outcome.end is EvictionResult.GONE
    found = api.get(PODS, "web", "ns")
    assert "deletionTimestamp" not in found["metadata"]
    assert found["status"] == READY


async def test_who_may_not_write_evicts_nothing(api: KubeApi, client: Client) -> None:
    pod = put_pod(api)
    fenced = client.fenced(lambda: False)
    with pytest.raises(NotLeadingError):
        await PodEvictor(fenced.write, fenced.backoff).evict(pod)
    assert not api.asked
