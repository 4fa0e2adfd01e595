"""Results as a table, as JSON and as a picture."""

from __future__ import annotations

import json
import math
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Measure:
    """One figure of ours beside a peer's or a bound.

    ``ratio`` is ours over the peer's; ``target`` bounds the ratio if there is a
    peer, else our figure itself. ``why`` says what holds a missed one back.
    ``interval`` has 95 % confidence: of the ratio if there is a peer, else of our figure.
    """

    name: str
    unit: str
    ours: float
    peer_name: str
    peer: float | None
    target: float | None
    why: str = ""
    interval: tuple[float, float] | None = None
    ratio: float | None = field(init=False)
    met: bool | None = field(init=False)

    def __post_init__(self) -> None:
        ratio = self.ours / self.peer if self.peer else None
        judged = self.ours if self.peer is None else ratio
        met = None if self.target is None or judged is None else judged <= self.target
        object.__setattr__(self, "ratio", ratio)
        object.__setattr__(self, "met", met)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median, for any distribution (sign test).

    The k-th smallest and the k-th largest value; k is the largest for which a fair coin
    comes up heads fewer than k times in at most 2.5 % of ``len(values)`` tosses. Of fewer
    than six values it is all of them.
    """
    ordered, count = sorted(values), len(values)
    tail, k = 0.0, 0
    while (tail := tail + math.comb(count, k) / 2**count) <= 0.025:
        k += 1
    return ordered[max(k - 1, 0)], ordered[min(count - k, count - 1)]


def table(measures: list[Measure]) -> str:
    head = ("measure", "ours", "peer", "", "ratio", "95 %", "target", "")
    rows = [head, *(_row(measure) for measure in measures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def _row(measure: Measure) -> tuple[str, ...]:
    bound = "" if measure.target is None else f"≤ {measure.target:g}"
    if measure.target is not None:
        bound += "×" if measure.peer is not None else f" {measure.unit}"
    return (
        measure.name,
        f"{measure.ours:.4g} {measure.unit}",
        "" if measure.peer is None else f"{measure.peer:.4g} {measure.unit}",
        measure.peer_name,
        "" if measure.ratio is None else f"{measure.ratio:.2f}×",
        "" if measure.interval is None else "{:.3g}–{:.3g}".format(*measure.interval),
        bound,
        {True: "met", False: "MISSED", None: ""}[measure.met],
    )


def write(measures: list[Measure], name: str, settings: Mapping[str, object]) -> None:
    """Put the results beside earlier ones; those of other benches in latest.json stay."""
    RESULTS.mkdir(exist_ok=True)
    text = table(measures)
    missed = [f"{m.name}: missed. {m.why}" for m in measures if m.met is False]
    page = [f"# {name}", "", "```", text, "```", ""]
    page += [f"{key}: {value}  " for key, value in settings.items()]
    page += [f"machine: {platform.machine()}, kernel {platform.release()}  "]
    page += ["", *missed] if missed else []
    (RESULTS / f"{name}.md").write_text("\n".join(page).rstrip() + "\n")
    latest = RESULTS / "latest.json"
    kept = json.loads(latest.read_text()) if latest.exists() else {}
    kept[name] = [asdict(measure) for measure in measures]
    latest.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")


def plot(measures: list[Measure], added: dict[str, dict[str, float]], name: str) -> None:
    """Plot the cost of each path, and each ratio beside its target."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    paths = list(added)
    for offset, which in enumerate(("p50", "p99")):
        places = [index + 0.38 * offset for index in range(len(paths))]
        bars = left.bar(places, [added[path][which] for path in paths], 0.36, label=which)
        left.bar_label(bars, fmt="%.0f", fontsize=8)
    left.set_xticks([index + 0.19 for index in range(len(paths))], paths)
    left.set_ylabel("added to a direct call, µs")
    left.set_title("Version, one caller")
    left.legend(frameon=False)
    judged = [measure for measure in measures if measure.target is not None]
    shares = [(one.ours if one.ratio is None else one.ratio) / (one.target or 1) for one in judged]
    colours = ["tab:green" if measure.met else "tab:red" for measure in judged]
    bars = right.barh([measure.name for measure in judged], shares, color=colours)
    right.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    right.axvline(1, color="black", linewidth=1)
    right.set_xlim(0, max([1.3, *(share * 1.15 for share in shares)]))
    right.set_xlabel("share of the target (left of the line: met)")
    right.invert_yaxis()
    right.tick_params(axis="y", labelsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(RESULTS / f"{name}.png", dpi=110)
    plt.close(figure)


def plot_turns(
    latencies: Mapping[str, Sequence[Sequence[float]]],
    batch: Mapping[str, Sequence[float]],
    name: str,
) -> None:
    """Latencies in milliseconds and batch work in cores, by variant and turn.

    How many requests took longer than so long, of all turns together; p99 of each turn with the
    median of all; and batch work the same way.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.8), layout="constrained")
    colours = dict(zip(latencies, plt.rcParams["axes.prop_cycle"].by_key()["color"], strict=False))
    for variant, turns in latencies.items():
        every = sorted(one for turn in turns for one in turn)
        above = [1 - place / len(every) for place in range(len(every))]
        left.step(every, above, label=variant, color=colours[variant], where="post")
    left.set(xscale="log", yscale="log", xlabel="latency, ms", title="All requests")
    left.set_ylabel("part of the requests that took longer")
    left.legend(frameon=False, fontsize=8)
    p99 = {
        variant: [sorted(turn)[int(len(turn) * 0.99)] for turn in turns]
        for variant, turns in latencies.items()
    }
    _dots(middle, p99, colours)
    middle.set(yscale="log", ylabel="p99, ms", title="p99 of each turn, and the median")
    for axis in (left.xaxis, left.yaxis, middle.yaxis):
        axis.set_major_formatter("{x:g}")
    middle.yaxis.set_minor_formatter("{x:g}")
    left.xaxis.set_minor_formatter("")  # their labels would lie over each other
    _dots(right, batch, colours)
    right.set(ylabel="cores", title="Batch work of each turn, and the median", ylim=(0, None))
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(RESULTS / f"{name}.png", dpi=110)
    plt.close(figure)


def _dots(axes: Axes, values: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> None:
    """A dot for each turn, a line and a number for the median."""
    for place, (variant, turns) in enumerate(values.items()):
        middle = statistics.median(turns)
        axes.plot([place] * len(turns), turns, "o", color=colours[variant], alpha=0.5)
        axes.hlines(middle, place - 0.3, place + 0.3, color=colours[variant], linewidth=2)
        axes.annotate(
            f"{middle:.3g}",
            (place + 0.08, middle),
            textcoords="offset points",
            xytext=(0, 4),
            fontsize=8,
        )
    axes.set_xticks(range(len(values)), values, rotation=20, ha="right", fontsize=8)
