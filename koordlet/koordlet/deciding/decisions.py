"""What strategies have decided: what stands, since when, and what stood before. No IO.

Kept in memory and bounded: what is older is in the journal. An outcome is in the history
once, however long it stands; its numbers, which move each second, are those of the newest
round for what stands, and those that brought it about in the history.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import NamedTuple

from koord_model.decision import plain as plain

from koordlet.deciding.contract import Decision, Mode

EVICTED = "evicted"
"""The aspect of a decision that its pod is evicted; Koordinator's audit reason."""
EVICTION = "eviction"
"""The first word of the aspect where it is considered only, or cannot be done."""

MOST_ENTRIES = 2000
"""In the whole history; the oldest go first, and with them pods that are long gone."""
MOST_OF_ONE = 16
"""In the history of one thing that is decided."""


class Key(NamedTuple):
    """What is decided about: one strategy's one aspect of one pod, cgroup or the node."""

    strategy: str
    aspect: str = ""
    pod: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """An outcome, with the numbers that brought it about.

    ``at`` is when it was decided, ``until`` when something else was or nothing any more
    (seconds since the epoch), ``None`` while it stands.
    """

    at: float
    strategy: str
    mode: Mode
    decision: Decision
    until: float | None = None

    @property
    def key(self) -> Key:
        """What it is about."""
        one = self.decision
        return Key(self.strategy, one.aspect, one.pod, one.group)


@dataclass(frozen=True, slots=True)
class Standing:
    """What is decided ``since`` then; its numbers are those of the round at ``said_at``."""

    since: float
    said_at: float
    strategy: str
    mode: Mode
    decision: Decision


class Found(NamedTuple):
    """What stands, in the order in which it was said, and the history, newest first."""

    standing: tuple[Standing, ...] = ()
    history: tuple[Entry, ...] = ()


@dataclass(slots=True)
class _Kept:
    """What stands of one key; ``number`` is its entry's place in the history."""

    since: float
    mode: Mode
    decision: Decision
    number: int


class Decisions:
    """Remembers the decisions of rounds; any thread may ask."""

    def __init__(self, most: int = MOST_ENTRIES, most_of_one: int = MOST_OF_ONE) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._lock = Lock()
        self._said_at = 0.0
        self._standing: dict[Key, _Kept] = {}
        self._history: OrderedDict[int, Entry] = OrderedDict()
        self._numbers: dict[Key, deque[int]] = {}
        self._next = 0

    def keep(self, at: float, decisions: Sequence[tuple[str, Mode, Decision]]) -> tuple[Entry, ...]:
        """Take all that is decided now, and give what was not, or otherwise, before.

        What is not among ``decisions`` is over. Of several about the same the last counts.
        ``at`` is seconds since the epoch.
        """
        now = {
            Key(strategy, one.aspect, one.pod, one.group): (mode, one)
            for strategy, mode, one in decisions
        }
        with self._lock:
            self._said_at = at
            standing: dict[Key, _Kept] = {}
            new: list[Entry] = []
            for key, (mode, one) in now.items():
                kept = self._standing.pop(key, None)
                if kept is None or kept.mode is not mode or kept.decision.outcome != one.outcome:
                    self._end(kept, at)
                    entry = Entry(at, key.strategy, mode, one)
                    kept = _Kept(at, mode, one, self._remember(key, entry))
                    new.append(entry)
                kept.decision = one
                standing[key] = kept
            for kept in self._standing.values():
                self._end(kept, at)
            self._standing = standing
        return tuple(new)

    def find(self, wanted: Callable[[Key], bool], most: int = MOST_ENTRIES) -> Found:
        """What stands of the keys that are ``wanted``, and the ``most`` newest of their history."""
        with self._lock:
            standing = [(key, replace(kept)) for key, kept in self._standing.items() if wanted(key)]
            said_at, history = self._said_at, list(self._history.values())
        entries = (entry for entry in reversed(history) if wanted(entry.key))
        return Found(
            tuple(
                Standing(kept.since, said_at, key.strategy, kept.mode, kept.decision)
                for key, kept in standing
            ),
            tuple(entry for entry, _ in zip(entries, range(most), strict=False)),
        )

    def _remember(self, key: Key, entry: Entry) -> int:
        """Put an entry at the end of the history, and drop what is too much."""
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

    def _end(self, kept: _Kept | None, at: float) -> None:
        """Say in the history until when something stood, if it is still there."""
        if kept is not None and kept.number in self._history:
            self._history[kept.number] = replace(self._history[kept.number], until=at)


# ---- which of them are asked for


def of_strategies(*names: str) -> Callable[[Key], bool]:
    """Those of some strategies."""
    return lambda key: key.strategy in names


def of_pod(name: str) -> Callable[[Key], bool]:
    """Those about a pod: "namespace/name", or a name in any namespace."""
    return lambda key: names_pod(name, key.pod)


def of_group(path: str) -> Callable[[Key], bool]:
    """Those about a cgroup, and about those above and below it."""
    return lambda key: bool(key.group) and (_within(key.group, path) or _within(path, key.group))


def of_evicted(name: str = "") -> Callable[[Key], bool]:
    """About the eviction of a pod, as ``of_pod`` takes its name; "": of any."""

    def wanted(key: Key) -> bool:
        about = key.aspect.partition(" ")[0] in (EVICTED, EVICTION)
        return about and bool(key.pod) and (not name or names_pod(name, key.pod))

    return wanted


def names_pod(name: str, pod: str) -> bool:
    """Whether a name, with its namespace or without, is that of "namespace/name"."""
    return name in (pod, pod.rpartition("/")[2])


def _within(group: str, above: str) -> bool:
    return group == above or group.startswith(f"{above}/")
