"""Detects containers that run worse than usual because of their neighbours.

Writes nothing: it reports victims as decisions, an Event on the pod and signals for others.
For each container of a pod that is not best-effort, and for itself (a container that
restarts is learnt anew: what was usual of the last one may not be of another image):

- cycles per instruction (``container_cpi``), while it uses enough CPU for them to mean
  anything: caches, memory bandwidth, the other hyper-thread;
- CPU pressure (``container_psi``, some, over 10 s): tasks that wait for a CPU.

What is usual is learnt (``interference.baseline``); some outliers in a row are an episode
(``interference.suffering``), for which ``interference.antagonist`` looks for the pod whose CPU use
fits. A container that its own quota throttles also waits: then no other pod is to blame. How
long tasks wait to be scheduled is measured by no collector: only each task's schedstat says it.
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
from koordlet.qos_manager.strategies.interference.antagonist import SuspectPods, antagonist
from koordlet.qos_manager.strategies.interference.container_health import (
    HealthMeasurements,
    HealthMetric,
    Key,
    cpu_pressure,
    cycles_per_instruction,
    measured,
)
from koordlet.qos_manager.strategies.interference.detection import (
    InterferenceEpisode,
    OutlierLimits,
    SeriesWatch,
    Uses,
)

GATE = "InterferenceDetection"
INTERVAL = 10.0

_THROTTLED_SECONDS = 30.0
_FORGET_SECONDS = 3600.0
_ANTAGONIST_CORES = 0.1
_OWN_THROTTLING = 0.1


@dataclass(frozen=True, slots=True)
class Settings:
    """Conditions of victims and antagonists."""

    deviations: Annotated[float, Meta(ge=1, le=100)] = 3.0
    """Number of spreads above the mean that make an outlier."""
    points: Annotated[int, Meta(ge=1, le=10)] = 3
    """So many outliers in a row make a victim."""
    psi_floor_percent: Annotated[float, Meta(ge=0, le=100)] = 10.0
    """Less pressure is no outlier."""
    cpi_least_cores: Annotated[float, Meta(ge=0)] = 0.25
    """Cycles per instruction of a container that uses less say nothing."""
    psi_warm_up_points: Annotated[int, Meta(ge=5, le=1000)] = 30
    """Points of pressure, ten seconds apart, from which is learnt what is usual."""
    cpi_warm_up_points: Annotated[int, Meta(ge=5, le=1000)] = 15
    """The same of cycles per instruction, a minute apart."""
    correlation: Annotated[float, Meta(ge=0, le=1)] = 0.67
    """Least correlation of an antagonist's CPU use, 0 to 1; 0.67 is five times as before."""


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
    decisions = [] if found.cpi or found.psi else [Decision(_NOT_MEASURED)]
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
        notices=tuple(_notices(victims, before)),
        memory=_Memory(watches),
    )


def _recently_measured(
    before: Mapping[Key, SeriesWatch], view: StrategyView
) -> Mapping[Key, SeriesWatch]:
    """Those measured lately: containers end on a node without a list of pods too."""
    since = view.steady - _FORGET_SECONDS
    return {key: watch for key, watch in before.items() if watch.steady >= since}


_NOT_MEASURED = (
    "neither cycles per instruction nor pressure of containers is measured "
    "(gates CPICollector and PSICollector)"
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
        self._suspects: dict[tuple[int, ...], SuspectPods] = {}
        self.watches: dict[Key, SeriesWatch] = {}

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
        return watch.after(*point, steady, self._found.uses, metric.manner, metric.limits)

    def _with_cause(
        self,
        pod: PodView,
        key: Key,
        watch: SeriesWatch,
        episode: InterferenceEpisode,
        metric: HealthMetric,
    ) -> InterferenceEpisode:
        """The episode with its likely cause; one that was found stays."""
        if episode.blamed is not None or episode.throttled:
            return episode
        if metric.by_quota:
            windows = self._view.history.windows("container_cpu_throttled", _THROTTLED_SECONDS)
            own = windows.get(key[:2])
            if own is not None and own.avg >= _OWN_THROTTLING:
                return episode._replace(throttled=own.avg)
        # At a time at which no pod's use is known nothing was measured.
        points = [(deviations, uses) for deviations, uses in watch.points if uses]
        blamed = antagonist(
            pod.name,
            [deviations for deviations, _ in points],
            self._suspects_at(tuple(uses for _, uses in points)),
            self._settings.deviations,
            self._settings.correlation,
            _ANTAGONIST_CORES,
        )
        return episode._replace(blamed=blamed)

    def _suspects_at(self, uses: tuple[Uses, ...]) -> SuspectPods:
        """All pods with their use at these times, which many victims have in common."""
        # The memory of watches keeps them alive, and so their ids their own.
        key = tuple(map(id, uses))
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


def _cause(episode: InterferenceEpisode) -> str:
    if episode.throttled:
        return "its own CPU limit throttles it"
    if episode.blamed is None:
        return "no pod's CPU use stands out"
    return f"the CPU use of {episode.blamed.name} fits"


def _outcome(victim: _Victim) -> str:
    name = victim.of.container.name
    return f'container "{name}" {victim.metric.suffers}: {_cause(victim.episode)}'


def _decision(victim: _Victim) -> Decision:
    episode, unit = victim.episode, victim.metric.unit
    given = [
        Term("deviations", episode.deviations),
        Term("now", episode.value, unit),
        Term("usual", episode.usual, unit),
        Term("spread", episode.spread, unit),
    ]
    if episode.blamed is not None:
        given.append(Term("correlation", episode.blamed.correlation))
        given.append(Term("antagonist", episode.blamed.cores, "cores"))
    if episode.throttled:
        given.append(Term("throttled", episode.throttled * 100, "%"))
    return Decision(
        _outcome(victim),
        "deviations = (now − usual) / spread",
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


def _notices(victims: Iterable[_Victim], before: Mapping[Key, SeriesWatch]) -> Iterator[PodNotice]:
    """One for each pod that is a victim and was none in the last round."""
    suffering = {key[0] for key, watch in before.items() if watch.episode is not None}
    for victim in victims:
        if victim.pod.uid not in suffering:
            suffering.add(victim.pod.uid)
            episode = victim.episode
            unit = victim.metric.unit
            numbers = f"{episode.value:.3g}{unit}, usually {episode.usual:.3g}{unit}"
            yield PodNotice(victim.pod, "CPUInterference", f"{_outcome(victim)} ({numbers})")
