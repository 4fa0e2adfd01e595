"""Estimated usage of a pod, as Koordinator's defaultEstimator estimates it. No IO."""

from __future__ import annotations

import math
from collections.abc import Mapping

from koord_model.keys import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, MID_CPU, MID_MEMORY
from koord_model.priority import PriorityClass

from koord_scheduler.objects.pod_times import PodTimes
from koord_scheduler.plugins.load_aware.pod_load import PodLoad, asked
from koord_scheduler.plugins.load_aware.settings import LoadSettings, Vector

_OF_NO_REQUEST = {CPU: 250, BATCH_CPU: 250, MEMORY: 200 << 20, BATCH_MEMORY: 200 << 20}
"""Usage of a pod without requests: millicores, bytes."""
_NAMES: Mapping[PriorityClass, Mapping[str, str]] = {
    PriorityClass.BATCH: {CPU: BATCH_CPU, MEMORY: BATCH_MEMORY},
    PriorityClass.MID: {CPU: MID_CPU, MEMORY: MID_MEMORY},
    PriorityClass.FREE: {},
}
"""Names of CPU and memory in requests by pods other than production pods."""


class LoadEstimator:
    """Estimates by ``settings``; most pods are copies of others."""

    _MOST_REMEMBERED = 1 << 14

    def __init__(self, settings: LoadSettings) -> None:
        self.settings = settings
        self._known: dict[PodLoad, Vector] = {}

    def usage(self, load: PodLoad) -> Vector:
        """Return a pod's estimated usage of each resource."""
        found = self._known.get(load)
        if found is None:
            if len(self._known) >= self._MOST_REMEMBERED:
                self._known.clear()
            found = self._known[load] = self._estimate(load)
        return found

    def ends(self, load: PodLoad, times: PodTimes) -> float:
        """Return until when a pod counts with its estimate anyway: seconds since the epoch.

        It is -inf where that is decided by reports alone.
        """
        settings = self.settings
        after_scheduled, after_initialized = settings.after_scheduled, settings.after_initialized
        if settings.allows_custom_estimates:
            if load.after_scheduled is not None:
                after_scheduled = load.after_scheduled
            if load.after_initialized is not None:
                after_initialized = load.after_initialized
        if after_initialized and times.initialized is not None:
            return times.initialized + after_initialized
        return times.scheduled + after_scheduled if after_scheduled else -math.inf

    def _estimate(self, load: PodLoad) -> Vector:
        factors = dict(self.settings.factors)
        if self.settings.allows_custom_estimates and load.factors:
            factors |= load.factors
        return tuple(
            _estimated(load, name, factors[name]) if name in factors else 0
            for name in self.settings.resources
        )


def _estimated(load: PodLoad, resource: str, factor: int) -> int:
    of_class = _NAMES.get(load.priority_class)
    name = resource if of_class is None else of_class.get(resource, "")
    _, request, limit = asked(load.amounts, name)
    amount = max(request, limit)
    if not amount:
        return _OF_NO_REQUEST.get(name, 0)
    found = rounded(float(amount) * factor / 100)
    return min(found, limit) if limit else found


def rounded(number: float) -> int:
    """To the next whole number, halves away from 0, as Go's ``math.Round``."""
    below = math.floor(abs(number))
    return int(math.copysign(below + (abs(number) - below >= 0.5), number))
