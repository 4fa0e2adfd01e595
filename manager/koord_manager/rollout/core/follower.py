"""Following of rollouts: versions, echoes, comparison and halts, from look to look. No IO.

Who pauses what: the entry itself by ``paused``, people by an order, and this by its own pause of
one version. That ends with the version, or once somebody has accepted it, and is never set again
for a version that was accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from koord_model.times import rfc3339

from koord_manager.rollout.core.documents import (
    MOST_HISTORY,
    EntryState,
    NodeCounts,
    Order,
    PairSums,
    Pause,
    Version,
)
from koord_manager.rollout.core.echoes import Echo, RolloutReport
from koord_manager.rollout.core.judgement import Measure, harm, report
from koord_manager.rollout.core.pairing import MOST_PAIRS, NodeTraits, pair
from koord_manager.slo_config.core.reach import ANY, Bounds

JUDGE_SECONDS = 300.0
"""Between two judgements of an entry; what was measured since the last is lost with a manager."""
_MOST_SECONDS = 600.0
"""Time that two reports span at most: of a longer silence nothing is known."""
_LONGEST_CONTENT = 64 * 1024
US = "koord-manager"


@dataclass(frozen=True, slots=True)
class EntryNow:
    """A named entry as it is configured, and the nodes that it means.

    ``others`` are those that it selects and that have another entry, without a canary of theirs.
    """

    name: str
    version: str
    size: int
    content: dict[str, Any]
    wanted: frozenset[str]
    others: frozenset[str] = frozenset()
    canary: str = ""
    is_paused: bool = False
    bounds: Bounds = ANY.bounds


@dataclass(slots=True)
class _Meter:
    """Reports that the sums of a pair have, with the time of the last."""

    at: float
    canary: RolloutReport
    control: RolloutReport


@dataclass(slots=True)
class RolloutFollower:
    """All entries; ``followed`` is what is kept, ``orders`` are those of people.

    Times are seconds since the epoch.
    """

    followed: dict[str, EntryState] = field(default_factory=dict)
    orders: Mapping[str, Order] = field(default_factory=dict)
    _meters: dict[tuple[str, str, str], _Meter] = field(default_factory=dict)
    _sums: dict[str, dict[tuple[str, str], PairSums]] = field(default_factory=dict)
    _judged: dict[str, float] = field(default_factory=dict)

    def holds(self, name: str, version: str) -> bool:
        """True if the nodes of an entry are to keep what they have."""
        order = self.orders.get(name, Order())
        if order.paused:
            return True
        followed = self.followed.get(name)
        pause = followed.paused if followed is not None else None
        return pause is not None and pause.version == version != order.accepted

    def is_new(self, entry: EntryNow) -> bool:
        """True if a version is not in the history as the one in force."""
        return entry.version != self.followed.get(entry.name, EntryState()).version

    def look(
        self,
        entries: Iterable[EntryNow],
        reports: Mapping[str, RolloutReport],
        traits: Mapping[str, NodeTraits],
        now: float,
        by: str,
    ) -> dict[str, str]:
        """Take what nodes say now; return why entries were halted, by name.

        ``by`` is the client that wrote the configuration last.
        """
        halted: dict[str, str] = {}
        present = list(entries)
        for entry in present:
            self._take_version(entry, now, by)
            followed = self.followed[entry.name]
            followed.canary = entry.canary
            followed.nodes = _count(entry, reports)
            self._measure(entry, reports, now)
            if now - self._judged.get(entry.name, float("-inf")) >= JUDGE_SECONDS:
                self._judged[entry.name] = now
                if reason := self._judge(entry, now):
                    halted[entry.name] = reason
                self._pair(entry, reports, traits)
        self._forget({entry.name for entry in present})
        return halted

    def _take_version(self, entry: EntryNow, now: float, by: str) -> None:
        followed = self.followed.setdefault(entry.name, EntryState())
        if followed.version == entry.version:
            return
        content = entry.content if entry.size <= _LONGEST_CONTENT else None
        version = Version(entry.version, rfc3339(now), by, content)
        followed.history = [*followed.history, version][-MOST_HISTORY:]
        followed.pairs, followed.report, followed.paused = [], {}, None
        self._sums.pop(entry.name, None)

    def _measure(self, entry: EntryNow, reports: Mapping[str, RolloutReport], now: float) -> None:
        sums = self._sums_of(entry.name)
        for (canary, control), pair_sums in sums.items():
            key = entry.name, canary, control
            mine, theirs = reports.get(canary), reports.get(control)
            if (
                mine is None
                or theirs is None
                or canary not in entry.wanted
                or control not in entry.others
                or mine.echo.version != entry.version
                or theirs.echo.version == entry.version
                or self.holds(entry.name, entry.version)
            ):
                self._meters.pop(key, None)
                continue
            meter = self._meters.get(key)
            if meter is None or now - meter.at > _MOST_SECONDS:
                self._meters[key] = _Meter(now, mine, theirs)
            elif mine is not meter.canary and theirs is not meter.control:
                _add(pair_sums, meter, mine.echo, theirs.echo, (now - meter.at) / 3600)
                self._meters[key] = _Meter(now, mine, theirs)

    def _judge(self, entry: EntryNow, now: float) -> str:
        """Judge, and have what was measured among what is kept."""
        followed = self.followed[entry.name]
        followed.pairs = [
            PairSums(one.canary, one.control, *map(_rounded, (one.hours, *_both(one))))
            for one in self._sums_of(entry.name).values()
        ]
        followed.report = report(followed.pairs) if entry.canary else {}
        accepted = self.orders.get(entry.name, Order()).accepted == entry.version
        paused = entry.is_paused or self.holds(entry.name, entry.version)
        if not entry.canary or paused or accepted:
            return ""
        reason = harm(followed.pairs, entry.bounds)
        if reason:
            followed.paused = Pause(entry.version, rfc3339(now), US, reason)
        return reason

    def _pair(
        self,
        entry: EntryNow,
        reports: Mapping[str, RolloutReport],
        traits: Mapping[str, NodeTraits],
    ) -> None:
        """Find a like for canaries that have none; pairs that broke keep what they have."""
        sums = self._sums_of(entry.name)
        live = [names for names in sums if names[0] in entry.wanted and names[1] in entry.others]
        most = MOST_PAIRS - len(sums)
        if not entry.canary or most <= 0:
            return
        taken = {name for names in live for name in names}
        canaries = [
            name
            for name in entry.wanted - taken
            if name in reports and reports[name].echo.version == entry.version
        ]
        others = [
            name
            for name in entry.others - taken
            if name in reports and reports[name].echo.version != entry.version
        ]
        for names in pair(canaries, others, traits, most):
            sums.setdefault(names, PairSums(*names))

    def _sums_of(self, name: str) -> dict[tuple[str, str], PairSums]:
        if name not in self._sums:
            kept = self.followed.get(name, EntryState()).pairs
            self._sums[name] = {
                (one.canary, one.control): PairSums(
                    one.canary, one.control, dict(one.hours), *map(dict, _both(one))
                )
                for one in kept
            }
        return self._sums[name]

    def _forget(self, present: set[str]) -> None:
        """Forget entries that are not there any more."""
        for name in self.followed.keys() - present:
            del self.followed[name]
            self._sums.pop(name, None)
            self._judged.pop(name, None)
        self._meters = {
            key: meter
            for key, meter in self._meters.items()
            if key[0] in present and key[1:] in self._sums.get(key[0], {})
        }


def _count(entry: EntryNow, reports: Mapping[str, RolloutReport]) -> NodeCounts:
    echoed = [
        name
        for name in entry.wanted
        if name in reports and reports[name].echo.version == entry.version
    ]
    failed = sorted(name for name in echoed if reports[name].echo.problem)
    problem = f"{failed[0]}: {reports[failed[0]].echo.problem}" if failed else ""
    return NodeCounts(len(entry.wanted), len(echoed), len(failed), problem)


def _add(sums: PairSums, meter: _Meter, mine: Echo, theirs: Echo, hours: float) -> None:
    """Add what both nodes had between two reports: counts by their growth, others as they are."""
    before = meter.canary.echo, meter.control.echo
    for measure, values in (
        (
            Measure.EVICTIONS,
            (
                _growth(mine.evictions, before[0].evictions),
                _growth(theirs.evictions, before[1].evictions),
            ),
        ),
        (
            Measure.RESTARTS,
            (
                _growth(mine.restarts, before[0].restarts),
                _growth(theirs.restarts, before[1].restarts),
            ),
        ),
    ):
        _add_one(sums, measure, hours, values)
    for measure, mean in (
        (Measure.PSI, (mine.psi, theirs.psi)),
        (Measure.SCHED_WAIT, (mine.sched_wait, theirs.sched_wait)),
        (Measure.BATCH_CORES, (mine.batch_cores, theirs.batch_cores)),
    ):
        if mean[0] is not None and mean[1] is not None:
            _add_one(sums, measure, hours, (mean[0] * hours, mean[1] * hours))


def _growth(now: int, then: int) -> float:
    """Of a count that begins at 0 when its koordlet does."""
    return float(now - then if now >= then else now)


def _add_one(sums: PairSums, name: str, hours: float, amounts: tuple[float, float]) -> None:
    for kept, amount in ((sums.hours, hours), *zip(_both(sums), amounts, strict=True)):
        kept[name] = kept.get(name, 0.0) + amount


def _both(sums: PairSums) -> tuple[dict[str, float], dict[str, float]]:
    return sums.with_entry, sums.without


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {str(name): round(value, 5) for name, value in values.items()}
