"""Gangs of 1,000 pods in a network of 5,120 nodes: the CPU time of the planner and the decision.

``python -m bench.network_topology`` measures and writes bench/results/network_topology.*.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.gang_planner import GangCandidate, GangPlanner, GangRequest
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.gangs.gang_spec import GangDefaults
from koord_scheduler.plugins.coscheduling.network.cluster_network import ClusterNetwork
from koord_scheduler.plugins.coscheduling.plugin import Coscheduling
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord_scheduler.state.arrays import Rows

from bench import report
from bench.report import RESULTS, Measure

SPINES, BLOCKS, RACKS, NODES, GPUS, PODS = 2, 5, 16, 32, 8, 1000
ROUNDS = 7
GANG = "gang.scheduling.koordinator.sh"
LAYERS = ("spine", "block", "rack")
SPECS = [
    *(
        {"topologyLayer": one, "parentTopologyLayer": up, "labelKey": [one]}
        for one, up in zip(LAYERS, ("", *LAYERS), strict=False)
    ),
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rack"},
]


class Network:
    """Nodes, most of whose racks are in use, and a gang that waits."""

    def __init__(self, gpus: tuple[int, ...], seed: int) -> None:
        """Pods ask for so many GPUs, in turn."""
        plugins = (
            EnabledPlugin(NodeResourcesFit()),
            EnabledPlugin(Coscheduling(gathers=True), weight=0),
        )
        profile = Profile("default-scheduler", plugins, preempts=False, gangs=GangDefaults())
        self.scheduler = Scheduler([profile])
        kinds = (*cluster_kinds(self.scheduler), pod_kind(self.scheduler, lambda: 0.0))
        self._kinds = {kind.resource.kind: kind for kind in kinds}
        topology = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": SPECS}}
        self._put("ClusterNetworkTopology", "default", topology)
        self._put_nodes(np.random.default_rng(seed))
        spec = json.dumps({"gatherStrategy": [{"layer": "spine", "strategy": "MustGather"}]})
        annotations = {
            f"{GANG}/name": "g",
            f"{GANG}/min-available": str(PODS),
            f"{GANG}/network-topology-spec": spec,
        }
        for number in range(PODS):
            requests = {"gpu": str(gpus[number % len(gpus)])}
            metadata = {"name": f"g-{number}", "namespace": "d", "uid": f"{number}"}
            pod = {
                "metadata": {**metadata, "annotations": annotations},
                "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
            }
            self._put("Pod", f"d/g-{number}", pod)

    def _put(self, kind: str, key: str, document: object) -> None:
        self._kinds[kind].put(key, self._kinds[kind].read(json.dumps(document).encode()))

    def _put_nodes(self, chance: np.random.Generator) -> None:
        is_busy = chance.random(SPINES * BLOCKS * RACKS) < 0.4
        for number in range(SPINES * BLOCKS * RACKS * NODES):
            rack = number // NODES
            block = rack // RACKS
            labels = {"rack": f"r{rack}", "block": f"b{block}", "spine": f"s{block // BLOCKS}"}
            free = int(chance.integers(0, GPUS + 1)) if is_busy[rack] else GPUS
            metadata = {"name": f"n{number}", "labels": labels}
            amounts = {"gpu": str(free), "pods": "110"}
            document = {"metadata": metadata, "status": {"allocatable": amounts}}
            self._put("Node", f"n{number}", document)

    def decide(self) -> int:
        """Count the pods that get nodes."""
        number = 0
        while isinstance(self.scheduler.decide(0.0), Placement):
            number += 1
        return number


class TimedPlanner:
    """Another planner, and how long its first plans took."""

    def __init__(self, planner: GangPlanner) -> None:
        self.seconds = list[float]()
        self._planner = planner

    def candidates(self, request: GangRequest) -> Iterable[GangCandidate] | str:
        start = time.process_time()
        found = self._planner.candidates(request)
        if isinstance(found, str):
            return found
        rest: Iterator[GangCandidate] = iter(found)
        first = next(rest)
        self.seconds.append(time.process_time() - start)
        return chain([first], rest)

    def rows_to_free(self, request: GangRequest) -> Rows | None:
        return self._planner.rows_to_free(request)

    def domains(self, request: GangRequest) -> Sequence[Rows] | None:
        return self._planner.domains(request)


def turn(gpus: tuple[int, ...], seed: int) -> tuple[float, float, float]:
    """Milliseconds until there is a plan, with the tree and without, and for the whole decision."""
    network = Network(gpus, seed)
    planner = network.scheduler.gang_cycle.planner
    assert planner is not None
    network.scheduler.gang_cycle.planner = timed = TimedPlanner(planner)
    start = time.process_time()
    placed = network.decide()
    whole = time.process_time() - start
    assert placed == PODS
    again = Network(gpus, seed)
    planner = again.scheduler.gang_cycle.planner
    assert planner is not None
    again.scheduler.gang_cycle.planner = warm = TimedPlanner(planner)
    again.scheduler.nodes.use(ClusterNetwork).tree()
    again.decide()
    return timed.seconds[0] * 1e3, warm.seconds[0] * 1e3, whole * 1e3


def measure(rounds: int = ROUNDS) -> list[Measure]:
    """Gangs whose pods are alike, fill half a node or are of three kinds."""
    found = []
    kinds = {"1 GPU each": (1,), "8 GPUs each": (8,), "1, 2 or 4 GPUs": (1, 2, 4)}
    for name, gpus in kinds.items():
        turns = [turn(gpus, seed) for seed in range(rounds)]
        cold, warm, whole = ([*map(float, one)] for one in zip(*turns, strict=True))
        about = f"{PODS} pods, {name}"
        median = statistics.median
        found += [
            Measure(f"{about}: plan", "ms", median(warm), "", None, 50.0),
            Measure(
                f"{about}: plan, nodes' labels have changed", "ms", median(cold), "", None, None
            ),
            Measure(f"{about}: all pods placed", "ms", median(whole), "", None, None),
        ]
    return found


def main() -> None:
    """Measure, print and write."""
    measures = measure()
    print(report.table(measures))
    settings = {
        "nodes": SPINES * BLOCKS * RACKS * NODES,
        "spines, blocks, racks": f"{SPINES} × {BLOCKS} × {RACKS}, 40 % of the racks in use",
        "gather": "MustGather spine",
    }
    report.write(measures, "network_topology", settings)
    print(f"written to {RESULTS.relative_to(RESULTS.parent.parent)}/")


if __name__ == "__main__":
    main()
