"""Candidates for a Lease at a real API server: how soon the next one leads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path

import pytest
from koord_kube.client import Limits
from koord_kube.connect import connect
from koord_kube.core.election import ElectionTiming
from koord_kube.lease_elector import LeaseElector

from tests.apiserver.real_cluster import RealCluster
from tests.support.manager_program import NAMESPACE
from tests.support.waiting import until

ACCOUNT = LEASE = "koord-scheduler"
TIMING = ElectionTiming(lease=5, deadline=4.0, retry=2.0)
"""Who only reads the Lease sees a renewal or a release up to 2.4 s later."""
RELEASES, EXPIRIES = 10, 3
WITHIN = 1.0
"""Seconds from the moment at which it is released, or expires, until another one leads."""


class Candidates:
    """A leader and two standbys; who is gone is replaced."""

    def __init__(self, kubeconfig: Path, stack: AsyncExitStack, group: asyncio.TaskGroup) -> None:
        self._kubeconfig = kubeconfig
        self._stack = stack
        self._group = group
        self._running: dict[LeaseElector, asyncio.Task[None]] = {}
        self.count = 0
        self.warnings: list[str] = []

    async def add(self) -> None:
        """One more, with connections of its own."""
        self.count += 1
        client = await connect(str(self._kubeconfig), Limits(qps=0))
        await self._stack.enter_async_context(client)
        one = LeaseElector(
            client,
            f"candidate-{self.count}",
            name=LEASE,
            namespace=NAMESPACE,
            timing=TIMING,
            on_warning=self.warnings.append,
        )
        self._running[one] = self._group.create_task(one.run())

    async def release(self) -> float:
        """For how many seconds nobody leads, if the leader stops."""
        leader = await self._leader()
        began = time.time()
        await leader.release()
        return await self._next_leads(leader) - began

    async def expire(self, cluster: RealCluster) -> float:
        """For how many seconds nobody leads after the Lease expires, if the leader is killed."""
        leader = await self._leader()
        self._running[leader].cancel()
        lease = await asyncio.to_thread(cluster.get, "lease", LEASE, "-n", NAMESPACE)
        renewed = datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp()
        return await self._next_leads(leader) - renewed - TIMING.lease

    async def _leader(self) -> LeaseElector:
        """The one that all have seen lead; replace who was before."""
        while len(self._running) < 3:
            await self.add()

        def find() -> list[LeaseElector]:
            leaders = [one for one in self._running if one.leads]
            seen = {one.leader for one in self._running}
            return leaders if seen == {one.identity for one in leaders} else []

        [found] = await until(find)
        return found

    async def _next_leads(self, before: LeaseElector) -> float:
        del self._running[before]
        await until(lambda: any(one.leads for one in self._running))
        now = time.time()
        assert [one.leads for one in self._running].count(True) == 1
        return now

    def end(self) -> None:
        for task in self._running.values():
            task.cancel()


@asynccontextmanager
async def candidates(kubeconfig: Path) -> AsyncIterator[Candidates]:
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        made = Candidates(kubeconfig, stack, group)
        yield made
        made.end()


@pytest.fixture
def cluster(installed: RealCluster) -> RealCluster:
    ours = ("-n", NAMESPACE, "--ignore-not-found")
    installed.kubectl("delete", "lease", LEASE, *ours)
    return installed


async def test_the_next_one_leads_within_a_second(cluster: RealCluster) -> None:
    """With the rights that deploy/ gives."""
    kubeconfig = cluster.server.kubeconfig("candidate", cluster.token(ACCOUNT))
    async with candidates(kubeconfig) as made:
        released = [await made.release() for _ in range(RELEASES)]
        expired = [await made.expire(cluster) for _ in range(EXPIRIES)]
    print("released", *(f"{one:.3f}" for one in sorted(released)))
    print("expired", *(f"{one:.3f}" for one in sorted(expired)))
    assert made.warnings == []
    assert max(released) < WITHIN
    assert min(expired) > 0.0, "not before the Lease has expired"
    assert max(expired) < WITHIN


async def test_without_the_right_to_watch_it_takes_a_retry_period(cluster: RealCluster) -> None:
    rule = ("--resource=leases.coordination.k8s.io", "-n", NAMESPACE)
    cluster.kubectl("create", "sa", "reader", "-n", NAMESPACE)
    cluster.kubectl("create", "role", "reader", "--verb=get,create,update", *rule)
    account = f"--serviceaccount={NAMESPACE}:reader"
    cluster.kubectl("create", "rolebinding", "reader", "--role=reader", account, "-n", NAMESPACE)
    kubeconfig = cluster.server.kubeconfig("reader", cluster.token("reader"))
    async with candidates(kubeconfig) as made:
        released = [await made.release() for _ in range(3)]
    print("released", *(f"{one:.3f}" for one in sorted(released)))
    assert len(made.warnings) == made.count, made.warnings
    assert all('cannot watch resource "leases"' in one for one in made.warnings)
