"""`make demo-scheduler`: ten thousand pods on a thousand nodes, without a cluster."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from random import Random

import msgspec
import numpy as np
from koord_scheduler.config.scheduler_config import default_scheduler_config
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.node import read_node
from koord_scheduler.program.explanation import Now, explain_waiting
from koord_scheduler.state.pod_reader import ClusterPod, PodReader
from koordctl.output.tables import plain
from koordctl.placement_text import waiting_lines
from koordctl.scheduler_documents import PlacementDocument
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from koord_demo import scheduler_cluster

_STEP = 50
"""Decisions between two looks at the progress bar."""
_NODES_SHOWN = 3
_BAR = 30


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """A scheduler, and the pods that it has heard of by their keys."""

    scheduler: Scheduler
    pods: dict[str, ClusterPod]


def main() -> None:
    """Place all pods, and show what came of it."""
    parser = argparse.ArgumentParser(
        prog="python -m koord_demo.scheduling",
        description="Place pods on the nodes of a made-up cluster, with the scheduler's own code.",
    )
    parser.add_argument("--nodes", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--pods", type=int, default=10_000, help="default: %(default)s")
    arguments = parser.parse_args()
    # Output that is not a terminal has no width, and the usual 80 columns are too few.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    console.rule("[bold]koord-scheduler on a made-up cluster", style="dim")
    console.print(
        f"{arguments.nodes:,} nodes in 3 zones, some with taints and GPUs; {arguments.pods:,} pods "
        "of 40 classes, with\nspread constraints, affinity, tolerations, host ports and GPUs. No "
        "API server: decisions alone.\n"
    )
    cluster = make_cluster(arguments.nodes, arguments.pods)
    began = time.perf_counter()
    placed = place(console, cluster)
    show(console, cluster, placed, time.perf_counter() - began)


def make_cluster(nodes: int, pods: int) -> DemoCluster:
    """Nodes without pods, and pods that wait."""
    scheduler = Scheduler([profile.guarded() for profile in default_scheduler_config().profiles])
    for raw in scheduler_cluster.nodes(nodes):
        scheduler.nodes.set(read_node(raw))
    reader, now = PodReader(scheduler.nodes), time.monotonic()
    found = [reader.read(raw) for raw in scheduler_cluster.pods(pods, Random(1))]
    for pod in found:
        scheduler.set_pod(pod, now)
    return DemoCluster(scheduler, {pod.key: pod for pod in found})


def place(console: Console, cluster: DemoCluster) -> int:
    """Give all pods their nodes; returns how many got one."""
    scheduler, placed = cluster.scheduler, 0
    bar = Progress(
        TextColumn("placing"),
        BarColumn(_BAR),
        MofNCompleteColumn(),
        TextColumn("{task.fields[at]}", style="dim"),
        console=console,
    )
    with bar:
        task = bar.add_task("", total=len(cluster.pods), at="")
        while (decision := scheduler.decide(time.monotonic())) is not None:
            if not isinstance(decision, Placement):
                continue
            placed += 1
            if placed % _STEP == 0:
                at = f"{decision.pod.key} → {decision.node}"
                bar.update(task, completed=placed, at=at)
        bar.update(task, completed=placed, at="")
    return placed


def show(console: Console, cluster: DemoCluster, placed: int, seconds: float) -> None:
    """Figures, the fullest and the emptiest nodes, and why one of the pods waits."""
    rate = placed / seconds
    waiting = cluster.scheduler.queue.pods
    console.print(
        f"\n[bold]{placed:,}[/] pods placed in {seconds:.1f} s: [bold]{rate:,.0f}[/] pods/s, each "
        f"on the best of all nodes. {len(waiting):,} wait.\n"
    )
    console.print(_node_table(cluster.scheduler))
    if not waiting:
        return
    # The largest of them has most to say.
    key = max(waiting, key=lambda pod: (waiting[pod].waiting.usage.request, pod))
    now = Now(time.monotonic(), time.time())
    found = explain_waiting(cluster.scheduler, cluster.pods[key], now)
    console.print(f"\n[bold]Why does one of them wait?[/] [dim]koordctl why pending {key}[/]\n")
    for line in plain(waiting_lines(msgspec.convert(found, PlacementDocument))):
        console.print(line, markup=False)


def _node_table(scheduler: Scheduler) -> Table:
    """The nodes whose CPU is requested most, and those where it is least."""
    nodes = scheduler.nodes
    rows = np.flatnonzero(nodes.is_node)
    number = nodes.resources.column("cpu")
    has = nodes.resources.allocatable[number, rows]
    used = nodes.resources.requested[number, rows] / has
    order = rows[used.argsort()[::-1]], np.sort(used)[::-1]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("node", "CPU requested", "", "pods"):
        table.add_column(title, justify="right" if title in ("", "pods") else "left")
    by_rank = list(zip(*order, strict=True))
    for title, part in (
        ("fullest", by_rank[:_NODES_SHOWN]),
        ("emptiest", by_rank[-_NODES_SHOWN:]),
    ):
        table.add_row(f"[dim]{title}[/]")
        for row, share in part:
            full = round(share * _BAR)
            bar = f"[green]{'█' * full}[/][dim]{'░' * (_BAR - full)}[/]"
            pods = sum(1 for _ in scheduler.placed.on(int(row)))
            table.add_row(nodes.name(int(row)), bar, f"{100 * share:.0f} %", str(pods))
    return table


if __name__ == "__main__":
    main()
