"""Do pods get fewer hot nodes if they are placed by predicted peaks, and not by what is used now?

Pods with known CPU usage come and go for a week on ten nodes or so; each rule places all of them
on the same nodes, so the packing is the same. Counted are hot-spot minutes from the third day on:
each minute of a node whose pods demand more than 65 % (80 %) of its CPUs. Nodes are fewer, and so
packed more densely, from level to level.

The recorded loads are not part of the project: a folder with azure.csv.gz, bitbrains.csv.gz and
planetlab.csv.gz, a column for each virtual machine, a line every five minutes, per cent of its
CPUs. Name it by --loads or PYKOORD_LOADS; without it there are made-up loads alone, and no results
are kept. They are: 177 machines of Azure (AzurePublicDatasetV1, 27 days) from the samples in
github.com/carlonlv/DataCenterSim; 50 of Bitbrains (GWA-T-12, 30 days) from
github.com/atlarge-research/opendc-traces; 457 of PlanetLab (CoMon, seven of ten days in March and
April 2011, one after the other) from github.com/Cloudslab/cloudsim.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from koord_prediction.histogram import Floats
from koord_prediction.peak import PeakPolicy

from bench import report
from bench.peak_loads import PodsOverTime, draw_pods, made_up_series, read_series
from bench.peak_rules import (
    AnyNode,
    Foresight,
    LoadAware,
    PodPeaks,
    PredictedPeak,
    Requests,
    usage_now,
    usage_of_running,
    usage_p95,
)
from bench.peak_simulation import EqualNodes, PeakRun, PlacementRule, nodes_for, run

MADE_UP = "made up"
FAMILIES = ("azure", "bitbrains", "planetlab", MADE_UP)
LEVELS = (0.7, 0.8, 0.9)
LOAD_AWARE, PEAK, WARM = "LoadAware", "predicted peak", "predicted peak, cold start 1 h"
TOGETHER = "peak of running pods together"
RULES = ("any node", "requests", LOAD_AWARE, "LoadAware, p95", PEAK, WARM, TOGETHER, "foresight")
_DAYS = 7
_CORES = 32.0
_REQUESTED = 320.0
"""Cores that all pods request, ten nodes' worth."""
_MEDIAN_HOURS = 24.0

Rules = dict[str, Callable[[PodsOverTime, EqualNodes], PlacementRule]]
Results = dict[str, dict[float, dict[str, list[PeakRun]]]]
"""Runs by family, level and rule, one for each seed."""


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.predicted_peak", description=__doc__)
    parser.add_argument("--loads", type=Path, default=os.environ.get("PYKOORD_LOADS"))
    parser.add_argument("--only", nargs="+", choices=FAMILIES, help="these; no results are kept")
    parser.add_argument("--seeds", type=int, default=6, help="runs of each; fewer: none are kept")
    parser.add_argument("--levels", nargs="+", type=float, default=LEVELS)
    parser.add_argument("--median-hours", type=float, default=_MEDIAN_HOURS, help="a pod's life")
    parser.add_argument("--sized", action="store_true", help="requests by what pods use on average")
    given = parser.parse_args(arguments)
    families = given.only or (FAMILIES if given.loads else (MADE_UP,))
    results: Results = {}
    start = time.process_time()
    for family in families:
        series = made_up_series(1) if family == MADE_UP else _recorded(given.loads, family)
        draw = partial(
            draw_pods, series, _DAYS, _REQUESTED, given.median_hours, is_sized=given.sized
        )
        results[family] = _runs(draw, given.levels, range(given.seeds))
        for line in _lines({family: results[family]}):
            print(*line, sep=": ", flush=True)
    runs = sum(len(many) for by in results.values() for one in by.values() for many in one.values())
    seconds = (time.process_time() - start) / runs
    is_whole = families == FAMILIES and tuple(given.levels) == LEVELS and given.seeds >= 6
    if is_whole and given.median_hours == _MEDIAN_HOURS and not given.sized:
        measures = list(_measures(results))
        print(report.table(measures))
        settings = {
            "loads": "azure, bitbrains and planetlab are recorded; the others are made up",
            "seeds": given.seeds,
            "CPU of a run": f"{seconds:.1f} s on average",
        }
        report.write(measures, "predicted_peak", settings | dict(_lines(results)))
        _plot(results)


def _recorded(folder: Path | str | None, family: str) -> Floats:
    if folder is None:
        raise SystemExit(f"{family}: PYKOORD_LOADS names no folder with recorded loads")
    return read_series(Path(folder) / f"{family}.csv.gz")


def _runs(
    draw: Callable[[int], PodsOverTime], levels: Sequence[float], seeds: Sequence[int]
) -> dict[float, dict[str, list[PeakRun]]]:
    found: dict[float, dict[str, list[PeakRun]]] = {
        level: {name: [] for name in RULES} for level in levels
    }
    for seed in seeds:
        pods = draw(seed)
        rules = _rules(PodPeaks(pods, PeakPolicy()))
        for level in levels:
            nodes = nodes_for(pods, _CORES, level)
            for name, rule in rules.items():
                found[level][name].append(run(pods, nodes, rule, seed))
    return found


def _rules(peaks: PodPeaks) -> Rules:
    warm = PeakPolicy(cold_start=3600.0)
    return {
        "any node": AnyNode,
        "requests": Requests,
        LOAD_AWARE: lambda pods, nodes: LoadAware(pods, nodes, usage_now(nodes)),
        "LoadAware, p95": lambda pods, nodes: LoadAware(pods, nodes, usage_p95(nodes)),
        PEAK: lambda pods, nodes: PredictedPeak(pods, nodes, peaks, PeakPolicy()),
        WARM: lambda pods, nodes: PredictedPeak(pods, nodes, peaks, warm),
        TOGETHER: lambda pods, nodes: LoadAware(pods, nodes, usage_of_running(pods), is_peak=True),
        "foresight": Foresight,
    }


def _lines(results: Results) -> Iterator[tuple[str, str]]:
    """A line for each family, level and rule: what became of it, the mean of all seeds."""
    for family, by_level in results.items():
        for level, by_rule in by_level.items():
            base = max(_hot(by_rule[LOAD_AWARE], 65), 0.01)
            for rule, runs in by_rule.items():
                yield f"{family}, {100 * level:.0f} %, {rule}", _line(runs, base)


def _line(runs: Sequence[PeakRun], base: float) -> str:
    """``base`` are LoadAware's hot-spot minutes."""
    hot = [one.hot[65] for one in runs]
    deviation = statistics.stdev(hot) if len(hot) > 1 else 0.0
    parts = (
        f"{_hot(runs, 65):.1f} ± {deviation:.1f} min above 65 % ({_hot(runs, 65) / base:.2f}×)",
        f"{_hot(runs, 80):.1f} min above 80 %",
        f"{statistics.mean(one.allocated for one in runs):.1f} % allocated",
        f"{statistics.mean(one.used for one in runs):.1f} % used",
        f"{100 * statistics.mean(one.waited for one in runs):.2f} % of the time without a node",
        f"{100 * statistics.mean(one.refused for one in runs):.0f} % of pods over the threshold",
    )
    return ", ".join(parts)


def _hot(runs: Sequence[PeakRun], threshold: int) -> float:
    return statistics.mean(one.hot[threshold] for one in runs)


def _measures(results: Results) -> Iterator[report.Measure]:
    """Hot-spot minutes above 65 % beside LoadAware's, of all levels; ratios run by run."""
    for family, by_level in results.items():
        for rule in RULES:
            if rule == LOAD_AWARE:
                continue
            ours = [one.hot[65] for by_rule in by_level.values() for one in by_rule[rule]]
            theirs = [one.hot[65] for by_rule in by_level.values() for one in by_rule[LOAD_AWARE]]
            ratios = [a / b for a, b in zip(ours, theirs, strict=True) if b]
            yield report.Measure(
                f"{family}, {rule}",
                "min",
                statistics.mean(ours),
                LOAD_AWARE,
                statistics.mean(theirs),
                None,
                interval=report.median_interval(ratios),
            )


def _plot(results: Results) -> None:
    """Hot-spot minutes over what is allocated, by family and threshold: the mean of all seeds."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(
        2, len(results), figsize=(16, 7.5), layout="constrained", sharex=True, squeeze=False
    )
    for column, (family, by_level) in enumerate(results.items()):
        for row, threshold in enumerate((65, 80)):
            axes = places[row][column]
            for rule in RULES:
                runs = [by_rule[rule] for by_rule in by_level.values()]
                x = [statistics.mean(one.allocated for one in many) for many in runs]
                y = [_hot(many, threshold) for many in runs]
                wide = 2.0 if rule in (LOAD_AWARE, PEAK) else 1.0
                axes.plot(x, y, "o-", label=rule, linewidth=wide, markersize=3)
            axes.set_ylim(0, None)
            axes.set_title(f"{family}, above {threshold} %")
            axes.spines[["top", "right"]].set_visible(False)
        places[1][column].set_xlabel("requests, % of all CPUs")
    for row in places:
        row[0].set_ylabel("hot-spot minutes a node and day")
    handles, labels = places[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(report.RESULTS / "predicted_peak.png", dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
