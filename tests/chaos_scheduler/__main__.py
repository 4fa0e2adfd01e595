"""A run from the command line; exits with 1 if anything was that must not be."""

from __future__ import annotations

import argparse
import asyncio

import msgspec

from tests.chaos_scheduler.run import run
from tests.support.kube_apiserver import why_not


def main() -> int:
    """Run, print the report, judge."""
    parser = argparse.ArgumentParser(prog="tests.chaos_scheduler", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=120.0, help="of changes, at least")
    parser.add_argument("--kills", type=int, default=4, help="of leaders")
    parser.add_argument("--pauses", type=int, default=4, help="of the API server")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if reason := why_not():
        parser.error(reason)
    report = asyncio.run(run(**vars(options)))
    print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    return 1 if report.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
