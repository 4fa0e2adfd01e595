"""A run as a picture. Wants matplotlib, which nothing else here does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from koord_simulation.files import ScenarioError
from koord_simulation.recording import Run


def plot(run: Run, path: Path) -> None:
    """CPU of both sides, what best-effort pods may use, and the worst p99; as a PNG.

    Raises:
        ScenarioError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        # Only who wants pictures pays for it.
        from matplotlib.figure import Figure
    except ImportError:
        raise ScenarioError("--plot wants matplotlib: pip install 'pykoord[bench]'") from None
    hours = np.arange(len(run.cpu)) / 3600
    figure = Figure(figsize=(11, 7), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    above.set_title(run.scenario.name or "scenario")
    above.stackplot(
        hours, run.cpu - run.be_cpu, run.be_cpu, labels=("others", "best effort"), alpha=0.6
    )
    above.plot(hours, run.be_allowed, "k", linewidth=1, label="best effort may use")
    above.set_ylabel("CPUs")
    above.legend(loc="upper right")
    serving = [n for n, pod in enumerate(run.scenario.pods) if pod.latency_sensitive]
    if serving:
        below.plot(hours, np.nan_to_num(run.p99[:, serving]).max(axis=1), linewidth=0.8)
    below.set_yscale("log")
    below.set_ylabel("worst p99, ms")
    below.set_xlabel("hours")
    for at in {one.at for one in run.evictions}:
        below.axvline(at / 3600, color="tab:orange", linewidth=0.8)
    for at in {one.at for one in run.kills}:
        below.axvline(at / 3600, color="tab:red", linewidth=0.8)
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror or error}") from None
