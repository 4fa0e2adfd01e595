"""Detects containers that run worse than usual because of their neighbours.

Writes nothing: it reports victims as decisions, an Event on the pod and signals for others.
For each container of a pod that is not best-effort, and for itself (a container that
restarts is learnt anew: what was usual of the last one may not be of another image), it watches
what ``interference.container_health`` lists, as far as it is measured:

- cycles per instruction (``container_cpi``), while it uses enough CPU for them to mean
  anything: caches, memory bandwidth, the other hyper-thread;
- CPU pressure (``container_psi``, some, over 10 s), and how long its tasks wait for a CPU for
  each second that they use (``container_cpu_sched_wait``);
- waits for memory, for disks, and on TCP connections (collectors ``taskdelay`` and ``tcp``).

What is usual is learnt (``interference.baseline``); some outliers in a row are an episode
(``interference.detection``), for which ``interference.antagonist`` looks for the pod whose use of
that resource fits. A container that a limit of its own holds up also waits: then no other pod is
to blame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from koord_model.node_slo import NodeSLO
from koord_model.qos import QoSClass
from msgspec import Meta

from koordlet.qos_manager.core.strategy import (
    ContainerView,
    Decision,
    Plan,
    PodNotice,
    PodView,
    StrategySignal,
    StrategyView,
    Term,
)
from koordlet.qos_manager.strategies.interference.antagonist import (
    Antagonist,
    SuspectPods,
    antagonist,
)
from koordlet.qos_manager.strategies.interference.container_health import (
    HealthMeasurements,
    HealthMetric,
    Key,
    cpu_pressure,
    cycles_per_instruction,
    delays,
    measured,
)
from koordlet.qos_manager.strategies.interference.detection import (
    InterferenceEpisode,
    OutlierLimits,
    SeriesWatch,
)
from koordlet.qos_manager.strategies.interference.suspicion import CPU, ContendedResource

GATE = "InterferenceDetection"
INTERVAL = 5.0

_FORGET_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Conditions of victims and antagonists."""

    deviations: Annotated[float, Meta(ge=1, le=100)] = 3.0
    """Number of spreads above the mean that make an outlier, of cycles and pressure."""
    delay_deviations: Annotated[float, Meta(ge=1, le=100)] = 4.0
    """The same of waits and connections, whose spreads are factors."""
    points: Annotated[int, Meta(ge=1, le=10)] = 3
    """So many outliers in a row make a victim."""
    psi_floor_percent: Annotated[float, Meta(ge=0, le=100)] = 20.0
    """Less pressure is never an outlier."""
    cpi_least_cores: Annotated[float, Meta(ge=0)] = 0.25
    """Cycles per instruction of a container that uses less say nothing."""
    psi_warm_up_points: Annotated[int, Meta(ge=5, le=1000)] = 30
    """Points of pressure, ten seconds apart, from which is learnt what is usual."""
    cpi_warm_up_points: Annotated[int, Meta(ge=5, le=1000)] = 15
    """The same of cycles per instruction, a minute apart."""
    delay_warm_up_points: Annotated[int, Meta(ge=5, le=1000)] = 120
    """The same of waits and connections, five and six seconds apart."""
    sched_wait_floor_ms: Annotated[float, Meta(ge=0)] = 300.0
    """Waits for CPUs that are shorter, for each second of CPU used, are no outlier."""
    memory_delay_floor_ms: Annotated[float, Meta(ge=0)] = 20.0
    """Waits for memory that are shorter, in each second, are no outlier."""
    disk_wait_floor_ms: Annotated[float, Meta(ge=0)] = 5.0
    """An average wait for a disk that is shorter is no outlier."""
    tcp_rtt_floor_ms: Annotated[float, Meta(ge=0)] = 5.0
    """A shorter round-trip time is no outlier."""
    tcp_retransmits_floor_percent: Annotated[float, Meta(ge=0, le=100)] = 2.0
    """Fewer segments that are sent again are no outlier."""
    correlation: Annotated[float, Meta(ge=0, le=1)] = 0.67
    """Least correlation of an antagonist's use, 0 to 1; 0.67 is five times as before."""


def settings(slo: NodeSLO) -> Settings:
    """Koordinator has no section for it."""
    return Settings()


class _Memory(NamedTuple):
    watches: Mapping[Key, SeriesWatch] = {}


class _Victim(NamedTuple):
    pod: PodView
    of: ContainerView
    metric: HealthMetric
    episode: InterferenceEpisode


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """The victims, and the likely antagonist of each."""
    before = memory.watches if isinstance(memory, _Memory) else {}
    found = measured(view)
    measures = found.cpi or found.psi or any(found.delays.values())
    decisions = [] if measures else [Decision(_NOT_MEASURED)]
    now = _Detector(view, settings, found, before)
    victims = [
        victim for pod in view.pods if pod.qos is not QoSClass.BE for victim in now.victims(pod)
    ]
    watches = (
        now.watches if view.pods_known else {**_recently_measured(before, view), **now.watches}
    )
    return Plan(
        decisions=(*decisions, *(_decision(victim) for victim in victims)),
        signals=tuple(_signals(victims)),
        notices=tuple(_notices(victims, before, now.reasons)),
        memory=_Memory(watches),
    )


def _recently_measured(
    before: Mapping[Key, SeriesWatch], view: StrategyView
) -> Mapping[Key, SeriesWatch]:
    """Those measured lately: containers end on a node without a list of pods too."""
    since = view.steady - _FORGET_SECONDS
    return {key: watch for key, watch in before.items() if watch.steady >= since}


_NOT_MEASURED = (
    "neither cycles per instruction, pressure, waits nor connections of containers are measured "
    "(gates CPICollector, PSICollector, TaskDelayCollector, TCPCollector)"
)


def _metrics(settings: Settings) -> tuple[HealthMetric, ...]:
    return (
        cycles_per_instruction(
            settings.cpi_least_cores,
            settings.cpi_warm_up_points,
            OutlierLimits(settings.deviations, settings.points),
        ),
        cpu_pressure(
            settings.psi_warm_up_points,
            OutlierLimits(settings.deviations, settings.points, settings.psi_floor_percent),
        ),
        *delays(
            {
                "sched_wait": settings.sched_wait_floor_ms,
                "memory_delay": settings.memory_delay_floor_ms,
                "disk_wait": settings.disk_wait_floor_ms,
                "tcp_rtt": settings.tcp_rtt_floor_ms,
                "tcp_retransmits": settings.tcp_retransmits_floor_percent,
            },
            settings.delay_warm_up_points,
            OutlierLimits(settings.delay_deviations, settings.points),
        ),
    )


class _Detector:
    """One look at all containers; ``watches`` fill as pods are looked at."""

    def __init__(
        self,
        view: StrategyView,
        settings: Settings,
        found: HealthMeasurements,
        before: Mapping[Key, SeriesWatch],
    ) -> None:
        self._view = view
        self._settings = settings
        self._found = found
        self._before = before
        self._metrics = _metrics(settings)
        self._suspects: dict[tuple[str, tuple[int, ...]], SuspectPods] = {}
        self.watches: dict[Key, SeriesWatch] = {}
        self.reasons = {metric.name: metric.suspected[0].event for metric in self._metrics}

    def victims(self, pod: PodView) -> Iterator[_Victim]:
        """Those of a pod's containers that suffer."""
        for container in pod.containers:
            for metric in self._metrics:
                key = pod.uid, container.container.id, metric.name
                watch = self._watched(key, metric)
                if watch is None:
                    continue
                episode = watch.episode
                if episode is not None and watch is not self._before.get(key):
                    episode = self._with_cause(pod, key, watch, episode, metric)
                    watch = watch._replace(episode=episode)
                self.watches[key] = watch
                if episode is not None:
                    yield _Victim(pod, container, metric, episode)

    def _watched(self, key: Key, metric: HealthMetric) -> SeriesWatch | None:
        """A series with its newest point; ``None`` where nothing was ever measured."""
        before, steady = self._before.get(key), self._view.steady
        point = metric.read(self._found, key[:2])
        if point is None:
            return before.unless_silent(steady) if before else None
        watch = before or SeriesWatch(steady=steady)
        uses = self._found.uses
        own = uses.get(CPU.kind, {}).get(key[0]) if metric.by_own_use else None
        return watch.after(*point, steady, uses, metric.manner, metric.limits, own)

    def _with_cause(
        self,
        pod: PodView,
        key: Key,
        watch: SeriesWatch,
        episode: InterferenceEpisode,
        metric: HealthMetric,
    ) -> InterferenceEpisode:
        """The episode with its likely cause; one that was found stays."""
        if episode.blamed is not None or episode.own:
            return episode
        if metric.own is not None:
            windows = self._view.history.windows(metric.own.kind, metric.own.seconds)
            own = windows.get(key[:2])
            if own is not None and own.avg >= metric.own.least:
                return episode._replace(own=own.avg)
        found = (self._antagonist(pod, watch, metric, resource) for resource in metric.suspected)
        return episode._replace(blamed=next(filter(None, found), None))

    def _antagonist(
        self, pod: PodView, watch: SeriesWatch, metric: HealthMetric, resource: ContendedResource
    ) -> Antagonist | None:
        # At a time at which no pod's use is known nothing was measured.
        points = [(off, used[resource.kind]) for off, used in watch.points if resource.kind in used]
        return antagonist(
            pod.name,
            [deviations for deviations, _ in points],
            self._suspects_at(resource, tuple(used for _, used in points)),
            resource,
            metric.limits.deviations,
            self._settings.correlation,
        )

    def _suspects_at(
        self, resource: ContendedResource, uses: tuple[Mapping[str, float], ...]
    ) -> SuspectPods:
        """All pods with their use at these times, which many victims have in common."""
        # The memory of watches keeps them alive, and so their ids their own.
        key = resource.kind, tuple(map(id, uses))
        if key not in self._suspects:
            pods = self._view.pods
            # A pod that was not measured when others were did not run yet.
            table = [[each.get(pod.uid, 0.0) for pod in pods] for each in uses]
            self._suspects[key] = SuspectPods(
                [pod.name for pod in pods],
                np.array([pod.qos is QoSClass.BE for pod in pods], np.bool_),
                np.array(table, np.float64).reshape(len(uses), len(pods)),
            )
        return self._suspects[key]


# ---- texts


def _cause(metric: HealthMetric, episode: InterferenceEpisode) -> str:
    if metric.own is not None and episode.own:
        return metric.own.cause
    if episode.blamed is None:
        return f"no pod's {metric.suspected[0].name} stands out"
    return f"the {episode.blamed.resource.name} of {episode.blamed.name} fits"


def _outcome(victim: _Victim) -> str:
    name = victim.of.container.name
    return f'container "{name}" {victim.metric.suffers}: {_cause(victim.metric, victim.episode)}'


def _decision(victim: _Victim) -> Decision:
    episode, unit = victim.episode, victim.metric.unit
    given = [
        Term("deviations", episode.deviations),
        Term("now", episode.value, unit),
        Term("usual", episode.usual, unit),
    ]
    if (offset := victim.metric.manner.offset) is None:
        formula = "deviations = (now − usual) / spread"
        given.append(Term("spread", episode.spread, unit))
    else:
        formula = "deviations = ln((now + offset) / (usual + offset)) / spread"
        given += [Term("offset", offset, unit), Term("spread", episode.spread)]
    if episode.blamed is not None:
        _, resource, correlation, use = episode.blamed
        given.append(Term("correlation", correlation))
        given.append(Term("antagonist", use / resource.scale, resource.unit))
    if (own := victim.metric.own) is not None and episode.own:
        given.append(Term(own.name, episode.own * own.scale, own.unit))
    return Decision(
        _outcome(victim),
        formula,
        tuple(given),
        pod=victim.pod.name,
        group=victim.of.group,
        aspect=victim.metric.name,
    )


def _signals(victims: Iterable[_Victim]) -> Iterator[StrategySignal]:
    """Each victim pod's largest deviation, and how many pods are victims."""
    worst: dict[tuple[str, str], float] = {}
    for victim in victims:
        key = f"{victim.metric.name}_outlier", victim.pod.name
        worst[key] = max(worst.get(key, 0.0), victim.episode.deviations)
    for (signal, pod), deviations in worst.items():
        yield StrategySignal(signal, deviations, pod)
    yield StrategySignal("victims", len({pod for _, pod in worst}))


def _notices(
    victims: Iterable[_Victim], before: Mapping[Key, SeriesWatch], reasons: Mapping[str, str]
) -> Iterator[PodNotice]:
    """One for each pod and resource of which it is a victim and was none in the last round."""
    suffering = {
        (uid, reasons.get(name)) for (uid, _, name), watch in before.items() if watch.episode
    }
    for victim in victims:
        reason = reasons[victim.metric.name]
        if (victim.pod.uid, reason) not in suffering:
            suffering.add((victim.pod.uid, reason))
            episode = victim.episode
            unit = victim.metric.unit
            numbers = f"{episode.value:.3g}{unit}, usually {episode.usual:.3g}{unit}"
            yield PodNotice(victim.pod, reason, f"{_outcome(victim)} ({numbers})")
