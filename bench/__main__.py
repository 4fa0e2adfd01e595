"""`make bench`: run every benchmark, print the table, write bench/results/."""

from __future__ import annotations

import argparse

from bench import (
    batch_month,
    cache,
    colocation,
    custom_metrics,
    defragmentation,
    descheduler_day,
    descheduler_rounds,
    docker,
    gpu_fragmentation,
    kube_writes,
    lanes,
    network_topology,
    node,
    node_resource,
    nri,
    observe,
    proxy,
    report,
    reports,
    rollouts,
    scheduler_core,
    scheduler_end_to_end,
    scheduler_peer,
    scheduler_perf,
    scheduler_recording,
    service_profiles,
    strategies,
    tide_day,
    unknown_callers,
    webhooks,
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="turns of every path")
    arguments = parser.parse_args()
    measures, added, settings = proxy.measure(arguments.rounds)
    print(report.table(measures))
    report.write(measures, "proxy", settings)
    report.plot(measures, added, "proxy")
    measures = docker.measure(2 * arguments.rounds)
    print(report.table(measures))
    report.write(measures, "docker", {"rounds": 2 * arguments.rounds, "backend": "dockerd"})
    measures = [*node.measure(arguments.rounds), *nri.measure(arguments.rounds)]
    print(report.table(measures))
    report.write(
        measures, "node", {"rounds": arguments.rounds, "pods": f"{node.PODS} × {node.CONTAINERS}"}
    )
    measures = [*observe.measure(arguments.rounds), *cache.measure(arguments.rounds)]
    print(report.table(measures))
    report.write(
        measures,
        "observe",
        {"rounds": arguments.rounds, "pods": f"{observe.PODS} × {observe.CONTAINERS}, simulated"},
    )
    measures = strategies.measure(arguments.rounds)
    print(report.table(measures))
    report.write(
        measures,
        "strategies",
        {"pods": f"{observe.PODS} × {observe.CONTAINERS}, simulated", "CPUs": 64, "gates": "all"},
    )
    kube_writes.main(arguments.rounds)
    lanes.main()
    webhooks.main(arguments.rounds)
    rollouts.main()
    custom_metrics.main()
    service_profiles.main()
    node_resource.main(arguments.rounds)
    reports.main()
    scheduler_core.main()
    descheduler_rounds.main()
    descheduler_day.main()
    scheduler_end_to_end.main()
    scheduler_peer.main()
    scheduler_perf.main()
    scheduler_recording.main()
    gpu_fragmentation.main()
    defragmentation.main(["--keep"])
    tide_day.main(["--keep"])
    network_topology.main()
    batch_month.main()
    unknown_callers.main()
    _colocation(arguments.rounds)
    print(f"\nwritten to {report.RESULTS.relative_to(report.RESULTS.parent.parent)}/")


def _colocation(rounds: int) -> None:
    """Most of a minute a round: a few are enough to see how far turns differ."""
    if (reason := colocation.why_not()) is not None:
        print(f"colocation left out: {reason}")
        return
    turns, repeated = colocation.turns(min(rounds, 3), spare=20.0)
    measures, settings = colocation.figures(turns, repeated)
    print(report.table(measures))
    report.write(measures, "colocation", settings)
    latencies = {name: [one.answers.latencies for one in taken] for name, taken in turns.items()}
    batch = {name: [one.batch for one in taken] for name, taken in turns.items() if name != "alone"}
    report.plot_turns(latencies, batch, "colocation")


if __name__ == "__main__":
    main()
