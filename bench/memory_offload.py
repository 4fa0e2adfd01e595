"""Memory offloading on a real kernel: a node in QEMU, with zram, beside senpai.

``python -m bench.memory_offload SENPAI``: as root on Debian, SENPAI is facebookincubator's
senpai.py. Half an hour; writes the table and the picture of results/memory_offload.md.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import emulated, memory_node
from bench.report import RESULTS
from tests.vm import base

GIB, MIB = 1 << 30, 1 << 20
SETTLED = 30.0
"""Seconds at the end of a turn over which memory is averaged."""
_TURNS = re.compile(r"(<!-- turns -->\n).*?(<!-- end -->)", re.DOTALL)


def run(senpai: Path) -> dict[str, Any]:
    """Boot the node, and return what its steps found, by name."""
    return emulated.run(memory_node, files=lambda directory: {str(memory_node.SENPAI): senpai})


def figures(turn: Mapping[str, Any]) -> dict[str, float]:
    """One turn in numbers: memory saved, in percent, and what it cost."""
    samples = turn["samples"]
    first, last = samples[0], samples[-1]
    end = [one for one in samples if one["at"] >= last["at"] - SETTLED]
    mean = {name: sum(one[name] for one in end) / len(end) for name in ("current", "zram", "swap")}
    pages = sum(
        last[name] - first[name] for name in ("workingset_refault_anon", "workingset_refault_file")
    )
    seconds = last["at"] - first["at"]
    # Memory of zram is the pod's cost, wherever it is charged.
    saved = first["current"] - mean["current"] - (mean["zram"] - first["zram"])
    return {
        "before": first["current"] / MIB,
        "offloaded": (first["current"] - mean["current"]) / MIB,
        "zram": mean["zram"] / MIB,
        "saved": saved / MIB,
        "saved %": 100 * saved / first["current"],
        "refaults": pages / seconds,
        "waited %": (last["waited"] - first["waited"]) / seconds / 1e4,
        "rounds": turn["job's rounds"],
        "p50": turn["server"]["p50"],
        "p99": turn["server"]["p99"],
    }


_COLUMNS = (
    ("before", "job (MiB)", "{:.0f}"),
    ("offloaded", "taken from it", "{:.0f}"),
    ("zram", "zram", "{:.0f}"),
    ("saved", "saved (MiB)", "{:.0f}"),
    ("saved %", "saved", "{:.0f} %"),
    ("refaults", "refaults (pages/s)", "{:.1f}"),
    ("waited %", "job waited", "{:.2f} %"),
    ("rounds", "job's rounds", "{:.0f}"),
    ("p50", "server p50 (ms)", "{:.1f}"),
    ("p99", "p99 (ms)", "{:.1f}"),
)


def table(turns: Mapping[str, Mapping[str, Any]]) -> str:
    """A row a turn."""
    lines = [
        f"| turn | {' | '.join(title for _, title, _ in _COLUMNS)} |",
        "|---" * (1 + len(_COLUMNS)) + "|",
    ]
    for arm, turn in turns.items():
        values = figures(turn)
        cells = (form.format(values[name]) for name, _, form in _COLUMNS)
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(turns: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Memory of the job over time, with what zram holds of it."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    picture, axes = plt.subplots(figsize=(8, 4.5))
    for arm, turn in turns.items():
        samples = turn["samples"]
        memory = [(one["current"] + one["zram"]) / MIB for one in samples]
        axes.plot([one["at"] for one in samples], memory, label=arm)
    axes.set_xlabel("seconds")
    axes.set_ylabel("memory of the job, zram included (MiB)")
    axes.set_ylim(bottom=0)
    axes.legend()
    picture.tight_layout()
    picture.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.memory_offload", description=__doc__)
    parser.add_argument("senpai", type=Path)
    found = run(parser.parse_args().senpai)
    (base.cache() / "memory_offload.json").write_text(json.dumps(found, indent=1) + "\n")
    turns = {
        arm: turn
        for arm in memory_node.ARMS
        if isinstance(turn := found.get(f"memory_offload {arm}"), dict)
    }
    page = RESULTS / "memory_offload.md"
    page.write_text(_TURNS.sub(f"\\1{table(turns)}\n\\2", page.read_text()))
    plot(turns, RESULTS / "memory_offload.png")


if __name__ == "__main__":
    main()
