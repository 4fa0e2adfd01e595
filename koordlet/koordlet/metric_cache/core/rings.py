"""The metric cache in memory: which samples are taken, when they are, and their tiers. No IO.

Time here is a timeline (``timeline``) that only goes on: what a wrong clock says costs the
samples of seconds, and no history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from koordlet.metric_cache.core.aggregation import PointBlock
from koordlet.metric_cache.core.interface import TimeWindow
from koordlet.metric_cache.core.metric_kinds import KINDS, POD_UID
from koordlet.metric_cache.core.page_ring import PAGE_BYTES, Floats, Integers, PagePool
from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metric_cache.core.tier import SampleBatch, Tier
from koordlet.metric_cache.core.timeline import END_OF_TIME, Timeline

POOL_BYTES = 48 << 20
"""For 1350 series of step 1 and 3500 of step 10, of all that is promised."""

ROWS = 8192
"""Series of a step, living and remembered."""

_NOWHERE: tuple[int, dict[Series, int]] = (0, {})


class Rings:
    """The tiers, one for each step that a kind has.

    Where memory runs out the ring that has most of it forgets its oldest stretch. What
    finds no room even so is refused, as are samples of no known kind, with other labels
    than their kind's, or that are no finite float32.
    """

    def __init__(self, pool_bytes: int = POOL_BYTES, rows: int = ROWS) -> None:
        self.refused = 0
        self._pool = PagePool(pool_bytes // PAGE_BYTES)
        steps = sorted({kind.step for kind in KINDS.values()})
        self.tiers = {step: Tier(step, rows, self._pool, self._make_room) for step in steps}
        self._timeline = Timeline(steps[-1])
        self.capacity = rows * len(steps)
        self._sealed_early: list[SampleBatch] = []
        self._replayed: deque[tuple[Sequence[Series], int, Integers, Integers]] = deque(maxlen=64)
        self._places = {
            name: (kind.step, self.tiers[kind.step].rows_of_kind(name))
            for name, kind in KINDS.items()
        }

    @property
    def series(self) -> int:
        """Number of remembered series."""
        return sum(tier.series for tier in self.tiers.values())

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory in use."""
        return self._pool.touched_bytes + sum(tier.table_bytes for tier in self.tiers.values())

    def put(self, at: float, samples: Iterable[Sample]) -> list[SampleBatch]:
        """Keep samples; what of them was kept, and what was sealed meanwhile."""
        samples = list(samples)
        place = self._timeline.place(at)
        if place is None:
            self.refused += len(samples)
            return []
        if place.undone is not None:
            self._forget_after(place.undone)
        at = place.at
        batches = self._turn(at)
        rows: dict[int, list[int]] = {step: [] for step in self.tiers}
        values: dict[int, list[float]] = {step: [] for step in self.tiers}
        for series, value in samples:
            step, known = self._places.get(series.kind, _NOWHERE)
            row = known.get(series)
            if row is None and (row := self._admit(series, rows)) is None:
                self.refused += 1
                continue
            rows[step].append(row)
            values[step].append(value)
        for step, tier in self.tiers.items():
            if rows[step]:
                with np.errstate(over="ignore"):
                    numbers: Floats = np.array(values[step], np.float64).astype(np.float32)
                batches += self._put(tier, at, np.array(rows[step], np.intp), numbers)
        return self._dated([*self._early(), *batches])

    def replay(self, batch: SampleBatch) -> list[SampleBatch]:
        """Put back what ``put`` gave: coarse batches of all time first, then raw ones.

        Their times are the timeline's. What is sealed meanwhile had been sealed by nobody.
        """
        tier = self.tiers.get(batch.step)
        if tier is None or not 0 <= batch.at < END_OF_TIME:
            return []
        if not batch.coarse and self._timeline.replay(batch.at, batch.ahead):
            self._forget_after(batch.at)
        sealed = [] if batch.coarse else self._turn(batch.at)
        rows, known = self._rows_of(tier, batch.series)
        if batch.coarse:
            tier.restore(batch.at, rows, batch.numbers[known])
        elif len(rows):
            self._put(tier, batch.at, rows, batch.numbers[known, 0])
        return self._dated([*self._early(), *sealed])

    def read(self, kind: str, window: TimeWindow, labels: Mapping[str, str] | None) -> PointBlock:
        """The points of matching series.

        Raises:
            KeyError: no such kind, or no such label of it.
        """
        row = KINDS[kind]
        wanted = [(_place(row.labels, name, kind), text) for name, text in (labels or {}).items()]
        step, known = self._places[kind]
        series = [
            candidate
            for candidate in known
            if all(candidate.labels[place] == text for place, text in wanted)
        ]
        ahead = self._timeline.ahead
        start, end = max(window.start - ahead, 0.0), min(window.end - ahead, END_OF_TIME)
        block = self.tiers[step].read(series, start, end)
        return replace(block, times=block.times + ahead) if ahead else block

    def retain_pods(self, present: Set[str]) -> None:
        """Forget the series of all pods but these, by UID."""
        for tier in self.tiers.values():
            tier.retain(lambda series: _pod(series) is None or _pod(series) in present)

    def replayed(self) -> None:
        """Let go of what only ``replay`` needs."""
        self._replayed.clear()
        self.refused = 0

    def _forget_after(self, at: float) -> None:
        for tier in self.tiers.values():
            tier.forget_after(at)

    def _admit(self, series: Series, busy: Mapping[int, list[int]]) -> int | None:
        kind = KINDS.get(series.kind)
        if kind is None or len(series.labels) != len(kind.labels) or not _is_text(series.labels):
            return None
        return self.tiers[kind.step].admit(series, busy[kind.step])

    def _rows_of(self, tier: Tier, series: Sequence[Series]) -> tuple[Integers, Integers]:
        """Rows of replayed series, and which of them have one."""
        for seen, epoch, rows, which in self._replayed:
            if seen is series and epoch == tier.epoch:
                return rows, which
        busy: list[int] = []
        known = []
        for number, candidate in enumerate(series):
            step, places = self._places.get(candidate.kind, _NOWHERE)
            row = places.get(candidate)
            if step != tier.step:
                continue  # A kind whose step was another one in an earlier version.
            if row is None:
                row = self._admit(candidate, {step: busy})
            if row is not None:
                busy.append(row)
                known.append(number)
        rows, which = np.array(busy, np.intp), np.array(known, np.intp)
        self._replayed.append((series, tier.epoch, rows, which))
        return rows, which

    def _put(self, tier: Tier, at: float, rows: Integers, numbers: Floats) -> list[SampleBatch]:
        if not (finite := np.isfinite(numbers)).all():
            self.refused += int(np.count_nonzero(~finite))
            rows, numbers = rows[finite], numbers[finite]
        batches, refused = tier.put(at, rows, numbers)
        self.refused += refused
        return batches

    def _turn(self, at: float) -> list[SampleBatch]:
        return [batch for tier in self.tiers.values() for batch in tier.turn(at)]

    def _dated(self, batches: list[SampleBatch]) -> list[SampleBatch]:
        """Note the wall clock's lead over the timeline in batches, for the log."""
        ahead = self._timeline.ahead
        return [replace(batch, ahead=ahead) for batch in batches] if ahead else batches

    def _early(self) -> list[SampleBatch]:
        """Take the batches that were sealed early for want of room."""
        early, self._sealed_early = self._sealed_early, []
        return early

    def _make_room(self, pages: int) -> None:
        """Forget old stretches until so many pages are free, or only newest raw ones are left."""
        while self._pool.room < pages:
            rings = [
                (ring.pages, step, ring is tier.raw)
                for step, tier in self.tiers.items()
                for ring in (tier.raw, tier.coarse)
                if ring.oldest is not None and (ring is tier.coarse or ring.oldest < ring.newest)
            ]
            if not rings:
                return
            _, step, raw = max(rings)
            if raw:
                self._sealed_early += self.tiers[step].give_up_raw()
            else:
                self.tiers[step].coarse.drop_oldest()


def _pod(series: Series) -> str | None:
    """The UID of the pod that a series is about."""
    labels = KINDS[series.kind].labels
    return series.labels[labels.index(POD_UID)] if POD_UID in labels else None


def _place(labels: tuple[str, ...], name: str, kind: str) -> int:
    try:
        return labels.index(name)
    except ValueError:
        raise KeyError(
            f"{kind} has no label {name}; it has {', '.join(labels) or 'none'}"
        ) from None


def _is_text(labels: tuple[str, ...]) -> bool:
    """True if the log can hold labels: names of files may be other than UTF-8."""
    try:
        "".join(labels).encode()
    except UnicodeEncodeError:
        return False
    return True
