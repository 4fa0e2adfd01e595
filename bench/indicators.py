"""Targets for waits on a real kernel: a node in QEMU, beside cpu_suppress alone.

``python -m bench.indicators``: as root on Debian. Twenty minutes; writes the table of
results/indicators.md.
"""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench import emulated, indicators_node
from bench.report import RESULTS
from tests.vm import base

_TURNS = re.compile(r"(<!-- turns -->\n).*?(<!-- end -->)", re.DOTALL)
_HEAD = (
    "| turn | services' wait (ms/s) | target | BE cores | BE CPUs | request p50 (ms) | p99 (ms) |\n"
    "|---|---|---|---|---|---|---|\n"
)


def wait(turn: Mapping[str, Any]) -> float:
    """Milliseconds that all services waited for each second of CPU that they used."""
    waits = turn["wait"].values()
    return float(1000 * sum(turn["waited"] for turn in waits) / sum(turn["used"] for turn in waits))


def rows(turns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A row a turn, in their order."""
    for turn in turns:
        target = turn["targets"].get("sched_wait")
        yield (
            f"| {turn['arm']} | {wait(turn):.1f} | {'' if target is None else f'{target:.1f}'} | "
            f"{turn['BE cores']:.2f} | {turn['BE CPUs']:.1f} | {turn['ms']['p50']:.1f} | "
            f"{turn['ms']['p99']:.1f} |\n"
        )


def ratios(turns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Differences of each kind of turn from the turns with the default threshold."""
    arms = list(dict.fromkeys(turn["arm"] for turn in turns))
    usual = [turn for turn in turns if turn["arm"] == arms[0]]
    for arm in arms[1:]:
        with_it = [turn for turn in turns if turn["arm"] == arm]
        waits, cores = (
            statistics.mean(map(of, with_it)) / statistics.mean(map(of, usual))
            for of in (wait, lambda turn: turn["BE cores"])
        )
        yield f"{arm}: wait × {waits:.2f}, BE CPU × {cores:.2f}"


def main() -> None:
    load = os.getloadavg()[0]
    found = emulated.run(indicators_node, "delayacct", "no_timer_check")
    (base.cache() / "indicators.json").write_text(json.dumps(found, indent=1) + "\n")
    turns = [turn for turn in found.values() if isinstance(turn, dict) and "arm" in turn]
    page = RESULTS / "indicators.md"
    table = _HEAD + "".join(rows(turns))
    page.write_text(_TURNS.sub(lambda found: f"{found[1]}{table}{found[2]}", page.read_text()))
    print(f"{table}\nload at the start: {load:.1f}", *ratios(turns), sep="\n")


if __name__ == "__main__":
    main()
