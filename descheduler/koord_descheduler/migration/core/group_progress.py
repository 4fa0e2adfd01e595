"""Jobs that move together: how far the others are. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from koord_descheduler.migration.core.job import MigrationJob
from koord_descheduler.migration.core.situation import GroupProgress


def progress_of(job: MigrationJob, others: Sequence[MigrationJob]) -> GroupProgress:
    """The progress of the other jobs of a gang or of a set, for one of them."""
    wave = _wave(job)
    without_place = (
        other.pod.key
        for other in others
        if _wave(other) <= wave and not (other.is_over or other.node or other.condition("Eviction"))
    )
    earlier = (
        other.pod.key
        for other in others
        if _wave(other) < wave and not (other.is_over or other.has_evicted)
    )
    missing = job.move_set.size - 1 - len(others) if job.move_set is not None else 0
    return GroupProgress(tuple(without_place), tuple(earlier), _first_failure(others), missing)


def _wave(job: MigrationJob) -> int:
    return job.move_set.wave if job.move_set is not None else 0


def _first_failure(others: Iterable[MigrationJob]) -> str:
    """The job that failed by itself; of others that stopped since then there may be many."""
    failed = [other for other in others if other.has_failed]
    if not failed:
        return ""
    first = min(failed, key=lambda other: other.is_stopped)
    why = ": ".join(filter(None, (first.reason, first.message)))
    return f"{first.pod.key} failed ({why})" if why else f"{first.pod.key} failed"
