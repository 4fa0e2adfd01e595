"""Times in the life of a pod that has a node. No IO."""

from __future__ import annotations

from typing import NamedTuple

from koord_model.times import from_rfc3339

from koord_scheduler.objects.pod import PodInfo


class PodTimes(NamedTuple):
    """Times of a pod's binding and of its init containers' end: seconds since the epoch."""

    scheduled: float = 0.0
    initialized: float | None = None


NO_TIMES = PodTimes()


def pod_times(pod: PodInfo) -> PodTimes:
    """Times of a pod that has a node; one whose conditions do not say counts from its creation."""
    since = {
        condition.type: from_rfc3339(condition.last_transition_time)
        for condition in pod.status.conditions or ()
        if condition.status == "True" and condition.last_transition_time
    }
    scheduled = since.get("PodScheduled")
    if scheduled is None:
        created = pod.metadata.creation_timestamp
        scheduled = from_rfc3339(created) if created else 0.0
    return PodTimes(scheduled, since.get("Initialized"))
