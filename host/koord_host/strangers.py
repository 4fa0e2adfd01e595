"""Values that somebody else has put in place of ours: what is done about them.

A stranger is whoever changes a value after it was written and read back here: the
kubelet's static CPU manager, a person, configuration management. It is noticed
when the value is read again, at a refresh or with a new wish.

    hold    ours is written again, and that is told. At the third time within ten
            minutes it becomes an alert, told once until there have been ten quiet
            minutes; ours goes on being written, once a refresh.
    yield   theirs stays until our wish changes, or it is ours again; told once.
    alert   theirs stays in the same way; told once, as an alert.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from koord_host.knobs import Knob, Stranger
from koord_host.wishes import Target

STRIKES = 3
WINDOW_SECONDS = 600.0

Policy = Callable[[Target, Knob], Stranger]


def by_row(_: Target, knob: Knob) -> Stranger:
    """What the knob's row says."""
    return knob.stranger


_POD = re.compile(r"(?:^|-)pod[0-9a-f]")
"""A pod's group: "pod1-2" or "kubepods-besteffort-pod1_2.slice"."""


def beside_static_kubelet(static: Callable[[], bool]) -> Policy:
    """What the rows say, but the CPUs of containers are the kubelet's while it is static.

    ``static`` is whether the kubelet's CPU manager policy is static just now.
    """

    def policy(target: Target, knob: Knob) -> Stranger:
        above = target.place.rpartition("/")[0].rpartition("/")[2]
        if knob.name == "cpuset.cpus" and _POD.search(above) and static():
            return Stranger.YIELD
        return knob.stranger

    return policy


class Verdict(Enum):
    """What to do this time."""

    WRITE = "write"
    WRITE_AND_ALERT = "write and alert"
    LEAVE = "leave"
    LEAVE_AND_ALERT = "leave and alert"


@dataclass(slots=True)
class Strikes:
    """How often one target was changed by strangers of late; times are monotonic."""

    times: list[float] = field(default_factory=list)
    alerted: bool = False

    def judge(self, policy: Stranger, now: float) -> Verdict:
        """A stranger's value was found just now."""
        if policy is Stranger.YIELD:
            return Verdict.LEAVE
        if policy is Stranger.ALERT:
            return Verdict.LEAVE_AND_ALERT
        self.times = [time for time in self.times if now - time < WINDOW_SECONDS]
        if not self.times:
            self.alerted = False
        self.times.append(now)
        if len(self.times) < STRIKES or self.alerted:
            return Verdict.WRITE
        self.alerted = True
        return Verdict.WRITE_AND_ALERT
