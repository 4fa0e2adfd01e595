"""Summary of a run: a few numbers, and lines of text for people. No IO.

``direction_changes`` is how often an hour what best-effort pods may use turns from more to
less or back: a strategy that swings shows by it. ``p99`` of a pod is the mean over the seconds
it ran, ``worst`` what one second in a hundred exceeded, ``throttled`` the mean part of periods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from koord_prediction.histogram import Floats

from koord_simulation.run.record import EvictionLine, OOMKill, Run

_HOUR = 3600.0
_GIB = 2.0**30
_MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class PodReport:
    """Service of a pod that serves requests; latencies are milliseconds."""

    pod: str
    qos: str
    p50: float
    p99: float
    worst: float
    throttled: float
    cores: float


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run in numbers: cores, bytes, hours of a CPU; percent where the name says so."""

    name: str
    seconds: int
    cpu_percent: float
    cpu_percent_most: float
    memory_most: float
    be_cpu_hours: float
    be_cpu_hours_wanted: float
    be_allowed_least: float
    be_allowed_mean: float
    direction_changes: float
    pods: tuple[PodReport, ...]
    evictions: tuple[EvictionLine, ...]
    kills: tuple[OOMKill, ...]
    refused: Mapping[str, int]
    problems: tuple[str, ...]

    @property
    def be_kept_percent(self) -> float:
        """The part of what best-effort pods would have used that they got."""
        wanted = self.be_cpu_hours_wanted
        return 100 * self.be_cpu_hours / wanted if wanted else 100.0

    def document(self) -> dict[str, object]:
        """As JSON has it; numbers to six digits."""
        found = {**asdict(self), "be_kept_percent": self.be_kept_percent}
        found["evictions"] = [eviction._asdict() for eviction in self.evictions]
        found["kills"] = [kill._asdict() for kill in self.kills]
        found["pods"] = [asdict(pod) for pod in self.pods]
        return {key: _short(value) for key, value in found.items()}


def report(run: Run) -> RunReport:
    """The numbers of a run, less its warm-up."""
    scenario = run.scenario
    since = min(scenario.warm_up, scenario.seconds - 1)
    cpu, allowed = run.cpu[since:], run.be_allowed[since:]
    cpus = scenario.machine.cpus
    return RunReport(
        name=scenario.name,
        seconds=len(cpu),
        cpu_percent=100 * float(cpu.mean()) / cpus,
        cpu_percent_most=100 * float(cpu.max()) / cpus,
        memory_most=float(run.memory[since:].max()),
        be_cpu_hours=float(run.be_cpu[since:].sum()) / _HOUR,
        be_cpu_hours_wanted=float(run.be_demand[since:].sum()) / _HOUR,
        be_allowed_least=float(allowed.min()),
        be_allowed_mean=float(allowed.mean()),
        direction_changes=direction_changes(allowed) * _HOUR / len(allowed),
        pods=tuple(_pods(run, since)),
        evictions=tuple(eviction for eviction in run.evictions if eviction.at >= since),
        kills=tuple(kill for kill in run.kills if kill.at >= since),
        refused=dict(
            Counter(f"{refusal.target.knob}: {refusal.why}" for _, refusal in run.refused)
        ),
        problems=tuple(dict.fromkeys(line for _, line in run.problems)),
    )


def direction_changes(curve: Floats) -> int:
    """Count the turns of a curve; where it stands still it does not turn."""
    steps = np.diff(curve)
    ways = np.sign(steps[np.abs(steps) > 1e-9])
    return int(np.count_nonzero(ways[1:] != ways[:-1]))


def _pods(run: Run, since: int) -> Iterator[PodReport]:
    for number, pod in enumerate(run.scenario.pods):
        p99 = run.p99[since:, number]
        if not pod.latency_sensitive or np.isnan(p99).all():
            continue
        yield PodReport(
            pod.full_name,
            pod.qos.value,
            float(np.nanmean(run.p50[since:, number])),
            float(np.nanmean(p99)),
            float(np.nanpercentile(p99, 99)),
            float(np.nanmean(run.throttled[since:, number])),
            float(np.nanmean(run.used[since:, number])),
        )


def lines(found: RunReport) -> Iterator[str]:
    """The report for people."""
    yield f"{found.name or 'scenario'}: {found.seconds} s"
    yield (
        f"node: CPU {found.cpu_percent:.0f} % on average, {found.cpu_percent_most:.0f} % at most; "
        f"memory {found.memory_most / _GIB:.1f} GiB at most"
    )
    yield (
        f"best effort: {found.be_cpu_hours:.1f} of {found.be_cpu_hours_wanted:.1f} CPU hours "
        f"({found.be_kept_percent:.0f} %); allowed {found.be_allowed_mean:.1f} CPUs on average, "
        f"{found.be_allowed_least:.1f} at least; {found.direction_changes:.1f} turns an hour"
    )
    if found.pods:
        p99 = sum(pod.p99 for pod in found.pods) / len(found.pods)
        worst = max(pod.worst for pod in found.pods)
        yield f"services: p99 {p99:.1f} ms on average, {worst:.1f} ms in the worst seconds"
        yield ""
        yield from _columns([_HEADER, *map(_row, found.pods)])
    happened = [
        *_few("evicted", list(_evictions(found.evictions))),
        *_few("killed for memory", list(map(_kill, found.kills))),
        *_few("refused by the kernel", [f"{n} × {why}" for why, n in found.refused.items()]),
        *_few("problem", list(found.problems)),
    ]
    if happened:
        yield ""
        yield from happened


_HEADER = ("pod", "class", "p50 ms", "p99 ms", "worst ms", "throttled", "CPUs")


def _row(pod: PodReport) -> tuple[str, ...]:
    return (
        pod.pod,
        pod.qos,
        f"{pod.p50:.1f}",
        f"{pod.p99:.1f}",
        f"{pod.worst:.1f}",
        f"{pod.throttled:.1%}",
        f"{pod.cores:.2f}",
    )


def _evictions(found: Iterable[EvictionLine]) -> Iterator[str]:
    """A line each; the arithmetic with the first of a strategy, for it is long."""
    explained: set[str] = set()
    for eviction in found:
        line = f"{eviction.at:.0f} s {eviction.pod} by {eviction.strategy}"
        yield line if eviction.strategy in explained else f"{line}: {eviction.why}"
        explained.add(eviction.strategy)


def _kill(kill: OOMKill) -> str:
    return f"{kill.at:.0f} s {kill.pod} ({f'limit of {kill.where}' if kill.where else 'node'})"


def _few(what: str, found: Sequence[str]) -> Iterator[str]:
    yield from (f"{what}: {line}" for line in found[:_MOST_LINES])
    if len(found) > _MOST_LINES:
        yield f"{what}: and {len(found) - _MOST_LINES} more"


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        name, *numbers = (
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join((name, *numbers)).rstrip()


def _short(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [_short(item) for item in value]
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    return value
