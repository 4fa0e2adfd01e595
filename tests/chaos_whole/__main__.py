"""A run from the command line; exits with 1 if anything was that must not be."""

from __future__ import annotations

import argparse
import random
import signal
import sys

from tests.chaos_whole.kubernetes import why_not
from tests.chaos_whole.run import run


def main() -> None:
    """Run, print the tables, judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos_whole", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="(default: %(default)g)")
    parser.add_argument("--seed", type=int, help="which pods and faults, and in which order")
    arguments = parser.parse_args()
    if reason := why_not():
        sys.exit(f"make chaos-whole: {reason}")
    # What was started is ended, also then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    print(f"SEED={seed}", flush=True)
    report = run(60 * arguments.minutes, seed)
    print(*report.lines(), sep="\n")
    sys.exit(1 if report.wrong else 0)


if __name__ == "__main__":
    main()
