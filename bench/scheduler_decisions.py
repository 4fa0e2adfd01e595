"""Costs of a decision, by how alike pods are, in µs of CPU a pod at 5,000 nodes.

``python -m bench.scheduler_decisions --against ../other-checkout`` compares with the code there,
in turns, each time in a process of its own: other programs slow both down alike.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
from pathlib import Path
from typing import NamedTuple

from bench.scheduler_core import Load

HERE = Path(__file__).resolve().parents[1]


class Case(NamedTuple):
    """Pods to place, with all of Koordinator's plugins or without; ``target`` is in µs."""

    load: Load
    koordinator: bool
    target: int

    def __str__(self) -> str:
        return str(self.load) + ", all of Koordinator's plugins" * self.koordinator


CASES = (
    Case(Load(5_000, 1, "plain", 8_000), False, 30),
    Case(Load(5_000, 1, "spread", 6_000), False, 65),
    Case(Load(5_000, 200, "spread", 6_000), False, 120),
    Case(Load(5_000, 0, "spread", 1_500), False, 270),
    Case(Load(5_000, 1, "plain", 8_000), True, 45),
    Case(Load(5_000, 200, "spread", 6_000), True, 220),
    Case(Load(5_000, 0, "spread", 1_500), True, 450),
)
_ONE = """
import sys
from koord_service import memory
from bench.scheduler_core import Load, pods_a_second
memory.keep_freed()
memory.collect_young_only()
print(1e6 / pods_a_second(Load(*eval(sys.argv[1])), koordinator=eval(sys.argv[2])))
"""


def cost(case: Case, checkout: Path) -> float:
    """µs of CPU a pod, by the code of a checkout."""
    command = [f"{checkout}/.venv/bin/python", "-c", _ONE, repr(tuple(case.load))]
    ran = subprocess.run(
        [*command, repr(case.koordinator)], cwd=checkout, capture_output=True, text=True, check=True
    )
    return float(ran.stdout)


def main(against: Path | None, rounds: int) -> None:
    checkouts = [path for path in (against, HERE) if path is not None]
    print("| case | before | now | target |\n|---|---|---|---|")
    for case in CASES:
        taken = [[cost(case, path) for path in checkouts] for _ in range(rounds)]
        medians = [f"{statistics.median(costs):.0f}" for costs in zip(*taken, strict=True)]
        before, now = medians if against is not None else ("–", *medians)
        print(f"| {case} | {before} | {now} | {case.target} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m bench.scheduler_decisions", description=__doc__
    )
    parser.add_argument("--against", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    main(**vars(parser.parse_args()))
