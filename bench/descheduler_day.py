"""A simulated day: hot spots and evictions of LowNodeLoad and LowNodeUtilization and of theirs.

Pods of deployments follow recorded loads on two clusters; each minute nodes report, a round of a
policy evicts pods, and koord-scheduler places their successors. ``python -m bench.descheduler_day``
needs recorded loads (``--loads`` or ``PYKOORD_LOADS``: azure.csv.gz of bench/predicted_peak.py);
without them there are made-up ones, and no results are kept. Koordinator's and upstream's own
decisions come from the program that ``PYKOORD_DESCHEDULER_ORIGINALS`` names
(bench/day_policies.py); without it their runs are those in bench/results/descheduler_day.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from koord_prediction.histogram import Floats

from bench import report
from bench.day_cluster import CORES, HIGH, DayCluster, DayRun
from bench.day_loads import draw_loads
from bench.day_policies import LOW, SETTINGS, OriginalPolicy, PlannedPolicy, nobody
from bench.peak_loads import made_up_series, read_series

NODES = 40
SEEDS = (1, 2, 3)
NOBODY = "nobody"
POLICIES = (NOBODY, *(p for each in SETTINGS for p in (each.ours, each.theirs)))
RECORDED = report.RESULTS / "descheduler_day.json"


class ClusterLevel(NamedTuple):
    """Parts of all CPUs that pods use on average, and that they request."""

    used: float
    requested: float


CLUSTERS = {"moderate": ClusterLevel(0.40, 0.70), "heavy": ClusterLevel(0.50, 0.85)}
Results = dict[str, dict[str, list[DayRun]]]
"""Runs by cluster and policy, one for each seed."""


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.descheduler_day", description=__doc__)
    parser.add_argument("--loads", type=Path, default=os.environ.get("PYKOORD_LOADS"))
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    given = parser.parse_args(arguments)
    series = read_series(Path(given.loads) / "azure.csv.gz") if given.loads else made_up_series(1)
    kept = _kept() if given.loads else {}
    results: Results = {cluster: {policy: [] for policy in POLICIES} for cluster in CLUSTERS}
    for cluster in CLUSTERS:
        for seed in given.seeds:
            for policy, run in _runs(series, cluster, seed, kept):
                results[cluster][policy].append(run)
                print(f"{cluster}, seed {seed}, {policy}: {_line(run)}", flush=True)
    is_whole = all(len(runs) == len(SEEDS) for by in results.values() for runs in by.values())
    if given.loads and is_whole and tuple(given.seeds) == SEEDS:
        write(results)


def _kept() -> dict[str, DayRun]:
    """The originals' runs of earlier, by cluster, seed and policy."""
    if not RECORDED.exists():
        return {}
    return {name: DayRun(**run) for name, run in json.loads(RECORDED.read_text()).items()}


def _runs(
    series: Floats, cluster: str, seed: int, kept: Mapping[str, DayRun]
) -> Iterator[tuple[str, DayRun]]:
    """All policies on the same loads; without the originals' program their earlier runs."""
    level, binary = CLUSTERS[cluster], os.environ.get("PYKOORD_DESCHEDULER_ORIGINALS")
    cores = NODES * CORES
    loads = draw_loads(series, level.used * cores, level.requested * cores, seed)
    yield NOBODY, DayCluster(NODES, loads, seed).play(nobody)
    for setting in SETTINGS:
        yield setting.ours, DayCluster(NODES, loads, seed).play(PlannedPolicy(setting))
        if binary:
            original = OriginalPolicy(binary, setting)
            yield setting.theirs, DayCluster(NODES, loads, seed).play(original)
            original.close()
        elif earlier := kept.get(_name(cluster, seed, setting.theirs)):
            yield setting.theirs, earlier


def _name(cluster: str, seed: int, policy: str) -> str:
    return f"{cluster}/{seed}/{policy}"


def write(results: Results) -> None:
    """The page, its plot, and the originals' runs."""
    measures = list(_measures(results))
    print(report.table(measures))
    settings = {
        "nodes": f"{NODES} of {CORES:g} cores; thresholds {LOW:g} and {HIGH:g} % of CPU",
        "pods": ", ".join(f"{name} {_mean(by, _pods):.0f}" for name, by in _nobodys(results)),
        "load": ", ".join(f"{name} {_mean(by, _load):.0f} %" for name, by in _nobodys(results)),
        "loads": "recorded, of Azure; pods follow their deployments' with noise of their own",
        "rounds": "each minute, as reports are; evictions at once, no migration limits",
        "originals": "their own code of a round, on the simulated clock; not in this project",
        "figures": f"means of {len(SEEDS)} seeds",
        "alike": "our two plugins decide the same here, as all pods are equally important",
        "chance": "asked again, Koordinator's evicts some per cent more or less",
        "waiting": "pods without a node use nothing, which spares nodes that would be hot",
    }
    report.write(measures, "descheduler_day", settings)
    lines = (
        f"{json.dumps(_name(cluster, seed, setting.theirs))}: {json.dumps(asdict(run))}"
        for cluster, by_policy in results.items()
        for setting in SETTINGS
        for seed, run in zip(SEEDS, by_policy[setting.theirs], strict=True)
    )
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    _plot(results)


# ---- figures


def _hot(run: DayRun) -> float:
    return run.hot_hours


def _pods(run: DayRun) -> float:
    return run.pods


def _load(run: DayRun) -> float:
    return run.load


_FIGURES: Mapping[str, tuple[str, Callable[[DayRun], float]]] = {
    "hot-spot hours": ("node-hours a day", _hot),
    "evictions": ("pods a day", lambda run: run.evictions),
    "imbalance": ("% of CPU", lambda run: run.imbalance),
    "pods that returned": ("pods a day", lambda run: run.returned),
    "pods without a node": ("pod-hours a day", lambda run: run.waited),
}


def _mean(runs: Sequence[DayRun], figure: Callable[[DayRun], float]) -> float:
    return statistics.mean(map(figure, runs))


def _nobodys(results: Results) -> Iterator[tuple[str, list[DayRun]]]:
    for cluster, by_policy in results.items():
        yield cluster, by_policy[NOBODY]


def _line(run: DayRun) -> str:
    return ", ".join(f"{name} {figure(run):.1f}" for name, (_, figure) in _FIGURES.items())


def _measures(results: Results) -> Iterator[report.Measure]:
    """Each figure of ours beside the original's."""
    for cluster, by_policy in results.items():
        for name, (unit, figure) in _FIGURES.items():
            alone = _mean(by_policy[NOBODY], figure)
            yield report.Measure(f"{cluster}: {name}, {NOBODY}", unit, alone, "", None, None)
            for setting in SETTINGS:
                ours, theirs = by_policy[setting.ours], by_policy[setting.theirs]
                figures = _mean(ours, figure), setting.origin, _mean(theirs, figure)
                yield report.Measure(f"{cluster}: {name}, {setting.name}", unit, *figures, None)


# ---- plot


def _plot(results: Results) -> None:
    """Plot hot spots over evictions, a mark for each seed, and hot nodes by hour; theirs hollow."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(2, len(results), figsize=(13, 8.5), layout="constrained")
    looks = {NOBODY: ("black", "D", "-")}
    for colour, marker, setting in zip(
        ("tab:blue", "tab:orange", "tab:green"), "os^", SETTINGS, strict=True
    ):
        looks |= {setting.ours: (colour, marker, "-"), setting.theirs: (colour, marker, ":")}
    for (cluster, by_policy), (above, below) in zip(results.items(), places.T, strict=True):
        for policy, runs in by_policy.items():
            colour, marker, line = looks[policy]
            fill = "none" if line == ":" else colour
            dots = [run.evictions for run in runs], [run.hot_hours for run in runs]
            above.plot(*dots, marker, label=policy, color=colour, mfc=fill, ms=8, alpha=0.7)
            hours = [statistics.mean(hour) for hour in zip(*(run.hot for run in runs), strict=True)]
            below.step(range(25), [*hours, hours[-1]], line, where="post", color=colour)
        above.set(title=f"{cluster} load, each seed", xlabel="evictions a day", ylim=(0, None))
        above.set(ylabel=f"node-hours a day above {HIGH:g} % of CPU")
        above.set_xscale("symlog", linthresh=30)
        above.xaxis.set_major_formatter("{x:g}")
        most = max(run.evictions for runs in by_policy.values() for run in runs)
        above.set_xlim(-3, 1.5 * most)
        below.set(title="mean of the seeds", xlabel="hour of the day", ylim=(0, None))
        below.set(ylabel=f"nodes above {HIGH:g} % of CPU", xlim=(0, 24))
        for axes in (above, below):
            axes.spines[["top", "right"]].set_visible(False)
    places[0][0].legend(frameon=False, fontsize=8)
    figure.savefig(report.RESULTS / "descheduler_day.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
