"""Jobs by the objects that they are about, so that each change finds its jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from koord_descheduler.migration.core.job import MigrationJob


class JobIndex:
    """Names of jobs by keys of pods, by names of Reservations, and by group."""

    def __init__(self) -> None:
        self._by_pod: defaultdict[str, set[str]] = defaultdict(set)
        self._by_reservation: defaultdict[str, set[str]] = defaultdict(set)
        self._by_group: defaultdict[str, set[str]] = defaultdict(set)

    def change(self, before: MigrationJob | None, now: MigrationJob | None) -> None:
        """A job came, changed or went."""
        if before is not None:
            for of, key in self._keys(before):
                of[key].discard(before.name)
                if not of[key]:
                    del of[key]
        if now is not None:
            for of, key in self._keys(now):
                of[key].add(now.name)

    def of_pod(self, key: str) -> frozenset[str]:
        """The jobs whose pod, old or new, has this key."""
        return frozenset(self._by_pod.get(key, ()))

    def of_reservation(self, name: str) -> frozenset[str]:
        """The jobs that refer to a Reservation."""
        return frozenset(self._by_reservation.get(name, ()))

    def of_group(self, group: str) -> frozenset[str]:
        """The jobs that move together."""
        return frozenset(self._by_group.get(group, ()))

    def _keys(self, job: MigrationJob) -> Iterator[tuple[defaultdict[str, set[str]], str]]:
        yield self._by_pod, job.pod.key
        if job.new_pod is not None:
            yield self._by_pod, job.new_pod.key
        if job.reservation:
            yield self._by_reservation, job.reservation
        if job.group:
            yield self._by_group, job.group
