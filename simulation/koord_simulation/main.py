"""``koord-simulate``: run scenarios and report the results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from koord_service.terminal import write_error

from koord_simulation.files import ScenarioError, load, strategies
from koord_simulation.plot import plot
from koord_simulation.run.record import Run
from koord_simulation.run.report import lines, report
from koord_simulation.run.simulation import simulate

PROGRAM = "koord-simulate"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; the exit status is 2 where a scenario cannot be run."""
    arguments = _parser().parse_args(argv)
    try:
        _simulate(arguments)
    except ScenarioError as error:
        write_error(PROGRAM, str(error))
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Run koordlet's strategies on a simulated node in accelerated time, and report "
        "how its pods did. Examples are in simulation/scenarios, all fields in "
        "simulation/koord_simulation/scenario/scenario_file.py.",
        epilog="For each pod, p50 and p99 are means over the seconds it ran; worst is the 99th "
        "percentile of its p99 by second; throttled is the share of CPU periods with throttling. "
        "Turns count how often the CPUs allowed to best-effort pods changed direction.",
    )
    parser.add_argument("scenario", type=Path, help="scenario file (YAML)")
    parser.add_argument("--without", action="store_true", help="also run it without strategies")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--decisions", action="store_true", help="print each decision with its time"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a plot (PNG) of the run")
    parser.add_argument("--seed", type=int, help="random seed, instead of the scenario's")
    return parser


def _simulate(arguments: argparse.Namespace) -> None:
    scenario, ignored = load(arguments.scenario)
    for line in ignored:
        write_error(PROGRAM, line)
    if arguments.seed is not None:
        scenario = replace(scenario, seed=arguments.seed)
    runs = [simulate(scenario, strategies(scenario.strategies))]
    if arguments.without:
        name = f"{scenario.name or 'scenario'}, without strategies"
        runs.append(simulate(replace(scenario.only(), name=name)))
    _show(runs, arguments)
    if arguments.plot:
        plot(runs[0], arguments.plot)


def _show(runs: Sequence[Run], arguments: argparse.Namespace) -> None:
    reports = [report(run) for run in runs]
    if arguments.json:
        documents = [report.document() for report in reports]
        shown = documents if len(documents) > 1 else documents[0]
        sys.stdout.write(json.dumps(shown, indent=2) + "\n")
        return
    if arguments.decisions:
        for line in runs[0].said:
            about = f" {line.about}" if line.about else ""
            sys.stdout.write(f"{line.at:6.0f} s {line.strategy}{about}: {line.outcome}\n")
        sys.stdout.write("\n")
    for number, found in enumerate(reports):
        sys.stdout.write("\n" * (number > 0) + "\n".join(lines(found)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
