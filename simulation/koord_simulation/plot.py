"""A run as a picture; needs matplotlib, which nothing else here does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from koord_prediction.histogram import Floats
from koord_service.extras import install_command

from koord_simulation.files import ScenarioError
from koord_simulation.run.record import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OTHERS, _BEST_EFFORT, _EVICTION, _KILL = "#7aa6d1", "#f5b87a", "#7b3fa0", "#c62828"
_GIB = 2.0**30
_DECADE = 10.0


def plot(run: Run, path: Path) -> None:
    """CPU of both sides and what best-effort pods may use, memory, the worst p99; as a PNG.

    Raises:
        ScenarioError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        # Only who wants pictures pays for it.
        from matplotlib.figure import Figure
    except ImportError:
        run_this = install_command("bench")
        raise ScenarioError(f"--plot needs matplotlib; run: {run_this}") from None
    word, unit = ("hours", 3600.0) if len(run.cpu) >= 2 * 3600 else ("minutes", 60.0)
    times = np.arange(len(run.cpu)) / unit
    figure = Figure(figsize=(11, 8.5), layout="constrained", facecolor="white")
    axes = figure.subplots(3, sharex=True, height_ratios=(3, 2, 2))
    axes[0].set_title(run.scenario.name or "scenario")
    _cpu(axes[0], times, run)
    _memory(axes[1], times, run)
    _latency(axes[2], times, run)
    for ax in axes:
        ax.grid(color="#dddddd", linewidth=0.6)
        ax.set_axisbelow(True)
        _mark(ax, (two.at / unit for two in run.evictions), _EVICTION, "eviction")
        _mark(ax, (two.at / unit for two in run.kills), _KILL, "killed for memory")
        handles, labels = ax.get_legend_handles_labels()
        if len(labels) > 1:
            # Beside the curves, which it would hide.
            ax.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.005, 1.0))
    axes[2].set_xlabel(word)
    axes[2].set_xlim(0, max(float(times[-1]), 1 / unit))
    try:
        figure.savefig(path, format="png", dpi=110)
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror or error}") from None


def _cpu(axes: Axes, times: Floats, run: Run) -> None:
    parts = (run.cpu - run.be_cpu, run.be_cpu)
    names = ("others use", "best effort uses")
    axes.stackplot(times, *parts, labels=names, colors=(_OTHERS, _BEST_EFFORT))
    axes.plot(times, run.be_allowed, "k", linewidth=1, label="best effort may use")
    axes.set_ylabel("CPUs")
    axes.set_ylim(0, run.scenario.machine.cpus * 1.03)


def _memory(axes: Axes, times: Floats, run: Run) -> None:
    axes.fill_between(times, run.memory / _GIB, color=_OTHERS, label="used, with page cache")
    axes.set_ylabel("memory, GiB")
    axes.set_ylim(0, run.scenario.machine.memory / _GIB * 1.03)


def _latency(axes: Axes, times: Floats, run: Run) -> None:
    axes.set_ylabel("worst p99 of\nservices, ms")
    serving = [n for n, pod in enumerate(run.scenario.pods) if pod.latency_sensitive]
    worst = np.nan_to_num(run.p99[:, serving]).max(axis=1) if serving else np.zeros(0)
    some = worst[worst > 0]
    if not some.size:
        return
    axes.plot(times, np.where(worst > 0, worst, np.nan), linewidth=0.8, color="#1f4e79")
    if some.max() > _DECADE * some.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(0, float(some.max()) * 1.1)


def _mark(axes: Axes, at: Iterable[float], color: str, name: str) -> None:
    for number, moment in enumerate(sorted(set(at))):
        axes.axvline(moment, color=color, linewidth=1, label=name if number == 0 else None)
