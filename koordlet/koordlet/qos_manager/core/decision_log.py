"""The current decisions of strategies, since when they hold, and earlier ones. No IO.

The log is in memory and bounded; the journal has older entries. The history has an outcome
once, however long it holds. Its numbers change each second: a current decision has those of
the newest round, the history those that caused it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import NamedTuple

from koord_model.decision import plain as plain

from koordlet.qos_manager.core.strategy import Decision, StrategyMode

EVICTED = "evicted"
"""The aspect of a decision that its pod is evicted; Koordinator's audit reason."""
EVICTION = "eviction"
"""The first word of the aspect where it is considered only, or cannot be done."""

MOST_ENTRIES = 2000
"""In the whole history; the oldest go first, and with them pods that are long gone."""
MOST_OF_ONE = 16
"""In the history of one thing that is decided."""


class DecisionKey(NamedTuple):
    """What is decided about: one strategy's one aspect of one pod, cgroup or the node."""

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
        """What it is about."""
        one = self.decision
        return DecisionKey(self.strategy, one.aspect, one.pod, one.group)


@dataclass(frozen=True, slots=True)
class CurrentDecision:
    """What is decided ``since`` then; its numbers are those of the round at ``said_at``."""

    since: float
    said_at: float
    strategy: str
    mode: StrategyMode
    decision: Decision


class DecisionList(NamedTuple):
    """What stands, in the order in which it was said, and the history, newest first."""

    standing: tuple[CurrentDecision, ...] = ()
    history: tuple[DecisionRecord, ...] = ()


@dataclass(slots=True)
class _LatestDecision:
    """The current decision of a key; ``number`` is the place of its entry in the history."""

    since: float
    mode: StrategyMode
    decision: Decision
    number: int


class DecisionLog:
    """Stores the decisions of rounds; any thread may read it."""

    def __init__(self, most: int = MOST_ENTRIES, most_of_one: int = MOST_OF_ONE) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._lock = Lock()
        self._said_at = 0.0
        self._standing: dict[DecisionKey, _LatestDecision] = {}
        self._history: OrderedDict[int, DecisionRecord] = OrderedDict()
        self._numbers: dict[DecisionKey, deque[int]] = {}
        self._next = 0

    def keep(
        self, at: float, decisions: Sequence[tuple[str, StrategyMode, Decision]]
    ) -> tuple[DecisionRecord, ...]:
        """Store all current decisions, and return those that are new or changed.

        A decision that is not among ``decisions`` has ended. The last one for a key counts.
        ``at`` is seconds since the epoch.
        """
        now = {
            DecisionKey(strategy, one.aspect, one.pod, one.group): (mode, one)
            for strategy, mode, one in decisions
        }
        with self._lock:
            self._said_at = at
            standing: dict[DecisionKey, _LatestDecision] = {}
            new: list[DecisionRecord] = []
            for key, (mode, one) in now.items():
                current = self._standing.pop(key, None)
                if (
                    current is None
                    or current.mode is not mode
                    or current.decision.outcome != one.outcome
                ):
                    self._end(current, at)
                    entry = DecisionRecord(at, key.strategy, mode, one)
                    current = _LatestDecision(at, mode, one, self._remember(key, entry))
                    new.append(entry)
                current.decision = one
                standing[key] = current
            for current in self._standing.values():
                self._end(current, at)
            self._standing = standing
        return tuple(new)

    def find(self, wanted: Callable[[DecisionKey], bool], most: int = MOST_ENTRIES) -> DecisionList:
        """Current decisions of the ``wanted`` keys, and the ``most`` newest of their history."""
        with self._lock:
            standing = [
                (key, replace(current)) for key, current in self._standing.items() if wanted(key)
            ]
            said_at, history = self._said_at, list(self._history.values())
        entries = (entry for entry in reversed(history) if wanted(entry.key))
        return DecisionList(
            tuple(
                CurrentDecision(
                    current.since, said_at, key.strategy, current.mode, current.decision
                )
                for key, current in standing
            ),
            tuple(entry for entry, _ in zip(entries, range(most), strict=False)),
        )

    def _remember(self, key: DecisionKey, entry: DecisionRecord) -> int:
        """Append an entry to the history, and drop the oldest above the limits."""
        number = self._next
        self._next += 1
        self._history[number] = entry
        numbers = self._numbers.setdefault(key, deque())
        numbers.append(number)
        if len(numbers) > self._most_of_one:
            del self._history[numbers.popleft()]
        while len(self._history) > self._most:
            _, oldest = self._history.popitem(last=False)
            numbers = self._numbers[oldest.key]
            numbers.popleft()
            if not numbers:
                del self._numbers[oldest.key]
        return number

    def _end(self, current: _LatestDecision | None, at: float) -> None:
        """Record in the history when a decision ended, if its entry is still there."""
        if current is not None and current.number in self._history:
            self._history[current.number] = replace(self._history[current.number], until=at)


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
    """Whether a name, with its namespace or without, is that of "namespace/name"."""
    return name in (pod, pod.rpartition("/")[2])


def _within(group: str, above: str) -> bool:
    return group == above or group.startswith(f"{above}/")
