"""Values of targets before their first change, for a later restore.

One transaction *before* a round's writes, of what was found and of what will be written, and
one after them: whenever the program is killed, what it may have changed is known for ours and
can be put back. A database that takes nothing (a full disk) stops no change of the node. After
a reboot the groups are new and nothing is left to put back, so a database of an earlier boot is
emptied.

The database is locked for as long as it is open: there is one writer a node. Jobs keep the
cache groups that they make, from threads of their own.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

from koord_service.logs import get_log
from koord_service.sqlite_state import Change, SqliteState, run_transaction

from koord_host.kernel_files import processes
from koord_host.planning.desired_values import Target

_SCHEMA = """
CREATE TABLE IF NOT EXISTS originals (
    place TEXT NOT NULL, knob TEXT NOT NULL, identity INTEGER NOT NULL,
    found TEXT, found_at REAL NOT NULL, ours TEXT, strategy TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (place, knob)
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS put_back (
    place TEXT NOT NULL, knob TEXT NOT NULL, identity INTEGER NOT NULL,
    found TEXT, found_at REAL NOT NULL, ours TEXT, strategy TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (place, knob)
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS under_way (
    place TEXT NOT NULL, knob TEXT NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (place, knob, text)
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS cache_groups (
    name TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS boot (id TEXT NOT NULL) STRICT;
"""

# Databases of releases that knew no strategies have none of it.
_ADD_STRATEGY = "ALTER TABLE originals ADD COLUMN strategy TEXT NOT NULL DEFAULT ''"

_KEEP = (
    "INSERT OR REPLACE INTO originals (place, knob, identity, found, found_at, ours, strategy)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_KEEP_PUT_BACK = _KEEP.replace("originals", "put_back")
_FORGET_PUT_BACK = "DELETE FROM put_back WHERE place = ? AND knob = ?"
_FORGET = "DELETE FROM originals WHERE place = ? AND knob = ?"
_FORGET_PENDING = "DELETE FROM under_way WHERE place = ? AND knob = ?"
_FORGET_ALL_PENDING: Change = "DELETE FROM under_way", [()]
_COLUMNS = "SELECT place, knob, identity, found, found_at, ours, strategy"
_SET_OWNER = "UPDATE originals SET strategy = ? WHERE place = ? AND knob = ?"
_SET_OURS = "UPDATE originals SET ours = ? WHERE place = ? AND knob = ?"
_FORGET_GROUPS: Change = "DELETE FROM cache_groups", [()]
_KEEP_GROUP = "INSERT OR IGNORE INTO cache_groups (name) VALUES (?)"
_KEEP_BOOT = "INSERT INTO boot (id) VALUES (?)"
_ADD_PENDING = "INSERT OR IGNORE INTO under_way (place, knob, text) VALUES (?, ?, ?)"

_EMPTY: tuple[Change, ...] = (
    ("DELETE FROM originals", [()]),
    ("DELETE FROM put_back", [()]),
    _FORGET_ALL_PENDING,
    _FORGET_GROUPS,
    ("DELETE FROM boot", [()]),
)

_log = get_log("koord_host.baselines")


class BaselineValue(NamedTuple):
    """Value of a target before its first change, or set by the kubelet since.

    ``text`` is the file's, as it was.

    ``text`` is ``None`` where there was no file (another agent's, that we made). ``ours`` is
    what the file held after our last write, ``None`` before the first was read back.
    ``pending`` are what an earlier run was about to write when it was killed: the file may
    hold ``ours`` or any of these. ``found_at`` is seconds since the epoch. ``strategy`` is
    the name of the strategy for which it was last written, "" if for none: strategies come
    and go, and what they leave is put back.
    """

    target: Target
    identity: int
    text: str | None
    found_at: float
    ours: str | None = None
    pending: tuple[str, ...] = ()
    strategy: str = ""


class BaselineStore:
    """Baselines by target, in memory and in the database.

    ``path`` "" keeps them in memory only. ``boot`` names this boot of the machine. Without a
    database baselines are kept in memory, and changes go on.

    Raises:
        InUseError: another process, such as a running koordlet, has it open.
    """

    schema: ClassVar[str] = _SCHEMA
    corrupt: ClassVar[tuple[type[Exception], ...]] = (ValueError, TypeError)

    def __init__(self, path: str, *, boot: str = "") -> None:
        self.cache_groups: frozenset[str] = frozenset()
        """The shared resctrl groups that were made, by this run or one before."""
        self.put_back: dict[Target, BaselineValue] = {}
        """Values that targets were put back to, of those that are remembered after it."""
        self._boot = boot
        self._known: dict[Target, BaselineValue] = {}
        self._unsure: set[Target] = set()
        self._pending: list[tuple[str, str, str]] = []
        self._turn = threading.Lock()
        """Held for a change of what is known, and its transaction."""
        self._state = SqliteState(path, self, _log, exclusive=True, auto_checkpoint=True)
        self._state.open()

    @property
    def problem(self) -> str:
        """Present problem of the database, or that at its opening; "" if there is none."""
        return self._state.problem or self._state.replaced

    def __len__(self) -> int:
        return len(self._known)

    def all(self) -> list[BaselineValue]:
        """All that is remembered, by place and knob."""
        return [self._known[target] for target in sorted(self._known)]

    def get(self, target: Target) -> BaselineValue | None:
        """Return the baseline of a target; for any thread."""
        return self._known.get(target)

    def needs(self, target: Target, identity: int) -> bool:
        """True if a target's baseline is to be stored before it is written."""
        known = self._known.get(target)
        return known is None or known.identity != identity

    def remember(
        self,
        baselines: Iterable[BaselineValue],
        pending: Iterable[tuple[Target, str]] = (),
        owners: Iterable[tuple[Target, str]] = (),
    ) -> None:
        """Remember what was found, and the texts that will be written, in one transaction.

        What was known is replaced. ``record_writes`` has to follow the writes. ``owners`` as for
        ``set_owners``.
        """
        rows, former = [], []
        with self._turn:
            for baseline in baselines:
                row, before = self._inherited(baseline)
                rows.append(row)
                self._known[row.target] = row
                self._unsure.discard(row.target)
                former += before
            self._pending = [(*target, text) for target, text in pending]
            self._expect(self._pending)
            self._write(
                (_KEEP, _rows(rows)),
                (_FORGET, former),
                (_SET_OWNER, self._set_owners(owners)),
                (_ADD_PENDING, self._pending),
            )

    def _expect(self, pending: Iterable[tuple[str, str, str]]) -> None:
        """Until ``record_writes`` says so, a file may hold any of these, after a defect too."""
        for place, knob, text in pending:
            target = Target(place, knob)
            if (known := self._known.get(target)) is not None:
                self._known[target] = known._replace(pending=(*known.pending, text))

    def amend(self, baselines: Iterable[BaselineValue]) -> None:
        """Have other values put back one day, of targets that are or were remembered."""
        with self._turn:
            rows = list(baselines)
            self._known.update((row.target, row) for row in rows)
            self._write((_KEEP, _rows(rows)))

    def _inherited(self, row: BaselineValue) -> tuple[BaselineValue, list[Target]]:
        """Return the row with an earlier release's baseline, and the rows that it replaces.

        A process was once known by its number alone.
        """
        process = processes.parse(row.target.place)
        if process is None or not process.group:
            return row, []
        target = Target(str(process.pid), row.target.knob)
        before = self._known.get(target)
        if before is None or before.identity != row.identity:
            return row, []
        del self._known[target]
        self._unsure.discard(target)
        return before._replace(target=row.target, pending=()), [target]

    def set_owners(self, owners: Iterable[tuple[Target, str]]) -> None:
        """Remember for which strategy targets are as they are, "" for none.

        Targets of which nothing is remembered owe nobody anything.
        """
        with self._turn:
            self._write((_SET_OWNER, self._set_owners(owners)))

    def _set_owners(self, owners: Iterable[tuple[Target, str]]) -> list[tuple[str, str, str]]:
        rows = []
        for target, strategy in owners:
            known = self._known.get(target)
            if known is not None and known.strategy != strategy:
                self._known[target] = known._replace(strategy=strategy)
                rows.append((strategy, *target))
        return rows

    def record_writes(self, written: Iterable[tuple[Target, str]]) -> None:
        """Remember what the files held after our writes, in one transaction."""
        rows = []
        with self._turn:
            for place, knob, _ in self._pending:
                known = self._known.get(target := Target(place, knob))
                if known is not None and known.pending and target not in self._unsure:
                    self._known[target] = known._replace(pending=())
            for target, text in written:
                known = self._known.get(target)
                if known is not None and (known.ours != text or known.pending):
                    self._known[target] = known._replace(ours=text, pending=())
                    self._unsure.discard(target)
                    rows.append((text, *target))
            self._pending = []
            self._write(
                (_SET_OURS, rows), _FORGET_ALL_PENDING, (_ADD_PENDING, self._unsure_writes())
            )

    def forget(self, targets: Iterable[Target]) -> None:
        """Forget targets that were put back, or whose place is gone."""
        with self._turn:
            gone = [target for target in targets if self._known.pop(target, None) is not None]
            self._unsure.difference_update(gone)
            self._write((_FORGET, gone), (_FORGET_PENDING, gone))

    def note_put_back(self, baselines: Iterable[BaselineValue]) -> None:
        """Remember what targets were put back to, also after they are forgotten."""
        with self._turn:
            rows = [
                baseline for baseline in baselines if self.put_back.get(baseline.target) != baseline
            ]
            self.put_back.update((row.target, row) for row in rows)
            self._write((_KEEP_PUT_BACK, _rows(rows)))

    def forget_put_back(self, targets: Iterable[Target]) -> None:
        """Forget what targets were put back to."""
        with self._turn:
            gone = [target for target in targets if self.put_back.pop(target, None) is not None]
            self._write((_FORGET_PUT_BACK, gone))

    def forget_gone(self, there: Callable[[BaselineValue], bool]) -> None:
        """Forget what belongs to places that are gone, or others of the same name now."""
        self.forget([known.target for known in self.all() if not there(known)])

    def keep_cache_groups(self, names: Iterable[str]) -> None:
        """Remember which shared resctrl groups were made, or are about to be; for any thread."""
        names = frozenset(names)
        with self._turn:
            if names != self.cache_groups:
                self.cache_groups = names
                self._write(_FORGET_GROUPS, (_KEEP_GROUP, _names(names)))

    def close(self) -> None:
        """Close the database and let others have it."""
        with self._turn:
            self._state.close()

    # ---- the database

    def load(self, database: sqlite3.Connection) -> None:
        """Read the database; what memory holds already stands."""
        columns = database.execute("PRAGMA table_info(originals)").fetchall()
        if all(name != "strategy" for _, name, *_ in columns):
            database.execute(_ADD_STRATEGY)
        if database.execute("SELECT id FROM boot").fetchone() != (self._boot,):
            run_transaction(database, [*_EMPTY, (_KEEP_BOOT, [(self._boot,)])])
        read = _values(database.execute(f"{_COLUMNS} FROM originals"))
        self.put_back = _values(database.execute(f"{_COLUMNS} FROM put_back")) | self.put_back
        for place, knob, text in database.execute("SELECT place, knob, text FROM under_way"):
            target = Target(place, knob)
            if (known := read.get(target)) is not None:
                read[target] = known._replace(pending=(*known.pending, text))
                self._unsure.add(target)
        self._unsure -= self._known.keys()
        self._known = read | self._known
        groups = database.execute("SELECT name FROM cache_groups").fetchall()
        self.cache_groups = self.cache_groups or frozenset(name for (name,) in groups)

    def reset(self) -> None:
        """Drop what was read from a database that turned out to be corrupt."""
        self._known.clear()
        self.put_back.clear()
        self._unsure.clear()
        self.cache_groups = frozenset()

    def everything(self) -> Iterator[Change]:
        """The tables as memory has them."""
        yield from _EMPTY
        yield _KEEP_BOOT, [(self._boot,)]
        yield _KEEP, _rows(self._known.values())
        yield _KEEP_PUT_BACK, _rows(self.put_back.values())
        yield _ADD_PENDING, [*self._unsure_writes(), *self._pending]
        yield _KEEP_GROUP, _names(self.cache_groups)

    def _unsure_writes(self) -> list[tuple[str, str, str]]:
        unsure = (self._known[target] for target in self._unsure)
        return [(*known.target, text) for known in unsure for text in known.pending]

    def _write(self, *changes: Change) -> None:
        if any(rows for _, rows in changes):
            self._state.apply(*changes)


def _rows(baselines: Iterable[BaselineValue]) -> list[tuple[object, ...]]:
    return [
        (
            *baseline.target,
            baseline.identity,
            baseline.text,
            baseline.found_at,
            baseline.ours,
            baseline.strategy,
        )
        for baseline in baselines
    ]


def _values(rows: Iterable[tuple[Any, ...]]) -> dict[Target, BaselineValue]:
    found: dict[Target, BaselineValue] = {}
    for place, knob, identity, text, found_at, ours, strategy in rows:
        target = Target(place, knob)
        found[target] = BaselineValue(target, identity, text, found_at, ours, strategy=strategy)
    return found


def _names(groups: Iterable[str]) -> list[tuple[str]]:
    return [(name,) for name in sorted(groups)]
