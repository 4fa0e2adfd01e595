"""Leaders that are killed, and times without the API server."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from random import Random

import anyio
from koord_kube.protocol.resources import PODS

from tests.apiserver.scheduler_cluster import NAMESPACE, ScheduledCluster
from tests.chaos_scheduler.replicas import Replicas, wait
from tests.chaos_scheduler.report import ChurnReport, Pause
from tests.chaos_scheduler.workloads import pod
from tests.support.waiting import until


class Faults:
    """One at a time; each leaves all programs running again."""

    def __init__(
        self,
        cluster: ScheduledCluster,
        replicas: Replicas,
        report: ChurnReport,
        bound: Callable[[], list[str]],
        rng: Random,
    ) -> None:
        """``bound`` names the pods that have a node."""
        self._cluster = cluster
        self._replicas = replicas
        self._report = report
        self._bound = bound
        self._rng = rng

    async def strike(self, seconds: float, kills: int, pauses: int) -> None:
        """All of them within about so many seconds, mixed."""
        faults = [self._kill_leader] * kills
        faults += [self._stop_server, self._restart_server] * (pauses // 2)
        faults += [self._stop_server] * (pauses % 2)
        self._rng.shuffle(faults)
        for one in faults:
            await anyio.sleep(seconds / len(faults))
            await one()

    async def hand_over(self) -> None:
        """The leader ends as it is asked to."""
        leader, other = await self._replicas.leader_and_other()
        await asyncio.to_thread(leader.stop)
        await wait(lambda: other.leads, "the other leads")
        leader.start()
        await wait(lambda: leader.ready, "the stopped one is back")

    async def _kill_leader(self) -> None:
        leader, other = await self._replicas.leader_and_other()
        leader.kill()
        self._report.kills += 1
        await wait(lambda: other.leads, "the other leads")
        leader.start()
        began = time.monotonic()
        await wait(lambda: leader.ready, "the killed one is ready again")
        self._report.ready_again.append(time.monotonic() - began)

    async def _stop_server(self) -> None:
        """It answers nothing, and goes on where it was."""
        server, began = self._cluster.server.program, time.monotonic()
        server.signal(signal.SIGSTOP)
        await anyio.sleep(self._rng.uniform(2.0, 7.0))
        server.signal(signal.SIGCONT)
        await self._resumed("stopped", began)

    async def _restart_server(self) -> None:
        """Connections are lost, and what watches had not reported yet is not reported."""
        server, began = self._cluster.server, time.monotonic()
        server.program.kill()
        await anyio.sleep(self._rng.uniform(0.0, 3.0))
        server.start()
        await asyncio.to_thread(server.wait_until_ready)
        await self._resumed("killed", began)

    async def _resumed(self, how: str, began: float) -> None:
        back, name = time.monotonic(), f"after-pause-{len(self._report.pauses)}"
        await self._cluster.client.create(PODS, pod(name, "1m"), NAMESPACE)
        await until(lambda: name in self._bound(), f"a node for {name}")
        decided = time.monotonic() - back
        self._report.pauses.append(Pause(how, back - began, decided))
