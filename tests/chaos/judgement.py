"""What must hold of a run, however long and whatever was done."""

from __future__ import annotations

from tests.chaos.tally import Fate, Report, Result

MAY_GROW_MB = 8.0
MAY_GROW_DESCRIPTORS = 4


def wrong(report: Report) -> list[str]:
    """What does not hold, a line each."""
    results, fates = report.tally.results, report.tally.fates
    grown = report.after.megabytes - report.before.megabytes
    more = report.after.descriptors - report.before.descriptors
    held = {
        "calls hung": not results[Result.HUNG],
        "calls failed, unexplained": not results[Result.UNEXPLAINED],
        "containers ran unhooked": not fates[Fate.UNHOOKED],
        "a worker or a part broke": not report.tally.evidence,
        "records are left over": not report.left_over,
        "tracebacks or defects": not report.tracebacks,
        "the proxy's memory grew": grown <= MAY_GROW_MB,
        "the proxy keeps descriptors": more <= MAY_GROW_DESCRIPTORS,
        "nothing was hooked": fates[Fate.HOOKED] > 0,
        "nothing was done": bool(report.tally.havoc),
    }
    return [line for line, holds in held.items() if not holds]
