"""The current decisions of strategies, since when they hold, and earlier ones. No IO.

The log is in memory and bounded; the journal has older entries. The history has an outcome
once, however long it holds. Its numbers change each second: a current decision has those of
the newest round, the history those that caused it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from koord_model.decision import plain as plain

from koordlet.qos_manager.core.strategy import Decision, StrategyMode

EVICTED = "evicted"
"""The aspect of a decision that its pod is evicted; Koordinator's audit reason."""
EVICTION = "eviction"
"""The first word of the aspect where it is considered only, or cannot be done."""

MOST_ENTRIES = 2000
"""In the whole history; the oldest go first, and with them pods that are long gone."""
MOST_BYTES = 1 << 20
"""Of the whole history, about."""
MOST_OF_ONE = 16
"""In the history of one thing that is decided."""

_ENTRY_BYTES, _TERM_BYTES = 800, 120
"""Measured: an entry with its places, and each number."""


class DecisionKey(NamedTuple):
    """Subject of a decision: one strategy's one aspect of one pod, cgroup or the node."""

    strategy: str
    aspect: str = ""
    pod: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """An outcome, with the numbers that brought it about.

    ``at`` is when it was decided, ``until`` when something else was or nothing any more
    (seconds since the epoch), ``None`` while it stands.
    """

    at: float
    strategy: str
    mode: StrategyMode
    decision: Decision
    until: float | None = None

    @property
    def key(self) -> DecisionKey:
        """Subject of the decision."""
        decision = self.decision
        return DecisionKey(self.strategy, decision.aspect, decision.pod, decision.group)


@dataclass(frozen=True, slots=True)
class CurrentDecision:
    """Decision in force ``since`` then; its numbers are those of the round at ``said_at``."""

    since: float
    said_at: float
    strategy: str
    mode: StrategyMode
    decision: Decision


class DecisionList(NamedTuple):
    """Decisions in force, in the order in which they were made, and the history, newest first."""

    standing: tuple[CurrentDecision, ...] = ()
    history: tuple[DecisionRecord, ...] = ()


class _Onset(NamedTuple):
    """Time of an outcome's decision; ``number`` is the place of its entry in the history."""

    since: float
    mode: StrategyMode
    outcome: str
    number: int


class _Snapshot(NamedTuple):
    """State after a round; nobody changes it."""

    said_at: float = 0.0
    standing: Mapping[DecisionKey, tuple[StrategyMode, Decision]] = MappingProxyType({})
    onsets: Mapping[DecisionKey, _Onset] = MappingProxyType({})
    history: tuple[DecisionRecord, ...] = ()


class DecisionLog:
    """Stores the decisions of rounds.

    One thread calls ``keep``: the event loop's, after each round. Any thread may call ``find``,
    as those of pages do: it reads the snapshot that ``keep`` has made last, and nothing else.
    """

    def __init__(
        self,
        most: int = MOST_ENTRIES,
        most_of_one: int = MOST_OF_ONE,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._most_bytes = most_bytes
        self._bytes = 0
        self._history: OrderedDict[int, DecisionRecord] = OrderedDict()
        self._numbers: dict[DecisionKey, list[int]] = {}
        self._next = 0
        self._snapshot = _Snapshot()

    def keep(
        self, at: float, decisions: Sequence[tuple[str, StrategyMode, Decision]]
    ) -> tuple[DecisionRecord, ...]:
        """Store all current decisions, and return those that are new or changed.

        A decision that is not among ``decisions`` has ended. The last one for a key counts.
        ``at`` is seconds since the epoch.
        """
        now = {
            DecisionKey(strategy, decision.aspect, decision.pod, decision.group): (mode, decision)
            for strategy, mode, decision in decisions
        }
        before = self._snapshot.onsets
        onsets: dict[DecisionKey, _Onset] = {}
        new: list[DecisionRecord] = []
        for key, (mode, decision) in now.items():
            onset = before.get(key)
            if onset is None or onset.mode is not mode or onset.outcome != decision.outcome:
                self._end(onset, at)
                entry = DecisionRecord(at, key.strategy, mode, decision)
                onset = _Onset(at, mode, decision.outcome, self._remember(key, entry))
                new.append(entry)
            onsets[key] = onset
        ended = [onset for key, onset in before.items() if key not in onsets]
        for onset in ended:
            self._end(onset, at)
        history = tuple(self._history.values()) if new or ended else self._snapshot.history
        self._snapshot = _Snapshot(at, now, onsets, history)
        return tuple(new)

    def find(self, wanted: Callable[[DecisionKey], bool], most: int = MOST_ENTRIES) -> DecisionList:
        """Current decisions of the ``wanted`` keys, and the ``most`` newest of their history."""
        said_at, standing, onsets, history = self._snapshot
        entries = (entry for entry in reversed(history) if wanted(entry.key))
        return DecisionList(
            tuple(
                CurrentDecision(onsets[key].since, said_at, key.strategy, mode, decision)
                for key, (mode, decision) in standing.items()
                if wanted(key)
            ),
            tuple(entry for entry, _ in zip(entries, range(most), strict=False)),
        )

    def _remember(self, key: DecisionKey, entry: DecisionRecord) -> int:
        """Append an entry to the history, and drop the oldest above the limits."""
        number = self._next
        self._next += 1
        self._history[number] = entry
        self._bytes += _size(entry)
        numbers = self._numbers.setdefault(key, [])
        numbers.append(number)
        if len(numbers) > self._most_of_one:
            self._forget(numbers[0])
        while len(self._history) > self._most or self._bytes > self._most_bytes:
            self._forget(next(iter(self._history)))
        return number

    def _forget(self, number: int) -> None:
        entry = self._history.pop(number)
        self._bytes -= _size(entry)
        numbers = self._numbers[entry.key]
        numbers.remove(number)
        if not numbers:
            del self._numbers[entry.key]

    def _end(self, onset: _Onset | None, at: float) -> None:
        """Record in the history when a decision ended, if its entry is still there."""
        if onset is not None and onset.number in self._history:
            self._history[onset.number] = replace(self._history[onset.number], until=at)


def _size(entry: DecisionRecord) -> int:
    """About its bytes; what of it strategies share is in no entry's."""
    decision = entry.decision
    texts = len(decision.outcome) + len(decision.formula) + len(decision.pod) + len(decision.group)
    return _ENTRY_BYTES + texts + _TERM_BYTES * len(decision.given)


# ---- filters


def of_strategies(*names: str) -> Callable[[DecisionKey], bool]:
    """Those of some strategies."""
    return lambda key: key.strategy in names


def of_pod(name: str) -> Callable[[DecisionKey], bool]:
    """Those about a pod: "namespace/name", or a name in any namespace."""
    return lambda key: names_pod(name, key.pod)


def of_group(path: str) -> Callable[[DecisionKey], bool]:
    """Those about a cgroup, and about those above and below it."""
    return lambda key: bool(key.group) and (_within(key.group, path) or _within(path, key.group))


def of_evicted(name: str = "") -> Callable[[DecisionKey], bool]:
    """About the eviction of a pod, as ``of_pod`` takes its name; "": of any."""

    def wanted(key: DecisionKey) -> bool:
        about = key.aspect.partition(" ")[0] in (EVICTED, EVICTION)
        return about and bool(key.pod) and (not name or names_pod(name, key.pod))

    return wanted


def names_pod(name: str, pod: str) -> bool:
    """True if a name, with its namespace or without, is that of "namespace/name"."""
    return name in (pod, pod.rpartition("/")[2])


def _within(group: str, above: str) -> bool:
    return group == above or group.startswith(f"{above}/")
