"""Number of a cluster's GPUs that a placement policy gets into use: FGD's experiment.

1,213 nodes with 6,212 GPUs; pods that request 130 % of these arrive one after the other, and none
leaves (Weng et al., USENIX ATC 2023, section 6). Policies see the free capacity of nodes and the
typical workload. That is the trace's, as in the paper; "past pods" is BestFit for 64 pods, and then
takes the pods that have arrived for the typical workload, anew each time that their number doubles.

The traces are not part of the project: a folder with openb_node_list_gpu_node.csv and
openb_pod_list_*.csv from github.com/hkust-adsl/kubernetes-scheduler-simulator (data/csv), and
published.csv, the means of the results there. Name it by --traces or PYKOORD_GPU_TRACES.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from koord_scheduler.plugins.device_share.gpu_nodes import GpuRequest
from koord_scheduler.plugins.device_share.gpu_scores import (
    GpuPolicy,
    fragmentation_policy,
    place,
    value_policy,
)
from koord_scheduler.plugins.device_share.typical_workload import typical_workload

from bench import gpu_baselines, report
from bench.gpu_simulation import GpuRun, Placing, run
from bench.gpu_trace import GpuCluster, arriving_pods, read_cluster, read_pods

TRACES = ("default", "gpushare40", "cpu100", "multigpu20")
SEEDS = range(42, 52)
FGD, OURS, PAST = "FGD", "value", "value, past pods"
POLICIES = (FGD, OURS, PAST, "BestFit", "DotProd")
_COVERAGE = 0.95
"""Of the pods, in what FGD's simulator takes for the typical workload."""
_COLUMN = "allocated_gpu_percent_at_130_percent_arrived"

Results = dict[str, dict[str, list[GpuRun]]]
"""Runs by trace and policy, one for each seed."""


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_fragmentation", description=__doc__)
    parser.add_argument("--traces", type=Path, default=os.environ.get("PYKOORD_GPU_TRACES"))
    parser.add_argument(
        "--only", nargs="+", default=TRACES, help="these traces; no results are kept"
    )
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="runs of each")
    given = parser.parse_args(arguments)
    if given.traces is None:
        print("gpu_fragmentation: left out; PYKOORD_GPU_TRACES names no folder with traces")
        return
    folder = Path(given.traces)
    cluster, published = read_cluster(folder), _published(folder)
    results: Results = {}
    for trace in given.only:
        results[trace] = _runs(folder, cluster, trace, SEEDS[: given.seeds])
        for line in _lines({trace: results[trace]}, published).items():
            print(*line, sep=": ", flush=True)
    if tuple(given.only) == TRACES:
        measures = _measures(results, published)
        print(report.table(measures))
        report.write(measures, "gpu_fragmentation", _lines(results, published))
        _plot(results)


def _runs(
    folder: Path, cluster: GpuCluster, trace: str, seeds: Sequence[int]
) -> dict[str, list[GpuRun]]:
    pods = read_pods(folder, trace, cluster.models)
    models = len(cluster.models)
    for_fgd = typical_workload([pod._replace(memory=0.0) for pod in pods], models, _COVERAGE)
    placings: dict[str, Placing] = {
        FGD: _placing(fragmentation_policy(for_fgd)),
        OURS: _placing(value_policy(typical_workload(pods, models))),
        "BestFit": gpu_baselines.best_fit,
        "DotProd": gpu_baselines.dot_product,
    }

    def learn(past: Sequence[GpuRequest]) -> Placing:
        return _placing(value_policy(typical_workload(past, models)))

    found: dict[str, list[GpuRun]] = {name: [] for name in POLICIES}
    for seed in seeds:
        arriving = arriving_pods(pods, cluster.capacity, seed)
        for name, placing in placings.items():
            found[name].append(run(cluster.nodes, arriving, placing))
        found[PAST].append(run(cluster.nodes, arriving, gpu_baselines.best_fit, learn))
    return found


def _placing(policy: GpuPolicy) -> Placing:
    return lambda request, nodes: place(request, nodes, policy)


def _published(folder: Path) -> dict[tuple[str, str], float]:
    """GPUs in use when all pods have arrived, % by trace and policy; empty without the file."""
    file = folder / "published.csv"
    if not file.exists():
        return {}
    with file.open() as lines:
        return {
            (line["trace"], line["policy"]): float(line[_COLUMN]) for line in csv.DictReader(lines)
        }


def _mean(runs: Sequence[GpuRun]) -> float:
    return statistics.mean(one.used_at(130) for one in runs)


def _lines(results: Results, published: dict[tuple[str, str], float]) -> dict[str, object]:
    """A line for each trace and policy: GPUs in use, mean and deviation, and CPU time."""
    found: dict[str, object] = {"seeds": len(next(iter(results.values()))[FGD])}
    for trace, by_policy in results.items():
        for policy, runs in by_policy.items():
            used = [one.used_at(130) for one in runs]
            deviation = statistics.stdev(used) if len(used) > 1 else 0.0
            known = published.get((trace, policy))
            found[f"{trace}, {policy}"] = (
                f"{statistics.mean(used):.2f} ± {deviation:.2f} % in use"
                + (f" (published {known:.2f})" if known else "")
                + f", {statistics.mean(one.seconds for one in runs):.1f} s of CPU a run"
            )
    return found


def _measures(results: Results, published: dict[tuple[str, str], float]) -> list[report.Measure]:
    """Idle GPUs beside FGD's as published, and how far FGD here is from FGD there."""
    found = []
    for trace, by_policy in results.items():
        theirs = published[trace, FGD]
        off = abs(_mean(by_policy[FGD]) - theirs)
        found.append(report.Measure(f"{trace}, FGD off published", "points", off, "", None, 0.3))
        found.append(_idle(trace, _mean(by_policy[OURS]), theirs, 0.5))
    ours = statistics.mean(_mean(runs[OURS]) for runs in results.values())
    theirs = statistics.mean(published[trace, FGD] for trace in results)
    found.append(_idle("all", ours, theirs, 1.0))
    runs = [one for by_policy in results.values() for many in by_policy.values() for one in many]
    slowest = max(one.seconds for one in runs)
    return [*found, report.Measure("slowest run, CPU", "s", slowest, "", None, 10.0)]


def _idle(trace: str, ours: float, theirs: float, points: float) -> report.Measure:
    """``points`` more of the GPUs in use than with FGD, said of those that are idle."""
    target = (100 - theirs - points) / (100 - theirs)
    name = f"{trace}, idle GPUs, value policy"
    return report.Measure(name, "%", 100 - ours, "FGD, published", 100 - theirs, round(target, 3))


def _plot(results: Results) -> None:
    """GPUs in use over those requested so far, of the first seed."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(
        1, len(results), figsize=(15, 4), layout="constrained", sharey=True
    )
    for axes, (trace, by_policy) in zip(places, results.items(), strict=True):
        for policy, runs in by_policy.items():
            axes.plot(runs[0].arrived, runs[0].used, label=policy, linewidth=1)
        axes.set(title=trace, xlabel="requested so far, % of GPUs", xlim=(85, 130), ylim=(85, 98))
        axes.spines[["top", "right"]].set_visible(False)
    places[0].set_ylabel("in use, % of GPUs")
    places[-1].legend(frameon=False, fontsize=8)
    figure.savefig(report.RESULTS / "gpu_fragmentation.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
