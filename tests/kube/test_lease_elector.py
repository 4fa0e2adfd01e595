"""Candidates for a Lease on a double of the API server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.core.election import ElectionTiming
from koord_kube.lease_elector import LeaseElector, steady
from koord_kube.protocol.api import NotLeadingError
from koord_kube.protocol.resources import LEASES, NODES

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE
from tests.support.waiting import until

QUICK = ElectionTiming(lease=2, deadline=1.0, retry=0.02)
PATIENT = ElectionTiming(lease=600, deadline=500.0, retry=0.02)
"""A lease that is not lost by being slow."""
NAMESPACE = "koordinator-system"
MICRO_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")


class Clock:
    """A steady clock that stands still but for what a test adds."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return 1000.0 + self.ahead


@pytest.fixture
async def client(api: KubeApi) -> AsyncIterator[Client]:
    async with Client(Cluster(api.url), Limits(qps=0, answer=PATIENCE)) as made:
        yield made


def elector(
    client: Client,
    identity: str,
    timing: ElectionTiming = PATIENT,
    tell: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = steady,
) -> LeaseElector:
    return LeaseElector(
        client,
        identity,
        name="manager",
        namespace=NAMESPACE,
        timing=timing,
        on_warning=tell,
        clock=clock,
    )


@asynccontextmanager
async def running(*electors: LeaseElector) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.run()) for one in electors]
        yield
        for task in tasks:
            task.cancel()


async def test_the_first_one_leads(api: KubeApi, client: Client) -> None:
    one = elector(client, "one")
    assert (one.leads, one.leader, one.term) == (False, "", 0)
    async with running(one):
        await until(lambda: one.leads)
        lease = api.get(LEASES, "manager", NAMESPACE)
        spec = lease["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("one", 600)
        assert spec["leaseTransitions"] == 0
        assert MICRO_TIME.match(spec["acquireTime"])
        assert MICRO_TIME.match(spec["renewTime"])
        term = one.term
        await api.wait_for("update", 3)
        renewed = api.get(LEASES, "manager", NAMESPACE)
        assert renewed["spec"]["acquireTime"] == spec["acquireTime"]
        assert renewed["spec"]["renewTime"] > spec["renewTime"]
        assert 0 < one.term == term < int(renewed["metadata"]["resourceVersion"])


async def test_of_two_one_leads_and_the_next_takes_over_at_once(
    api: KubeApi, client: Client
) -> None:
    patient = ElectionTiming(lease=3600, deadline=3000.0, retry=0.02)
    one, two = elector(client, "one", patient), elector(client, "two", patient)
    async with running(one, two):
        await until(lambda: one.leads or two.leads)
        await until(lambda: one.leader == two.leader != "")
        leader, other = (one, two) if one.leads else (two, one)
        assert not other.leads
        assert other.leader == leader.identity
        await leader.release()
        assert not leader.leads
        await until(lambda: other.leads)
        assert other.term > leader.term
        assert api.get(LEASES, "manager", NAMESPACE)["spec"]["leaseTransitions"] >= 1
        assert not leader.leads


async def test_what_is_given_back(api: KubeApi, client: Client) -> None:
    one = elector(client, "one")
    async with running(one):
        await until(lambda: one.leads)
        await one.release()
        await one.release()
    spec = api.get(LEASES, "manager", NAMESPACE)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)


async def test_what_others_wrote_into_the_lease_stays(api: KubeApi, client: Client) -> None:
    api.put(
        LEASES,
        {"metadata": {"name": "manager", "labels": {"a": "b"}}, "spec": {"leaseTransitions": 4}},
        NAMESPACE,
    )
    one = elector(client, "one")
    async with running(one):
        await until(lambda: one.leads)
    lease = api.get(LEASES, "manager", NAMESPACE)
    assert lease["metadata"]["labels"] == {"a": "b"}
    assert lease["spec"]["leaseTransitions"] == 5


async def test_another_s_lease_is_waited_for_and_not_given_back(
    api: KubeApi, client: Client
) -> None:
    held = {
        "holderIdentity": "go",
        "leaseDurationSeconds": 15,
        "acquireTime": "2020-01-01T00:00:00.000000Z",
        "renewTime": "2020-01-01T00:00:00.000000Z",
        "leaseTransitions": 1,
    }
    api.put(LEASES, {"metadata": {"name": "manager"}, "spec": held}, NAMESPACE)
    clock = Clock()
    one = elector(client, "one", clock=clock)
    async with running(one):
        await api.wait_for("get", 5)
        assert (one.leads, one.leader) == (False, "go")
        clock.ahead = 16.0
        await until(lambda: one.leads)
    spec = api.get(LEASES, "manager", NAMESPACE)["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("one", 2)
    other = elector(client, "other")
    await other.release()
    assert api.get(LEASES, "manager", NAMESPACE)["spec"] == spec


async def test_it_stops_leading_while_its_request_hangs(api: KubeApi, client: Client) -> None:
    one = elector(client, "one", QUICK)
    async with running(one):
        await until(lambda: one.leads)
        api.fail(hang=True, times=1000, plural="leases")
        async with asyncio.timeout(PATIENCE):
            await one.wait_lost()
        assert not one.leads


async def test_after_a_request_that_hangs_there_is_time_for_another(api: KubeApi) -> None:
    async with Client(Cluster(api.url), Limits(qps=0, answer=600.0)) as client:
        one = elector(client, "one", QUICK, clock=Clock())
        async with running(one):
            await until(lambda: one.leads)
            hangs = api.fail(hang=True, verb="update")
            await until(lambda: hangs.times == 0)
            updates = api.count("update")
            await until(lambda: api.count("update") > updates)


async def test_a_lapse_is_another_term(api: KubeApi, client: Client) -> None:
    clock = Clock()
    one = elector(client, "one", clock=clock)
    async with running(one):
        await until(lambda: one.leads)
        before = one.term
        clock.ahead = 550.0
        async with asyncio.timeout(PATIENCE):
            await one.wait_lost()
            await one.wait_leads()
        assert one.term > before


async def test_trouble_is_told_once(api: KubeApi, client: Client) -> None:
    told: list[str] = []
    api.fail(status=403, times=3)
    one = elector(client, "one", tell=told.append)
    async with running(one):
        await until(lambda: one.leads)
    assert told == [f"leases {NAMESPACE}/manager: 403 this is a test"]
    assert one.trouble == ""


@pytest.mark.parametrize("fault", [{"status": 429, "retry_after": 1}, {"status": 500}])
async def test_a_leader_bears_a_failure(
    api: KubeApi, client: Client, fault: dict[str, int]
) -> None:
    one = elector(client, "one", ElectionTiming(lease=60, deadline=50.0, retry=0.02))
    async with running(one):
        await until(lambda: one.leads)
        term, failed = one.term, api.fail(verb="update", **fault)
        await until(lambda: failed.times == 0)
        updates = api.count("update")
        await until(lambda: api.count("update") > updates)
        assert (one.leads, one.term) == (True, term)


async def test_a_lease_in_another_form_is_trouble(api: KubeApi, client: Client) -> None:
    api.put(LEASES, {"metadata": {"name": "manager"}, "spec": {"holderIdentity": 3}}, NAMESPACE)
    one = elector(client, "one")
    async with running(one):
        await until(lambda: "not one of an election" in one.trouble)
    assert not one.leads


async def test_giving_back_does_not_hang_nor_raise(api: KubeApi, client: Client) -> None:
    told: list[str] = []
    one = elector(client, "one", QUICK, tell=told.append)
    async with running(one):
        await until(lambda: one.leads)
    told.clear()
    api.fail(hang=True, times=1000)
    async with asyncio.timeout(PATIENCE):
        await one.release()
    assert not one.leads
    assert len(told) == 1
    assert told[0].startswith(f"leases {NAMESPACE}/manager: no answer in time (the Lease is not")


async def test_who_never_had_it_does_not_say_that_it_is_not_given_back(
    api: KubeApi, client: Client
) -> None:
    told: list[str] = []
    api.fail(status=500, times=1000)
    await elector(client, "one", tell=told.append).release()
    assert told == []


async def test_giving_back_outlives_its_own_renewal(api: KubeApi, client: Client) -> None:
    one = elector(client, "one")
    async with running(one):
        await until(lambda: one.leads)
        slow = api.fail(verb="update", status=409)
        await until(lambda: slow.times == 0)
    conflict = api.fail(verb="update", status=409)
    await one.release()
    assert conflict.times == 0
    assert api.get(LEASES, "manager", NAMESPACE)["spec"]["holderIdentity"] == ""


async def test_a_write_under_way_when_the_lead_is_lost(api: KubeApi, client: Client) -> None:
    """What was sent may still arrive; nothing is sent after."""
    api.put(NODES, {"metadata": {"name": "n1"}})
    one = elector(client, "one")
    writer = client.fenced(lambda: one.leads)
    async with running(one), asyncio.TaskGroup() as group:
        await until(lambda: one.leads)
        api.fail(slow=2.0, verb="patch")
        under_way = group.create_task(writer.patch(NODES, "n1", {"metadata": {"labels": {}}}))
        await api.wait_for("patch")
        await one.release()
        assert not under_way.done()
        with pytest.raises(NotLeadingError):
            await writer.patch(NODES, "n1", {"metadata": {"labels": {"a": "b"}}})
    assert under_way.done()
    assert api.count("patch") == 1


async def test_one_that_is_cut_off_is_followed(api: KubeApi, client: Client) -> None:
    clock = Clock()
    one = elector(client, "one", clock=clock)
    two = elector(client, "two", clock=clock)
    async with running(one):
        await until(lambda: one.leads)
    async with running(two):
        await until(lambda: two.leader == "one")
        clock.ahead = 500.0
        assert not one.leads
        assert not two.leads
        clock.ahead = 600.0
        await until(lambda: two.leads)
        assert two.term > one.term
