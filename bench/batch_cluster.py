"""A GPU cluster whose jobs are placed by the scheduler's own code; time is simulated."""

from __future__ import annotations

import heapq
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from koord_model.keys import LABEL_QUOTA_NAME
from koord_scheduler.config.scheduler_config import read_scheduler_config
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.node import read_node
from koord_scheduler.plugins.elastic_quota.columns import QuotaColumns
from koord_scheduler.plugins.elastic_quota.overuse import OveruseClock
from koord_scheduler.plugins.elastic_quota.quota_object import read_elastic_quota
from koord_scheduler.plugins.elastic_quota.revocation import pods_to_revoke
from koord_scheduler.state.pod_reader import PodReader

from bench.batch_jobs import TEAMS, Job

NODE_GPUS = 8
GPU = "koordinator.sh/gpu-core"
"""Hundredths of a card, as an amount of the node: cards themselves are not what this is about."""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled:
      - {name: ElasticQuota}
      - {name: Coscheduling}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: koordinator.sh/gpu-core, weight: 1}]
"""
REVOKE_SECONDS = 120.0
"""Time for which a quota may be above its own share, as ``delayEvictTime``."""
STEP_SECONDS = 60.0


class Policy(NamedTuple):
    """``lends``: teams may use what others leave. ``reclaims``: these get it back by evictions."""

    name: str
    lends: bool
    reclaims: bool = False


STRICT = Policy("strict quotas", lends=False)
LENDING = Policy("lending", lends=True)
RECLAIMING = Policy("lending, reclaimed", lends=True, reclaims=True)
POLICIES = (STRICT, LENDING, RECLAIMING)


@dataclass
class Usage:
    """Measured values: GPU-seconds, and seconds of waiting by the number of a job's members."""

    capacity: float = 0.0
    allocated: float = 0.0
    lost: float = 0.0
    fairness: list[float] = field(default_factory=list)
    waits: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    finished: int = 0
    evicted: int = 0


class BatchCluster:
    """``nodes`` alike nodes and a quota for each team; jobs are started whole."""

    def __init__(self, nodes: int, policy: Policy) -> None:
        self.gpus = nodes * NODE_GPUS
        self.policy = policy
        self.usage = Usage()
        profiles = read_scheduler_config(CONFIG).profiles
        self._scheduler = Scheduler([profile.profile for profile in profiles])
        self._reader = PodReader(self._scheduler.nodes)
        self._now = 0.0
        self._jobs: dict[str, Job] = {}
        self._pods: dict[str, tuple[Job, dict[str, Any]]] = {}
        self._running: dict[str, float] = {}
        self._bound: Counter[str] = Counter()
        self._ends: list[tuple[float, str]] = []
        self._overuse = OveruseClock(REVOKE_SECONDS)
        for number in range(nodes):
            self._scheduler.nodes.set(read_node(_node(number)))
        for team in TEAMS:
            quota = json.dumps(_quota(team, nodes, policy)).encode()
            self._scheduler.nodes.use(QuotaColumns).set_quota(
                f"{team}/{team}", read_elastic_quota(quota)
            )

    def run(self, jobs: Sequence[Job], until: float) -> Usage:
        """Let jobs arrive, run and end; what is under way at the end does not count as finished."""
        waiting = list(reversed(jobs))
        while self._now < until:
            while waiting and waiting[-1].arrival <= self._now:
                self._submit(waiting.pop())
            while self._ends and self._ends[0][0] <= self._now:
                self._finish(heapq.heappop(self._ends))
            if self.policy.reclaims:
                self._reclaim()
            self._decide()
            self._measure()
            self._now += STEP_SECONDS
        for name, job in self._jobs.items():
            if name not in self._running:
                self.usage.waits[job.members].append(self._now - job.arrival)
        return self.usage

    def _submit(self, job: Job) -> None:
        self._jobs[job.name] = job
        for member in range(job.members):
            document = _pod(job, member, self._now)
            read = self._reader.read(json.dumps(document).encode())
            self._pods[read.key] = job, document
            self._scheduler.set_pod(read, self._now)

    def _decide(self) -> None:
        self._scheduler.tick(self._now, self._now)
        self._scheduler.wake(self._now)
        while (decision := self._scheduler.decide(self._now)) is not None:
            if isinstance(decision, Placement):
                self._bind(decision)

    def _bind(self, placement: Placement) -> None:
        job, document = self._pods[placement.pod.key]
        document["spec"]["nodeName"] = placement.node
        self._scheduler.set_pod(self._reader.read(json.dumps(document).encode()), self._now)
        self._bound[job.name] += 1
        if self._bound[job.name] == job.members:
            self._running[job.name] = self._now
            heapq.heappush(self._ends, (self._now + job.seconds, job.name))

    def _finish(self, end: tuple[float, str]) -> None:
        at, name = end
        began = self._running.get(name)
        if began is None or abs(began + self._jobs[name].seconds - at) > 1e-6:
            return  # it was evicted, and began anew
        job = self._jobs[name]
        self.usage.waits[job.members].append(began - job.arrival)
        self.usage.finished += 1
        self._remove(name)
        del self._jobs[name]

    def _remove(self, name: str) -> None:
        job = self._jobs[name]
        for member in range(job.members):
            key = f"{job.team}/{job.name}-{member}"
            self._scheduler.remove_pod(key)
            self._pods.pop(key, None)
        self._running.pop(name, None)
        self._bound.pop(name, None)

    def _reclaim(self) -> None:
        """Evict of quotas that have been above their runtime for a while, whole jobs."""
        trees = self._scheduler.nodes.use(QuotaColumns).trees
        limits = {tree.name: trees.runtime(tree).get(GPU, 0) for tree in trees}
        used = {team: round(100 * gpus) for team, gpus in self._allocated().items()}
        over = [team for team, gpus in used.items() if gpus > limits[team]]
        for team in self._overuse.due(over, self._now):
            self._evict(team, used[team], limits[team])

    def _evict(self, team: str, used: int, most: int) -> None:
        """The youngest jobs go, and wait again from the beginning."""
        running = [
            (at, name) for name, at in self._running.items() if self._jobs[name].team == team
        ]
        pods = [(name, {GPU: round(self._jobs[name].gpus * 100)}) for _, name in sorted(running)]
        for name in pods_to_revoke({GPU: used}, {GPU: most}, pods):
            job = self._jobs[name]
            self.usage.lost += job.gpus * (self._now - self._running[name])
            self.usage.evicted += 1
            self._remove(name)
            self._submit(job)

    def _allocated(self) -> Mapping[str, float]:
        found = dict.fromkeys(TEAMS, 0.0)
        for name in self._running:
            found[self._jobs[name].team] += self._jobs[name].gpus
        return found

    def _measure(self) -> None:
        allocated = self._allocated()
        self.usage.capacity += self.gpus * STEP_SECONDS
        self.usage.allocated += sum(allocated.values()) * STEP_SECONDS
        demand = dict.fromkeys(TEAMS, 0.0)
        for job in self._jobs.values():
            demand[job.team] += job.gpus
        if sum(demand.values()) > self.gpus:
            fair = fair_shares(demand, float(self.gpus))
            self.usage.fairness.append(
                jain([min(allocated[team] / share, 1.0) for team, share in fair.items() if share])
            )


def fair_shares(demand: Mapping[str, float], total: float) -> dict[str, float]:
    """Return the shares of equal teams if cards could be cut: nobody gets more than its demand."""
    shares: dict[str, float] = {}
    left = sorted((amount, team) for team, amount in demand.items())
    for place, (amount, team) in enumerate(left):
        shares[team] = min(amount, total / (len(left) - place))
        total -= shares[team]
    return shares


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness: 1 where all have equally much of what they should."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def percentile(values: Sequence[float], part: float) -> float:
    """Of sorted copies of the values."""
    return statistics.quantiles(values, n=100, method="inclusive")[round(part * 100) - 1]


def _node(number: int) -> bytes:
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "250", GPU: str(NODE_GPUS * 100)}
    metadata = {"name": f"node-{number}"}
    return json.dumps({"metadata": metadata, "status": {"allocatable": amounts}}).encode()


def _quota(team: str, nodes: int, policy: Policy) -> dict[str, Any]:
    """A fifth of the cluster's cards; CPU and memory are not limited."""
    everything = nodes * NODE_GPUS * 100
    least = everything // len(TEAMS)
    most = everything if policy.lends else least
    spec = {"min": {GPU: str(least)}, "max": {GPU: str(most)}}
    return {"metadata": {"name": team, "namespace": team}, "spec": spec}


def _pod(job: Job, member: int, now: float) -> dict[str, Any]:
    requests = {"cpu": f"{job.cpu_milli}m", "memory": f"{job.memory_mib}Mi"}
    requests[GPU] = str(job.gpu_milli // 10)
    metadata: dict[str, Any] = {
        "name": f"{job.name}-{member}",
        "namespace": job.team,
        "uid": f"{job.name}-{member}-{now}",
        "labels": {LABEL_QUOTA_NAME: job.team},
    }
    if job.members > 1:
        metadata["annotations"] = {
            "gang.scheduling.koordinator.sh/name": job.name,
            "gang.scheduling.koordinator.sh/min-available": str(job.members),
        }
    container = {"name": "c", "resources": {"requests": requests}}
    return {"metadata": metadata, "spec": {"containers": [container]}}
