"""A day of 5,000 nodes: pods come and go, nodes are replaced; memory and columns at the end.

Arrivals follow the hour, pods live for minutes to hours, Deployments are rolled (new labels, so
new classes), nodes go and come. ``python -m bench.scheduler_day`` writes
bench/results/scheduler_day.*.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import json
import math
import os
import random
import time
from typing import Any

import numpy as np
from koord_scheduler.config.scheduler_config import default_scheduler_config
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.node import read_node
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.placed_pods import PlacedPods
from koord_scheduler.state.pod_reader import ClusterPod, PodReader

from bench import programs, report
from bench.report import Measure
from bench.scheduler_core import node, pod

NODES, HOURS, ARRIVALS_A_SECOND = 5_000, 24, 5.0
DEPLOYMENTS = 300
TICK_SECONDS = 60.0


class Day:
    """Simulated time in seconds; what the API would say is said at once."""

    def __init__(self, nodes: int, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.scheduler = Scheduler(
            [profile.profile for profile in default_scheduler_config().profiles]
        )
        self.reader = PodReader(self.scheduler.nodes)
        self.now = 0.0
        self.made = 0
        self.decisions = 0
        self.ends: list[tuple[float, str]] = []
        self.documents: dict[str, dict[str, Any]] = {}
        self.versions = [0] * DEPLOYMENTS
        self.nodes = {f"node-{number}": number for number in range(nodes)}
        for number in self.nodes.values():
            self.scheduler.nodes.set(read_node(node(number)))

    def tick(self) -> None:
        """A minute of it."""
        self.now += TICK_SECONDS
        hour = self.now / 3600 % 24
        rate = ARRIVALS_A_SECOND * (1 + 0.7 * math.sin((hour - 8) / 24 * 2 * math.pi))
        for _ in range(int(rate * TICK_SECONDS)):
            self._arrive()
        while self.ends and self.ends[0][0] <= self.now:
            self._leave(heapq.heappop(self.ends)[1])
        if self.rng.random() < 0.5:
            self.versions[self.rng.randrange(DEPLOYMENTS)] += 1
        if self.rng.random() < 0.2:
            self._replace_node()
        self.scheduler.queue.tick(self.now)
        self.scheduler.wake(self.now)
        while (decision := self.scheduler.decide(self.now)) is not None:
            self.decisions += 1
            if isinstance(decision, Placement):
                self._confirm(decision.pod.key, decision.node)

    def _arrive(self) -> None:
        self.made += 1
        kind = min(int(self.rng.expovariate(0.02)), DEPLOYMENTS - 1)
        given = json.loads(pod(self.made, kind, "plain" if kind % 3 else "spread"))
        given["metadata"]["labels"]["pod-template-hash"] = str(self.versions[kind])
        read = self._set(given)
        lives = self.rng.lognormvariate(8.0, 1.2)
        heapq.heappush(self.ends, (self.now + lives, read.key))

    def _set(self, given: dict[str, Any]) -> ClusterPod:
        read = self.reader.read(json.dumps(given).encode())
        self.documents[read.key] = given
        self.scheduler.set_pod(read, self.now)
        return read

    def _confirm(self, key: str, name: str) -> None:
        given = self.documents[key]
        self._set({**given, "spec": {**given["spec"], "nodeName": name}})

    def _leave(self, key: str) -> None:
        if self.documents.pop(key, None) is not None:
            self.scheduler.remove_pod(key)

    def _replace_node(self) -> None:
        """With a node go its pods, and another one comes."""
        name = self.rng.choice(list(self.nodes))
        row = self.scheduler.nodes.row(name)
        assert row is not None
        for key in [one.key for one in self.scheduler.placed.on(row)]:
            self._leave(key)
        self.scheduler.nodes.remove(name)
        del self.nodes[name]
        number = NODES + self.made
        self.nodes[f"node-{number}"] = number
        self.scheduler.nodes.set(read_node(node(number)))

    def differences(self) -> int:
        """Nodes whose columns are not what a recount of pods gives."""
        columns = ClusterState()
        for number in self.nodes.values():
            columns.set(read_node(node(number)))
        recount, reader = PlacedPods(columns), PodReader(columns)
        for key, given in self.documents.items():
            placed = self.scheduler.placed.by_key.get(key)
            if placed is not None:
                usage = reader.read(json.dumps(given).encode()).usage
                recount.set(placed._replace(usage=usage))
        return sum(self._is_other(columns, name) for name in self.nodes)

    def _is_other(self, columns: ClusterState, name: str) -> bool:
        ours, theirs = self.scheduler.nodes, columns
        here, there = ours.row(name), theirs.row(name)
        assert here is not None
        assert there is not None
        for resource in ours.resources.names:
            other = theirs.resources.asked_of(resource, there)
            if ours.resources.asked_of(resource, here) != other:
                return True
        scored = ours.resources.scored[:, here], theirs.resources.scored[:, there]
        return not np.array_equal(*scored)


def memory() -> float:
    """Resident megabytes, after a collection."""
    gc.collect()
    return programs.rss_megabytes(os.getpid())


def main(nodes: int = NODES, hours: int = HOURS) -> None:
    day = Day(nodes)
    after: list[float] = []
    began = time.process_time()
    for hour in range(hours):
        for _ in range(60):
            day.tick()
        after.append(memory())
        placed = len(day.scheduler.placed.by_key)
        print(
            f"hour {hour + 1}: {day.made} pods so far, {placed} placed, {after[-1]:.0f} MB",
            flush=True,
        )
    seconds = time.process_time() - began
    # The first hours fill the cluster, and what is remembered of pods that are gone.
    before = after[len(after) * 3 // 4 - 1]
    growth = (after[-1] - before) / before * 100
    differences = day.differences()
    measures = [
        Measure("memory at the end over that after three quarters", "%", growth, "", None, 5.0),
        Measure("nodes whose columns differ from a recount", "", differences, "", None, 0.0),
        Measure("memory at the end", "MB", after[-1], "", None, None),
        Measure(
            "CPU of a decision and three events",
            "µs",
            seconds / day.decisions * 1e6,
            "",
            None,
            None,
        ),
    ]
    print(report.table(measures))
    settings = {"nodes": nodes, "hours": hours, "pods": day.made, "decisions": day.decisions}
    report.write(measures, "scheduler_day", settings)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler_day", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--hours", type=int, default=HOURS)
    options = parser.parse_args()
    main(options.nodes, options.hours)
