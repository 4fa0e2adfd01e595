"""Candidates for a Lease on a double of the API server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.core.election import ElectionTiming
from koord_kube.lease_elector import LeaseElector
from koord_kube.protocol.resources import LEASES

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE
from tests.support.waiting import until

QUICK = ElectionTiming(lease=2, deadline=1.0, retry=0.02)
PATIENT = ElectionTiming(lease=600, deadline=500.0, retry=0.02)
"""A lease that is not lost by being slow."""
WATCHING = ElectionTiming(lease=3600, deadline=3000.0, retry=1000.0)
"""A standby reads the Lease once, and then has only its watch to go by."""
NAMESPACE = "koordinator-system"
MICRO_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")


class Clock:
    """A steady clock that stands still but for what a test adds."""

    ahead = 0.0

    def __call__(self) -> float:
        return 1000.0 + self.ahead


def elector(
    client: Client, identity: str, timing: ElectionTiming = PATIENT, **more: Any
) -> LeaseElector:
    more = {"name": "manager", "namespace": NAMESPACE, "timing": timing} | more
    return LeaseElector(client, identity, **more)


@asynccontextmanager
async def running(*electors: LeaseElector) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.run()) for one in electors]
        yield
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def leading(
    client: Client, identity: str, timing: ElectionTiming = PATIENT, **more: Any
) -> AsyncIterator[LeaseElector]:
    one = elector(client, identity, timing, **more)
    async with running(one):
        await until(lambda: one.leads)
        yield one


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
        await one.release()
        await one.release()
    released = api.get(LEASES, "manager", NAMESPACE)["spec"]
    assert (released["holderIdentity"], released["leaseDurationSeconds"]) == ("", 1)


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


@asynccontextmanager
async def standing_by(
    api: KubeApi, client: Client, timing: ElectionTiming = WATCHING, **more: Any
) -> AsyncIterator[tuple[LeaseElector, LeaseElector]]:
    """A leader, and a standby that has read the Lease and follows it if it may."""
    one, two = elector(client, "one", timing), elector(client, "two", timing, **more)
    async with running(one):
        await until(lambda: one.leads)
        async with running(two):
            await until(lambda: two.leader == "one")
            yield one, two


async def test_a_release_is_seen_at_once(api: KubeApi, client: Client) -> None:
    async with standing_by(api, client) as (one, two):
        await until(lambda: api.open_watches() == 2)
        reads = api.count("get")
        await one.release()
        await until(lambda: two.leads)
        assert two.term > one.term
        # The one that releases looks once more; who takes the Lease has seen it.
        assert api.count("get") == reads + 1


async def test_of_many_that_see_a_release_one_leads(api: KubeApi, client: Client) -> None:
    more = [elector(client, f"more-{number}", WATCHING) for number in range(4)]
    async with standing_by(api, client) as (one, two), running(*more):
        await until(lambda: api.open_watches() == 6)
        await one.release()
        others = [two, *more]
        await until(lambda: all(each.leader not in ("", "one") for each in others))
        assert [each.leads for each in others].count(True) == 1
        assert api.get(LEASES, "manager", NAMESPACE)["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("becomes", ["end_watches", "cut_watches", "expire_watches"])
async def test_a_watch_that_ends_is_opened_again(
    api: KubeApi, client: Client, becomes: str
) -> None:
    async with standing_by(api, client) as (one, two):
        await until(lambda: api.open_watches() == 2)
        api.compact()
        getattr(api, becomes)()
        await one.release()
        await until(lambda: two.leads)


async def test_without_the_right_to_watch_it_reads(api: KubeApi, client: Client) -> None:
    api.fail(status=403, verb="watch", times=1000)
    warnings: list[str] = []
    async with standing_by(api, client, PATIENT, on_warning=warnings.append) as (one, two):
        await until(lambda: api.count("watch") >= 3)
        await one.release()
        await until(lambda: two.leads)
        assert two.problem == ""
    about = f"leases {NAMESPACE} metadata.name=manager"
    assert warnings == [f"{about}: 403 this is a test (the Lease is read every 0.02 s instead)"]


async def test_another_s_renewals_count_from_when_they_are_seen(
    api: KubeApi, client: Client
) -> None:
    """By the clock of who waits, whatever times the record has."""
    clock = Clock()
    spec = {"holderIdentity": "go", "leaseDurationSeconds": 15, "leaseTransitions": 1}

    def renew(time: str) -> None:
        given = {"metadata": {"name": "manager"}, "spec": {**spec, "renewTime": time}}
        api.put(LEASES, given, NAMESPACE)

    renew("2020-01-01T00:00:00.000000Z")
    timing = ElectionTiming(lease=15, deadline=10.0, retry=0.02)
    one = elector(client, "one", timing, clock=clock)
    async with running(one):
        await until(lambda: one.leader == "go" and api.open_watches() == 1)
        api.fail(status=500, verb="get", times=1000)
        clock.ahead = 14.0
        renew("2020-01-01T00:00:01.000000Z")
        seen = api.count("get")
        await api.wait_for("get", seen + 2)
        api.faults.clear()
        clock.ahead = 28.0
        seen = api.count("get")
        await api.wait_for("get", seen + 5)
        assert not one.leads
        clock.ahead = 30.0
        await until(lambda: one.leads)


async def test_what_is_shown_and_is_no_record_is_problem(api: KubeApi, client: Client) -> None:
    async with standing_by(api, client) as (_, two):
        await until(lambda: api.open_watches() == 2)
        api.put(LEASES, {"metadata": {"name": "manager"}, "spec": {"holderIdentity": 3}}, NAMESPACE)
        await until(lambda: "not one of an election" in two.problem)


async def test_a_leader_learns_at_once_that_another_has_its_lease(
    api: KubeApi, client: Client
) -> None:
    async with leading(client, "one", WATCHING) as one:
        await until(lambda: api.open_watches() == 1)
        given = {"holderIdentity": "go", "leaseDurationSeconds": 15}
        api.put(LEASES, {"metadata": {"name": "manager"}, "spec": given}, NAMESPACE)
        async with asyncio.timeout(PATIENCE):
            await one.wait_lost()
        assert one.leader == "go"


async def test_to_be_slower_than_another_is_no_problem(api: KubeApi, client: Client) -> None:
    warnings: list[str] = []
    api.fail(status=409, verb="create")
    async with leading(client, "one", on_warning=warnings.append):
        assert api.count("create") == 2
    assert warnings == []


async def test_another_s_lease_is_waited_for_and_not_released(api: KubeApi, client: Client) -> None:
    held = {
        "holderIdentity": "go",
        "leaseDurationSeconds": 15,
        "acquireTime": "2020-01-01T00:00:00.000000Z",
        "renewTime": "2020-01-01T00:00:00.000000Z",
        "leaseTransitions": 1,
    }
    meta = {"name": "manager", "labels": {"a": "b"}}
    api.put(LEASES, {"metadata": meta, "spec": held}, NAMESPACE)
    clock = Clock()
    one = elector(client, "one", clock=clock)
    async with running(one):
        await api.wait_for("get", 5)
        assert (one.leads, one.leader) == (False, "go")
        clock.ahead = 16.0
        await until(lambda: one.leads)
    lease = api.get(LEASES, "manager", NAMESPACE)
    spec = lease["spec"]
    assert lease["metadata"]["labels"] == {"a": "b"}
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("one", 2)
    other = elector(client, "other")
    await other.release()
    assert api.get(LEASES, "manager", NAMESPACE)["spec"] == spec


async def test_it_stops_leading_while_its_request_hangs(api: KubeApi, client: Client) -> None:
    async with leading(client, "one", QUICK) as one:
        api.fail(hang=True, times=1000, plural="leases")
        async with asyncio.timeout(PATIENCE):
            await one.wait_lost()
        assert not one.leads


async def test_after_a_request_that_hangs_there_is_time_for_another(api: KubeApi) -> None:
    async with (
        Client(Cluster(api.url), Limits(qps=0, answer=600.0)) as client,
        leading(client, "one", QUICK, clock=Clock()),
    ):
        hangs = api.fail(hang=True, verb="update")
        await until(lambda: hangs.times == 0)
        updates = api.count("update")
        await until(lambda: api.count("update") > updates)


async def test_a_lapse_is_another_term(api: KubeApi, client: Client) -> None:
    clock = Clock()
    async with leading(client, "one", clock=clock) as one:
        before = one.term
        clock.ahead = 550.0
        async with asyncio.timeout(PATIENCE):
            await one.wait_lost()
            await one.wait_leads()
        assert one.term > before


async def test_a_failure_is_logged_once(api: KubeApi, client: Client) -> None:
    warnings: list[str] = []
    api.fail(status=403, times=3, verb="get")
    async with leading(client, "one", on_warning=warnings.append) as one:
        assert one.problem == ""
    assert warnings == [f"leases {NAMESPACE}/manager: 403 this is a test"]


@pytest.mark.parametrize("fault", [{"status": 429, "retry_after": 1}, {"status": 500}])
async def test_a_leader_bears_a_failure(
    api: KubeApi, client: Client, fault: dict[str, int]
) -> None:
    async with leading(client, "one", ElectionTiming(lease=60, deadline=50.0, retry=0.02)) as one:
        term, failed = one.term, api.fail(verb="update", **fault)
        await until(lambda: failed.times == 0)
        updates = api.count("update")
        await until(lambda: api.count("update") > updates)
        assert (one.leads, one.term) == (True, term)


async def test_a_lease_in_another_form_is_problem(api: KubeApi, client: Client) -> None:
    api.put(LEASES, {"metadata": {"name": "manager"}, "spec": {"holderIdentity": 3}}, NAMESPACE)
    one = elector(client, "one")
    async with running(one):
        await until(lambda: "not one of an election" in one.problem)
    assert not one.leads


async def test_releasing_does_not_hang_nor_raise(api: KubeApi, client: Client) -> None:
    warnings: list[str] = []
    async with leading(client, "one", QUICK, on_warning=warnings.append) as one:
        pass
    warnings.clear()
    api.fail(hang=True, times=1000)
    async with asyncio.timeout(PATIENCE):
        await one.release()
    assert not one.leads
    assert len(warnings) == 1
    assert warnings[0].startswith(
        f"leases {NAMESPACE}/manager: no answer in time (the Lease is not"
    )


async def test_who_never_held_it_logs_nothing(api: KubeApi, client: Client) -> None:
    warnings: list[str] = []
    api.fail(status=500, times=1000)
    await elector(client, "one", on_warning=warnings.append).release()
    assert warnings == []


async def test_releasing_after_a_conflict(api: KubeApi, client: Client) -> None:
    async with leading(client, "one") as one:
        slow = api.fail(verb="update", status=409)
        await until(lambda: slow.times == 0)
    conflict = api.fail(verb="update", status=409)
    await one.release()
    assert conflict.times == 0
    assert api.get(LEASES, "manager", NAMESPACE)["spec"]["holderIdentity"] == ""
