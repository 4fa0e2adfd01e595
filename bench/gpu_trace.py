"""The GPU traces of Alibaba (cluster-trace-gpu-v2023), and how the simulator of FGD draws pods.

The rules are those of github.com/hkust-adsl/kubernetes-scheduler-simulator (at 8f3d6417): the pods
of a trace in random order, then more of them at random with repetition, until the next one would
request more than 130 % of the cluster's GPUs; a trace that requests more loses pods at random. Its
random numbers are Go's; these are numpy's.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from koord_scheduler.plugins.device_share.gpu_nodes import WHOLE, GpuNodes, GpuRequest

ARRIVING = 1.3
"""GPUs that all pods together request, of those of the cluster."""


@dataclass(frozen=True)
class GpuCluster:
    """All nodes empty, and the models of their cards by code; names of nodes are in order."""

    nodes: GpuNodes
    models: tuple[str, ...]

    @property
    def capacity(self) -> float:
        """Thousandths of cards."""
        return float(self.nodes.cards.sum())


def read_cluster(folder: Path) -> GpuCluster:
    with (folder / "openb_node_list_gpu_node.csv").open() as file:
        lines = sorted(csv.DictReader(file), key=lambda line: line["sn"])
    models = tuple(sorted({line["model"] for line in lines}))
    counts = np.array([int(line["gpu"]) for line in lines])
    has_card = np.arange(counts.max()) < counts[:, None]
    nodes = GpuNodes(
        np.array([float(line["cpu_milli"]) for line in lines]),
        np.array([float(line["memory_mib"]) for line in lines]),
        np.where(has_card, float(WHOLE), 0.0),
        np.array([models.index(line["model"]) for line in lines]),
    )
    return GpuCluster(nodes, models)


def read_pods(folder: Path, trace: str, models: tuple[str, ...]) -> list[GpuRequest]:
    with (folder / f"openb_pod_list_{trace}.csv").open() as file:
        return [_request(line, models) for line in csv.DictReader(file)]


def _request(line: dict[str, str], models: tuple[str, ...]) -> GpuRequest:
    cpu, memory, cards = float(line["cpu_milli"]), float(line["memory_mib"]), int(line["num_gpu"])
    if not cards:
        return GpuRequest(cpu, memory)
    named = [name for name in (line.get("gpu_spec") or "").split("|") if name]
    accepted = frozenset(models.index(name) for name in named if name in models) if named else None
    return GpuRequest(cpu, memory, cards, min(int(line["gpu_milli"]), WHOLE), accepted)


def arriving_pods(pods: list[GpuRequest], capacity: float, seed: int) -> list[GpuRequest]:
    """The pods of one run in the order in which they arrive."""
    random = np.random.default_rng(seed)
    order = [pods[place] for place in random.permutation(len(pods))]
    requested = sum(pod.cards * pod.share for pod in order)
    if requested > ARRIVING * capacity:
        while requested > ARRIVING * capacity:
            left_out = order.pop(int(random.integers(len(order))))
            requested -= left_out.cards * left_out.share
        return order
    while True:
        pod = pods[int(random.integers(len(pods)))]
        if requested + pod.share > ARRIVING * capacity:  # of one card: so has the simulator
            return order
        requested += pod.cards * pod.share
        order.append(pod)
