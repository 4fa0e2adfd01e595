"""A month of a GPU cluster of five teams: what lending quotas are worth beside strict ones.

``python -m bench.batch_month --traces FOLDER`` (or ``PYKOORD_GPU_TRACES``) needs the trace that
``bench/batch_jobs.py`` names, which is not part of the project, and writes
bench/results/batch_month.*.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from bench import report
from bench.batch_cluster import NODE_GPUS, POLICIES, STRICT, BatchCluster, Policy, Usage, percentile
from bench.batch_jobs import DAY, MONTH_DAYS, TEAMS, read_jobs

NODES = 12
LOAD = 3.4
"""Jobs for each of the trace; with it teams ask for some 75 % of the cards on average."""
SEEDS = (1,)
SIZES = {"1 pod": (1, 1), "2 to 4 pods": (2, 4), "8 to 32 pods": (8, 32)}

Results = dict[Policy, list[Usage]]
Figure = Callable[[Sequence[Usage]], float]
"""Of all runs of a policy."""


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.batch_month", description=__doc__)
    parser.add_argument("--traces", type=Path, default=os.environ.get("PYKOORD_GPU_TRACES"))
    parser.add_argument("--days", type=int, default=MONTH_DAYS, help="fewer: no results are kept")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    given = parser.parse_args(arguments)
    if given.traces is None:
        print("batch_month: left out; PYKOORD_GPU_TRACES names no folder with the trace")
        return
    results: Results = {policy: [] for policy in POLICIES}
    began, jobs = time.process_time(), 0
    for seed in given.seeds:
        month = read_jobs(Path(given.traces), seed, LOAD, most_gpus=NODES * NODE_GPUS / len(TEAMS))
        jobs += len(month)
        for policy in POLICIES:
            usage = BatchCluster(NODES, policy).run(month, given.days * DAY)
            results[policy].append(usage)
            print(f"seed {seed}, {policy.name}: {_line(usage)}", flush=True)
    measures = list(_measures(results))
    print(report.table(measures))
    if given.days == MONTH_DAYS and tuple(given.seeds) == SEEDS:
        settings = {
            "nodes": f"{NODES} with 8 cards each",
            "jobs": f"{jobs / len(given.seeds):,.0f} in a month; teams and members are drawn",
            "seeds": len(given.seeds),
            "CPU of a month": f"{(time.process_time() - began) / 3 / len(given.seeds):.0f} s",
        }
        report.write(measures, "batch_month", settings)
        _plot(results)


def _line(usage: Usage) -> str:
    parts = [
        f"{100 * usage.allocated / usage.capacity:.1f} % allocated",
        f"Jain {statistics.mean(usage.fairness):.3f} while cards are short",
        f"{usage.finished} jobs finished, {usage.evicted} evicted",
        *(f"{name} {_waits([usage], *sizes)}" for name, sizes in SIZES.items()),
    ]
    return ", ".join(parts)


def _waits(usages: Iterable[Usage], least: int, most: int) -> str:
    waits = _of_sizes(usages, least, most)
    return f"p50 {percentile(waits, 0.5) / 60:.0f} p95 {percentile(waits, 0.95) / 60:.0f} min"


def _of_sizes(usages: Iterable[Usage], least: int, most: int) -> list[float]:
    return [
        wait
        for usage in usages
        for members, waits in usage.waits.items()
        if least <= members <= most
        for wait in waits
    ]


def _measures(results: Results) -> Iterator[report.Measure]:
    """Each figure beside strict quotas'."""
    for policy, usages in results.items():
        base = results[STRICT]
        peer = STRICT.name if policy is not STRICT else ""
        for name, unit, figure in _figures():
            ours = figure(usages)
            theirs = figure(base) if peer else None
            yield report.Measure(f"{policy.name}: {name}", unit, ours, peer, theirs, None)


def _figures() -> Iterator[tuple[str, str, Figure]]:
    yield "cards that are idle", "%", _idle
    yield "unfairness (1 - Jain) while cards are short", "", _unfairness
    yield "work lost by evictions", "% of cards", _lost
    for name, sizes in SIZES.items():
        for part in (0.5, 0.95):
            yield f"wait of {name}, p{100 * part:.0f}", "min", _wait(sizes, part)


def _idle(usages: Sequence[Usage]) -> float:
    return statistics.mean(100 * (1 - usage.allocated / usage.capacity) for usage in usages)


def _unfairness(usages: Sequence[Usage]) -> float:
    return statistics.mean(1 - statistics.mean(usage.fairness) for usage in usages)


def _lost(usages: Sequence[Usage]) -> float:
    return statistics.mean(100 * usage.lost / usage.capacity for usage in usages)


def _wait(sizes: tuple[int, int], part: float) -> Figure:
    return lambda usages: percentile(_of_sizes(usages, *sizes), part) / 60


def _plot(results: Results) -> None:
    """Plot the waiting of jobs by size: the part that had begun after so many minutes."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(1, len(SIZES), figsize=(13, 4), layout="constrained", sharey=True)
    for axes, (name, sizes) in zip(places, SIZES.items(), strict=True):
        for policy, usages in results.items():
            waits = sorted(max(wait / 60, 0.5) for wait in _of_sizes(usages, *sizes))
            parts = [100 * (place + 1) / len(waits) for place in range(len(waits))]
            axes.plot(waits, parts, label=policy.name, linewidth=1.2)
        axes.set(title=f"jobs of {name}", xlabel="waited at most, minutes", xscale="log")
        axes.spines[["top", "right"]].set_visible(False)
    places[0].set_ylabel("% of the jobs")
    places[-1].legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(report.RESULTS / "batch_month.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
