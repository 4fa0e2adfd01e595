"""Nodes that report straight to the manager: what it costs, and how that grows with their number.

Measured is koord-manager itself, leading, with all of its usual controllers, webhooks and the
NodeMetric API, once it has read everything and the first wave of writes is over. Nodes are in
processes of their own; each has its connection with TLS, its token and its reports: 50 pods, gzip
as koordlet has it, each 10 s at a time of its own. Usage moves by some percent, and by a third
often enough that as many nodes are written as if each was every five minutes, the most that is
written of nodes that do not move. The API server is a lean double (``lean_api``), another process:
it holds all Nodes, their NodeResourceTopologies and pods, answers TokenReviews, and lets pods come
and go. At the number of nodes that the target is about, pods are created besides, after that. With
10,000 nodes, a second run has every gate of the manager on, and work for the features behind them
(``gated_cluster``); nobody asks the metrics APIs.

``python -m bench.reports [NODES …]`` measures and writes bench/results/reports.*.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from bench import gated_cluster, large_cluster, node_link, report, webhooks
from bench.large_cluster import INTERVAL, PODS
from bench.manager import WRITES, Manager, program, running_manager
from bench.open_loop import percentile
from bench.programs import cpu_micros, peak_megabytes, rss_megabytes
from bench.report import Measure

NODES = 5_000
SWEEP = (1_000, 5_000, 10_000, 20_000)
GATED = 10_000
"""Nodes of the run with every gate on, which comes after that with the usual parts."""
SECONDS = 20.0
"""Duration of the target's run: all tokens are asked about anew. Others: less."""

_SECONDS_OF_OTHERS = 20.0
_SECONDS_OF_GATED = 60.0  # as Recommendations are computed each minute
_MOST_SETTLING = 45.0
_SPARE = 1_000  # descriptors of a process that are no nodes'
_PER_LOADER = 10_000
_LOOK_SECONDS = 5.0
_FEW = 50  # objects that wait in queues where nothing is wrong


@dataclass(frozen=True)
class Run:
    """Costs of some nodes; ``rate`` is of reports taken a second, answers are in milliseconds.

    ``takeover`` is seconds from the start of the program to its first pass over all nodes.
    ``writes`` are objects written a second, ``passes`` the milliseconds of some passes.
    """

    nodes: int
    connections: int
    takeover: float
    cores: float
    mebibytes: float
    peak: float
    rate: float
    answers: Sequence[float]
    writes: float
    passes: Sequence[float]
    waiting: float
    webhooks: webhooks.Turn | None
    gated: bool = False

    @property
    def name(self) -> str:
        """Its number of nodes, for people."""
        return f"{self.nodes} nodes" + (", every gate on" if self.gated else "")

    @property
    def held(self) -> bool:
        """True if the reports were taken as they came; if not, one process is at its end."""
        return self.rate > 0.98 * self.nodes / INTERVAL

    @property
    def pass_ms(self) -> float:
        return statistics.median(self.passes)

    def __str__(self) -> str:
        return (
            f"{self.cores:.2f} cores, {self.mebibytes:.0f} MiB ({self.peak:.0f} at most), "
            f"{self.rate:.0f} of {self.nodes / INTERVAL:.0f} reports a second, answers "
            f"{percentile(self.answers, 0.5):.2g} and {percentile(self.answers, 0.99):.3g} ms (p50 "
            f"and p99), pass {self.pass_ms:.3g} ms, {self.writes:.3g} writes a second, "
            f"{self.takeover:.0f} s from start to first pass"
        )


def run(nodes: int, seconds: float, *, pods: bool = False, gates: Sequence[str] = ()) -> Run:
    """All nodes connect and report until the first writes are done, and then it counts."""
    connections = min(nodes, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - _SPARE)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="koord-bench-")))
        manager = stack.enter_context(running_manager(folder, nodes, gates))
        manager.until(lambda: _passed(manager, nodes), "a pass", 60 + nodes / 30)
        takeover = time.monotonic() - manager.started
        authority = manager.until(manager.authority, "an authority", 30)
        parts = shares(nodes, connections)
        loaders = reporting(manager, stack, authority, parts, gated=nodes if gates else 0)
        settle(manager, nodes)
        mark(loaders)
        found = _measured(manager, seconds)
        took = mark(loaders).milliseconds
        turn = webhooks.ask(manager, 0) if pods else None
    return Run(
        nodes=nodes,
        connections=connections,
        takeover=takeover,
        answers=took,
        webhooks=turn,
        gated=bool(gates),
        **found,
    )


def reporting(
    manager: Manager,
    stack: ExitStack,
    authority: str,
    parts: Sequence[tuple[int, int, int]],
    *,
    gated: int = 0,
) -> list[Any]:
    """Nodes that report until the stack ends, a process for each part.

    ``gated`` is how many there are, if they report what features behind gates ask for.
    """
    loaders = [
        stack.enter_context(program("bench.node_link", *map(str, (*share, gated))))
        for share in parts
    ]
    _tell(loaders, json.dumps({"port": manager.report_port, "authority": authority}))
    for loader in loaders:
        if loader.stdout.readline() != "ready\n":
            raise SystemExit("bench: a node does not connect")
    _tell(loaders, "go")
    return loaders


def _passed(manager: Manager, nodes: int) -> bool:
    found = manager.metrics()
    return (
        found["koord_manager_noderesource_passes_total"] > 0
        and found["koord_manager_nodes"] == nodes
    )


def settle(manager: Manager, nodes: int) -> None:
    """Every node has reported, and what that brings about is written; if it ever is."""
    time.sleep(1.5 * INTERVAL)
    end = time.monotonic() + _MOST_SETTLING
    while time.monotonic() < end:
        heard = manager.metrics()["koord_manager_node_metric_nodes"]
        if heard >= nodes and manager.waiting() < _FEW:
            break
        time.sleep(1)
    time.sleep(INTERVAL)


def _measured(manager: Manager, seconds: float) -> dict[str, Any]:
    before, spent, written = manager.metrics(), cpu_micros(manager.pid), manager.writes()
    began = time.perf_counter()
    passes = []
    while (left := began + seconds - time.perf_counter()) > 0:
        time.sleep(min(left, _LOOK_SECONDS))
        found = manager.metrics()
        passes.append(1e3 * found["koord_manager_noderesource_pass_seconds"])
    spent = cpu_micros(manager.pid) - spent
    lasted = time.perf_counter() - began
    after, done = manager.metrics(), manager.writes()
    return {
        "cores": spent / 1e6 / lasted,
        "mebibytes": rss_megabytes(manager.pid),
        "peak": peak_megabytes(manager.pid),
        "rate": (after[_TAKEN] - before[_TAKEN]) / lasted,
        "writes": (sum(done.values()) - sum(written.values())) / lasted,
        "passes": passes,
        "waiting": manager.waiting(),
    }


_TAKEN = 'koord_manager_node_metric_reports_total{code="OK"}'


def measure(
    seconds: float = SECONDS, sweep: Sequence[int] = SWEEP
) -> tuple[list[Measure], list[Run]]:
    """The target's figures, and runs of as many nodes as the limit of open files allows."""
    raise_limit()
    runs = []
    for nodes in sweep:
        ours = nodes == NODES
        runs.append(run(nodes, seconds if ours else _SECONDS_OF_OTHERS, pods=ours))
        print(f"{runs[-1].name}: {runs[-1]}", flush=True)
        if nodes == GATED:
            runs.append(run(nodes, _SECONDS_OF_GATED, gates=gated_cluster.ALL_GATES))
            print(f"{runs[-1].name}: {runs[-1]}", flush=True)
    measures = [one for each in runs if each.nodes == NODES for one in _measures(each)]
    for usual, gated in pairwise(runs):
        if gated.gated:
            measures += _gated_measures(usual, gated)
    return measures, runs


def _gated_measures(usual: Run, gated: Run) -> list[Measure]:
    """The costs of every gate beside those of the usual parts, just before."""
    return [
        Measure(f"{gated.name}: {what}", unit, ours, "usual parts", peer, None)
        for what, unit, ours, peer in (
            ("CPU", "cores", gated.cores, usual.cores),
            ("RSS", "MiB", gated.mebibytes, usual.mebibytes),
            ("RSS at its peak, in the start", "MiB", gated.peak, usual.peak),
            ("noderesource pass", "ms", gated.pass_ms, usual.pass_ms),
            ("from start to first pass", "s", gated.takeover, usual.takeover),
        )
    ]


def _measures(found: Run) -> list[Measure]:
    if not found.held:
        raise SystemExit(f"bench: {found.rate:.0f} reports a second were taken of {NODES} nodes")
    name = f"{NODES} nodes × {PODS} pods, each {INTERVAL:g} s"
    measures = [
        Measure(f"{name}: CPU", "cores", found.cores, "", None, 1.0),
        Measure(f"{name}: RSS", "MiB", found.mebibytes, "", None, 600.0),
        Measure(f"{name}: RSS at its peak, in the start", "MiB", found.peak, "", None, None),
        Measure(f"{name}: answer, p50", "ms", percentile(found.answers, 0.5), "", None, None),
        Measure(f"{name}: answer, p99", "ms", percentile(found.answers, 0.99), "", None, None),
        Measure(f"{name}: answer, the longest", "ms", found.answers[-1], "", None, None),
        Measure(f"{name}: writes a second", "", found.writes, "", None, None),
        Measure(f"{name}: noderesource pass", "ms", found.pass_ms, "", None, 1000.0),
        Measure(f"{name}: from start to first pass", "s", found.takeover, "", None, None),
    ]
    if found.webhooks is not None:
        measures += webhooks.measures([found.webhooks], f"{name}: ")
    return measures


def settings(runs: Sequence[Run]) -> dict[str, object]:
    """Describe the measurement for the page of results."""
    sizes = [len(large_cluster.status(node, 0)) for node in range(20)]
    sent = [len(message) for node in range(20) for message in node_link.messages(node)]
    return {
        **{run.name: str(run) for run in runs},
        "connections": "one a node, TLS, its own token"
        + "".join(
            f"; {one.connections} of {one.nodes} nodes, more files may not be open here"
            for one in runs
            if one.connections < one.nodes
        ),
        "status": f"{statistics.mean(sizes):.0f} bytes, {statistics.mean(sent):.0f} as sent",
        "writes": f"at most {WRITES} a second (--rest-config-qps; 30 unless set)",
        "API server": "a lean double on the same machine, as are all nodes",
    }


def plot(runs: Sequence[Run], name: str = "reports") -> None:
    """CPU, memory and passes by the number of nodes."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    runs = [run for run in runs if not run.gated]
    nodes = [one.nodes for one in runs]
    left.plot(nodes, [one.cores for one in runs], "o-")
    for one in runs:
        if not one.held:
            said = f"{100 * one.rate * INTERVAL / one.nodes:.0f} % taken"
            left.annotate(said, (one.nodes, one.cores), (-64, -26), textcoords="offset points")
    left.set(ylabel="cores", title="CPU of the manager")
    middle.plot(nodes, [one.mebibytes for one in runs], "o-", color="tab:orange")
    middle.set(ylabel="MiB", title="RSS of the manager")
    right.plot(nodes, [one.pass_ms for one in runs], "o-", color="tab:green")
    right.set(ylabel="ms", title="One pass over all nodes")
    for axes, bound in ((left, 1.0), (middle, 600.0)):
        axes.plot([NODES], [bound], "_", color="black", markersize=24)
        axes.annotate("target", (NODES, bound), textcoords="offset points", xytext=(14, -3))
    for axes in (left, middle, right):
        axes.set(xlabel=f"nodes × {PODS} pods, each {INTERVAL:g} s", ylim=(0, None), xlim=(0, None))
        axes.set_xticks(nodes, [f"{node:,}" for node in nodes])
        axes.spines[["top", "right"]].set_visible(False)
    report.RESULTS.mkdir(exist_ok=True)
    figure.savefig(report.RESULTS / f"{name}.png", dpi=110)
    plt.close(figure)


def shares(nodes: int, connections: int) -> list[tuple[int, int, int]]:
    """First node, nodes and connections of each process."""
    count = -(-nodes // _PER_LOADER)
    edges = [nodes * one // count for one in range(count + 1)]
    return [
        (first, last - first, min(last - first, connections // count))
        for first, last in pairwise(edges)
    ]


def _tell(loaders: Sequence[Any], word: str) -> None:
    for loader in loaders:
        loader.stdin.write(f"{word}\n")
        loader.stdin.flush()


class ReportMark(NamedTuple):
    """Reports since the last mark: the times of their answers, and refusals."""

    milliseconds: list[float]
    refused: int


def mark(loaders: Sequence[Any]) -> ReportMark:
    """Set a mark; return the reports since the last one."""
    _tell(loaders, "mark")
    found = [json.loads(loader.stdout.readline()) for loader in loaders]
    took = sorted(1e3 * one for each in found for one in each["took"])
    return ReportMark(took, sum(each["refused"] for each in found))


def raise_limit() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main(sweep: Sequence[int] = SWEEP) -> None:
    """Measure, print, and put it where results are."""
    measures, runs = measure(SECONDS, sweep)
    print(report.table(measures))
    report.write(measures, "reports", settings(runs))
    plot(runs)


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]] or SWEEP)
