"""From what strategies want to the one writer: handed over by any thread, taken by the writer's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue

from koord_host.arbiter import Decision
from koord_host.executor import Executor
from koord_host.forms import Value
from koord_host.journal import Event, Journal
from koord_host.wishes import Target, Wish

from koordlet.deciding.contract import CacheClass, owner
from koordlet.levelling import Levelled
from koordlet.tasks import Tasks

_SCOPE = "strategy"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one round wants of the node.

    ``wishes`` are those of every strategy that is on, and replace what was wanted before; so
    do ``caches``. ``deeds`` are done once, ``lines`` are for the journal. ``complete`` is
    whether every strategy was asked with all pods known: what an earlier run left behind and
    nobody wants now may then be put back.
    """

    wishes: Mapping[str, tuple[Wish, ...]] = field(default_factory=dict)
    caches: tuple[CacheClass, ...] = ()
    deeds: tuple[tuple[str, tuple[Wish, ...]], ...] = ()
    lines: tuple[Event, ...] = ()
    complete: bool = False

    def differs(self, before: Wanted) -> bool:
        """Whether there is anything to do after ``before`` was done."""
        same = self.wishes.keys() == before.wishes.keys() and all(
            wishes is before.wishes[name] for name, wishes in self.wishes.items()
        )
        news = self.deeds or self.lines or self.complete != before.complete
        return not same or self.caches != before.caches or bool(news)


class Carrier:
    """Has the executor and the keeper of tasks do what was handed over."""

    def __init__(self, executor: Executor, tasks: Tasks, journal: Journal) -> None:
        self._executor = executor
        self._tasks = tasks
        self._journal = journal
        self._handed: SimpleQueue[Wanted] = SimpleQueue()
        self._named: frozenset[str] = frozenset()
        self._classes: frozenset[str] = frozenset()
        self._complete = False

    def base(self, target: Target) -> Value | None:
        """What a target would have without strategies; from any thread."""
        return self._executor.base(target)

    def standing(self, place: str) -> list[tuple[str, Decision]]:
        """What stands of a place's knobs, by name, and who wants what; from any thread."""
        return self._executor.standing(place)

    def put(self, wanted: Wanted) -> None:
        """Hand over; from any thread."""
        self._handed.put(wanted)

    def take(self) -> None:
        """Take what was handed over; in the writer's thread, before its round."""
        wanted = None
        while not self._handed.empty():
            wanted = self._handed.get()
            for line in wanted.lines:
                self._journal.add(line)
            for name, deeds in wanted.deeds:
                self._executor.do(owner(name), deeds)
        if wanted is not None:
            self._wish(wanted)
            self._hold(wanted.caches)
        self._journal.flush()

    def _wish(self, wanted: Wanted) -> None:
        for name in self._named - wanted.wishes.keys():
            self._executor.forget(owner(name), _SCOPE)
        self._named = frozenset(wanted.wishes)
        for name, wishes in wanted.wishes.items():
            self._executor.wish(owner(name), _SCOPE, wishes)
        if wanted.complete and not self._complete:
            self._complete = True
            self._executor.put_back_unwished()
            self._tasks.forget_left()

    def _hold(self, caches: tuple[CacheClass, ...]) -> None:
        held = {f"class {one.wish.group}": one for one in caches}
        for scope in self._classes - held.keys():
            self._tasks.forget(scope)
        self._classes = frozenset(held)
        for scope, one in held.items():
            self._tasks.hold(Levelled(scope, resctrl=one.wish, groups=one.groups))
