"""Thousands of gangs that wait in vain leave others most of the scheduler's decisions."""

from __future__ import annotations

from typing import cast

from koord_scheduler.framework.decisions import Decision, ExtenderQuestion, Placement
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.queue.scheduling_queue import ClassQueue, QueuedPod
from koord_scheduler.framework.waker import Look
from koord_scheduler.io.extender_client import ExtenderClient
from koord_scheduler.io.scheduling_loop import SchedulingLoop
from koord_scheduler.plugins.node_affinity import NodeAffinity

from tests.support.gangs import GangCluster, gang_annotations

GANGS = 2_000
SECONDS = 12.0
LOOK, PLACEMENT, ATTEMPT = 0.002, 0.004, 0.008
"""What takes so many seconds here: time passes by nothing else."""


class Busy:
    """A Deployment whose pods end as soon as they run, beside gangs of which a part never fits."""

    def __init__(self, gangs: int) -> None:
        self.cluster = GangCluster("n1", more=[EnabledPlugin(NodeAffinity(), weight=0)])
        self.now, self.looks, self.attempts, self.placed = 0.0, 0, 0, 0
        scheduler = self.cluster.scheduler
        self.look, scheduler.look = scheduler.look, self.spend_on_look  # type: ignore[method-assign]
        self.decide, scheduler.decide = scheduler.decide, self.spend_on_decision  # type: ignore[method-assign]
        self.loop = SchedulingLoop(scheduler, lambda: "", self, lambda: self.now, lambda: self.now)
        for number in range(gangs):
            annotations = gang_annotations(f"g{number}", 2)
            self.cluster.pod(f"g{number}-0", annotations)
            self.cluster.pod(f"g{number}-1", annotations, nodeSelector={"no": "where"})
        while self.decide(self.now) is not None:
            pass
        self.web(0)

    def web(self, number: int) -> None:
        """The Deployment makes one more pod."""
        self.cluster.now = self.now
        self.cluster.pod(f"web-{number}", labels={"app": "web"})

    def spend_on_look(self, queue: ClassQueue, now: float) -> Look:
        self.now += LOOK
        self.looks += 1
        return self.look(queue, now)

    def spend_on_decision(self, now: float) -> Decision | ExtenderQuestion | None:
        found = self.decide(now)
        if isinstance(found, Placement):
            self.now += PLACEMENT
        elif found is not None:
            self.now += ATTEMPT
            self.attempts += 1
        return found

    def carry_out(self, decision: Decision) -> None:
        if isinstance(decision, Placement):
            assert decision.pod.key.startswith("d/web")
            self.placed += 1
            self.cluster.bind(decision)
            self.cluster.remove(decision.pod.key)
            self.web(self.placed)
            self.loop.notice_change()

    async def run(self) -> int:
        """How many pods of the Deployment get nodes in that time."""
        while self.now < SECONDS:
            nobody = cast("ExtenderClient", None)
            if not await self.loop._decide(nobody, self.carry_out, lambda: 0):
                self.now += 0.001
        return self.placed

    def decided(self, decision: Decision, seconds: float) -> None:
        """Nobody has to know."""

    def bound(self, placement: Placement) -> None:
        """Nobody has to know."""

    def not_bound(self, pod: QueuedPod, reason: str) -> None:
        """Nobody has to know."""


async def test_a_deployment_keeps_its_share_of_decisions_beside_gangs_that_wait() -> None:
    alone, beside = Busy(0), Busy(GANGS)
    most = await alone.run()
    assert await beside.run() >= most / 2
    assert beside.looks > GANGS / 20, "they are looked at all the time"
    assert beside.attempts > 0
