"""Drift: what to do about values that somebody else put in place of ours.

A value drifts when somebody changes it after it was written and read back here: the
kubelet's static CPU manager, a person, configuration management. The executor notices
when it reads the value again, at a refresh or when another value is desired.

    hold    Our value is written again, and reported. The third time within ten minutes
            raises an alert, once until ten quiet minutes have passed; our value is
            still written at each refresh.
    yield   Their value stays until another one is desired or it equals ours; reported once.
    alert   Their value stays likewise; reported once, as an alert.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from koord_host.knobs.table import DriftPolicy, Knob
from koord_host.planning.desired_values import Target

ALERT_AFTER = 3
WINDOW_SECONDS = 600.0

DriftPolicyOf = Callable[[Target, Knob], DriftPolicy]


def by_row(_: Target, knob: Knob) -> DriftPolicy:
    """Return the policy of the knob's row."""
    return knob.on_drift


_POD = re.compile(r"(?:^|-)pod[0-9a-f]")
"""A pod's group: "pod1-2" or "kubepods-besteffort-pod1_2.slice"."""


def beside_static_kubelet(static: Callable[[], bool]) -> DriftPolicyOf:
    """Return the rows' policies; containers' CPUs are the kubelet's while its policy is static.

    ``static`` is whether the kubelet's CPU manager policy is static just now.
    """

    def policy(target: Target, knob: Knob) -> DriftPolicy:
        above = target.place.rpartition("/")[0].rpartition("/")[2]
        if knob.name == "cpuset.cpus" and _POD.search(above) and static():
            return DriftPolicy.YIELD
        return knob.on_drift

    return policy


class DriftResponse(Enum):
    """Response to drift this time."""

    WRITE = "write"
    WRITE_AND_ALERT = "write and alert"
    LEAVE = "leave"
    LEAVE_AND_ALERT = "leave and alert"


@dataclass(slots=True)
class DriftCounter:
    """Recent changes of one target by others; times are monotonic."""

    times: list[float] = field(default_factory=list)
    alerted: bool = False

    def judge(self, policy: DriftPolicy, now: float) -> DriftResponse:
        """Decide what to do about a value that somebody else set."""
        if policy is DriftPolicy.YIELD:
            return DriftResponse.LEAVE
        if policy is DriftPolicy.ALERT:
            return DriftResponse.LEAVE_AND_ALERT
        self.times = [time for time in self.times if now - time < WINDOW_SECONDS]
        if not self.times:
            self.alerted = False
        self.times.append(now)
        if len(self.times) < ALERT_AFTER or self.alerted:
            return DriftResponse.WRITE
        self.alerted = True
        return DriftResponse.WRITE_AND_ALERT
