"""Memory bandwidth of services beside jobs that hog it: ``python tools/compare_bandwidth.py``.

Runs collector, strategy and writer of resctrl around the tests' double of it, whose memory is
saturated (its assumptions: tests/support/fake_resctrl/channel.py), and writes
simulation/results/bandwidth.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from koord_model.resctrl import ResctrlLimits  # noqa: E402
from koordlet.qos_manager.strategies.resctrl.strategy import BandwidthLimits  # noqa: E402

from tests.support.bandwidth_loop import GB, SECONDS, BandwidthLoop  # noqa: E402
from tests.support.fake_resctrl.channel import BandwidthDemand, Key  # noqa: E402

PAGE = ROOT / "simulation" / "results" / "bandwidth.md"
STEPS = 40
SERVICES = (20, 40, 60, 80)
"""Demand of services in each domain, GB/s, of 100."""
ARMS = {
    "no limit": (100, BandwidthLimits.STATIC),
    "static 50 %": (50, BandwidthLimits.STATIC),
    "static 20 %": (20, BandwidthLimits.STATIC),
    "feedback": (100, BandwidthLimits.FEEDBACK),
}


def demands(services: float) -> dict[Key, BandwidthDemand]:
    """Two domains: services mostly local, jobs that would fill the memory alone."""
    return {
        **{("LS", cache): BandwidthDemand(services * GB, 0.9) for cache in (0, 1)},
        **{("BE", cache): BandwidthDemand(95 * GB, 0.8) for cache in (0, 1)},
        ("root", 0): BandwidthDemand(2 * GB),
    }


def run(services: float, percent: int, bandwidth: BandwidthLimits) -> tuple[float, float, float]:
    """Percent of what services get alone, jobs' GB/s of both domains, seconds until 95 %."""
    classes = {"LS": ResctrlLimits("LS"), "BE": ResctrlLimits("BE", mb=percent)}
    loop = BandwidthLoop({0: 0, 1: 1}, classes=classes, bandwidth=bandwidth)
    got = [loop.step(demands(services)) for _ in range(STEPS)]
    part = [100 * min(one["LS", 0], one["LS", 1]) / GB / services for one in got]
    late = [number for number, value in enumerate(part) if value < 95]
    jobs = got[-1]["BE", 0] + got[-1]["BE", 1]
    return part[-1], jobs / GB, (late[-1] + 1) * SECONDS if late else 0.0


def rows() -> Iterator[str]:
    """The table."""
    yield (
        "| services ask for, GB/s a domain | limit of jobs | services get, % of alone "
        "| jobs get, GB/s | s until 95 % |"
    )
    yield "|---|---|---|---|---|"
    for services in SERVICES:
        for name, arm in ARMS.items():
            part, jobs, seconds = run(services, *arm)
            reached = f"{seconds:.0f}" if part >= 95 else "never"
            yield f"| {services} | {name} | {part:.0f} | {jobs:.0f} | {reached} |"


if __name__ == "__main__":
    head, _, rest = PAGE.read_text().partition("<!-- table -->\n")
    _, end, tail = rest.partition("<!-- end -->")
    table = "".join(f"{row}\n" for row in rows())
    PAGE.write_text(f"{head}<!-- table -->\n{table}{end}{tail}")
