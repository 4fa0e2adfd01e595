"""Costs of the proxy: relayed calls, hooked ones, pod starts."""

from __future__ import annotations

import tempfile
from pathlib import Path

from koord_demo.containerd import Containerd

from bench import hooked, relay
from bench.relay import Added
from bench.report import Measure


def measure(rounds: int) -> tuple[list[Measure], Added, dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="koord-bench-") as name:
        scratch = Path(name)
        with Containerd(scratch) as containerd:
            measures, added = relay.relayed(Path(containerd.address), scratch, 2 * rounds)
            measures += relay.large(scratch, rounds)
            measures += hooked.updates(containerd, scratch, rounds)
            measures += hooked.pod_starts(containerd, scratch, 8 * rounds)
    calls = f"{relay.CALLS} with 1 caller, {relay.BUSY_CALLS} with 16"
    settings: dict[str, object] = {
        "rounds": f"{2 * rounds} of relayed calls, {rounds} of updates, {8 * rounds} pods",
        "calls a turn": f"{calls}, {hooked.UPDATE_CALLS} updates",
        "clients": "h2load, and grpcio where it says so",
        "95 %": "where the median of the rounds lies (sign test); of the ratio if there is a peer",
        "backend": "containerd; nginx for the large answer",
    }
    return measures, added, settings
