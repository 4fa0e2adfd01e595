"""A run from the command line; exits with 1 if anything was that must not be."""

from __future__ import annotations

import argparse
import random
import sys

from tests.chaos.judgement import wrong
from tests.chaos.run import chaos


def main() -> None:
    """Run, print the figures, judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="(default: %(default)g)")
    parser.add_argument("--seed", type=int, help="what is done, and in which order")
    parser.add_argument("--runtime", choices=("embedded", "containerd"), default="embedded")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    print(f"SEED={seed}", flush=True)
    report = chaos(60 * arguments.minutes, seed, real=arguments.runtime == "containerd")
    print(*report.lines(), sep="\n")
    found = wrong(report)
    for line in found:
        print(f"WRONG: {line}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
