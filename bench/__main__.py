"""`make bench`: run every benchmark, print the table, write bench/results/."""

from __future__ import annotations

import argparse

from bench import cache, node, nri, observe, proxy, report


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="turns of every path")
    arguments = parser.parse_args()
    measures, added, settings = proxy.measure(arguments.rounds)
    print(report.table(measures))
    report.write(measures, "proxy", settings)
    report.plot(measures, added, "proxy")
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
    print(f"\nwritten to {report.RESULTS.relative_to(report.RESULTS.parent.parent)}/")


if __name__ == "__main__":
    main()
