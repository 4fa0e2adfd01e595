"""What was found before the first change of each target, to put it back one day.

SQLite in WAL mode. One transaction *before* a round's writes, of what was found and of
what will be written, and one after them: whenever the program is killed, what it may
have changed is known for ours and can be put back. A database that takes nothing (a
full disk) stops no change of the node, and is brought up to date once it takes again.
Commits reach the kernel and wait for no disk; after a reboot the groups are new and
nothing is left to put back, so a database of an earlier boot is emptied.

The database is locked for as long as it is open: there is one writer a node. Jobs keep the
cache groups that they make, from threads of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from koord_host.kernel_files import processes
from koord_host.planning.desired_values import Target

_Batch = tuple[str, Sequence[tuple[object, ...]]]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS originals (
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
_FORGET = "DELETE FROM originals WHERE place = ? AND knob = ?"
_SET_OWNER = "UPDATE originals SET strategy = ? WHERE place = ? AND knob = ?"
_FORGET_GROUPS = "DELETE FROM cache_groups", [()]
_KEEP_GROUP = "INSERT OR IGNORE INTO cache_groups (name) VALUES (?)"
_ADD_PENDING = "INSERT OR IGNORE INTO under_way (place, knob, text) VALUES (?, ?, ?)"


class BaselineValue(NamedTuple):
    """What a target held before its first change; ``text`` is the file's, as it was.

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


class InUseError(Exception):
    """Another process has the database open; the message is one line."""


class BaselineStore:
    """Originals by target, in memory and in the database.

    ``path`` "" keeps them in memory only. ``boot`` names this boot of the machine.
    ``trouble`` is what is wrong with the database, "" if nothing; ``on_trouble`` is called with it
    once. Without a database baselines are kept in memory, and changes go on.

    Raises:
        InUseError: another process, such as a running koordlet, has it open.
    """

    def __init__(self, path: str, on_trouble: Callable[[str], None], *, boot: str = "") -> None:
        self.trouble = ""
        self.cache_groups: frozenset[str] = frozenset()
        """The shared resctrl groups that were made, by this run or one before."""
        self._path = path
        self._on_trouble = on_trouble
        self._known: dict[Target, BaselineValue] = {}
        self._unsure: set[Target] = set()
        self._behind = False
        self._database: sqlite3.Connection | None = None
        self._lock = -1
        self._turn = threading.Lock()
        """Held for a change of what is known, and its transaction."""
        if path:
            self._begin(boot)

    def __len__(self) -> int:
        return len(self._known)

    def all(self) -> list[BaselineValue]:
        """All that is remembered, by place and knob."""
        return [self._known[target] for target in sorted(self._known)]

    def get(self, target: Target) -> BaselineValue | None:
        """What is remembered of a target; for any thread."""
        return self._known.get(target)

    def needs(self, target: Target, identity: int) -> bool:
        """Whether a target is to be remembered before it is written."""
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
            self._run(
                (_KEEP, _rows(rows)),
                (_FORGET, former),
                (_SET_OWNER, self._set_owners(owners)),
                (_ADD_PENDING, [(*target, text) for target, text in pending]),
            )

    def _inherited(self, row: BaselineValue) -> tuple[BaselineValue, list[Target]]:
        """With what an earlier release found, and the rows that it takes the place of.

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
            self._run((_SET_OWNER, self._set_owners(owners)))

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
            for target, text in written:
                known = self._known.get(target)
                if known is not None and (known.ours != text or known.pending):
                    self._known[target] = known._replace(ours=text, pending=())
                    self._unsure.discard(target)
                    rows.append((text, *target))
            self._run(
                ("UPDATE originals SET ours = ? WHERE place = ? AND knob = ?", rows),
                ("DELETE FROM under_way", [()]),
                (_ADD_PENDING, self._pending_writes()),
            )

    def forget(self, targets: Iterable[Target]) -> None:
        """Forget targets that were put back, or whose place is gone."""
        with self._turn:
            gone = [target for target in targets if self._known.pop(target, None) is not None]
            self._unsure.difference_update(gone)
            self._run(
                (_FORGET, gone),
                ("DELETE FROM under_way WHERE place = ? AND knob = ?", gone),
            )

    def forget_gone(self, there: Callable[[BaselineValue], bool]) -> None:
        """Forget what belongs to places that are gone, or others of the same name now."""
        self.forget([known.target for known in self.all() if not there(known)])

    def keep_cache_groups(self, names: Iterable[str]) -> None:
        """Remember which shared resctrl groups were made, or are about to be; for any thread."""
        names = frozenset(names)
        with self._turn:
            if names != self.cache_groups:
                self.cache_groups = names
                self._run(_FORGET_GROUPS, (_KEEP_GROUP, [(name,) for name in sorted(names)]))

    def close(self) -> None:
        """Close the database and let others have it."""
        with self._turn:
            database, self._database = self._database, None
        if database is not None:
            with contextlib.suppress(sqlite3.Error):
                database.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # ---- the database

    def _begin(self, boot: str) -> None:
        try:
            Path(self._path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _locked(f"{self._path}.lock")
            try:
                self._load(boot)
            except sqlite3.OperationalError:
                raise
            except (sqlite3.DatabaseError, ValueError, TypeError) as error:
                self._set_aside(error)
                self._load(boot)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def _load(self, boot: str) -> None:
        # Made here, so that it is never anybody else's to read.
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._database = _connect(self._path)
        self._database.executescript(_SCHEMA)
        columns = self._database.execute("PRAGMA table_info(originals)").fetchall()
        if all(name != "strategy" for _, name, *_ in columns):
            self._database.execute(_ADD_STRATEGY)
        known = self._database.execute("SELECT id FROM boot").fetchone()
        if known != (boot,):
            self._empty(self._database, boot)
        rows = self._database.execute(
            "SELECT place, knob, identity, found, found_at, ours, strategy FROM originals"
        )
        for place, knob, identity, text, found_at, ours, strategy in rows:
            target = Target(place, knob)
            self._known[target] = BaselineValue(
                target, identity, text, found_at, ours, strategy=strategy
            )
        for place, knob, text in self._database.execute("SELECT place, knob, text FROM under_way"):
            target = Target(place, knob)
            if (known := self._known.get(target)) is not None:
                self._known[target] = known._replace(pending=(*known.pending, text))
                self._unsure.add(target)
        groups = self._database.execute("SELECT name FROM cache_groups").fetchall()
        self.cache_groups = frozenset(name for (name,) in groups)

    def _empty(self, database: sqlite3.Connection, boot: str) -> None:
        database.execute("BEGIN IMMEDIATE")
        database.execute("DELETE FROM originals")
        database.execute("DELETE FROM under_way")
        database.execute("DELETE FROM cache_groups")
        database.execute("DELETE FROM boot")
        database.execute("INSERT INTO boot (id) VALUES (?)", (boot,))
        database.execute("COMMIT")

    def _set_aside(self, error: Exception) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
        self._known.clear()
        self._unsure.clear()
        aside = f"{self._path}.corrupt-{int(time.time())}"
        Path(self._path).rename(aside)
        for suffix in ("-wal", "-shm"):
            Path(self._path + suffix).unlink(missing_ok=True)
        self._say(f"{self._path} was corrupt ({error}) and is now {aside}; began a new one")

    def _give_up(self, error: Exception) -> None:
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = None
        reason = getattr(error, "strerror", None) or error
        self._say(f"{self._path}: {reason}; originals are kept in memory only")

    def _say(self, trouble: str) -> None:
        self.trouble = trouble
        self._on_trouble(trouble)

    def _pending_writes(self) -> list[tuple[str, str, str]]:
        unsure = (self._known[target] for target in self._unsure)
        return [(*known.target, text) for known in unsure for text in known.pending]

    def _run(self, *batches: _Batch) -> None:
        """Run statements in one transaction; after one that failed, all that is known first."""
        if self._database is None or not any(rows for _, rows in batches):
            return
        if self._behind:
            everything = ("DELETE FROM originals", [()]), (_KEEP, _rows(self._known.values()))
            groups = (_KEEP_GROUP, [(name,) for name in sorted(self.cache_groups)])
            batches = (
                *everything,
                (_ADD_PENDING, self._pending_writes()),
                _FORGET_GROUPS,
                groups,
                *batches,
            )
        try:
            self._database.execute("BEGIN IMMEDIATE")
            for statement, rows in batches:
                if rows:
                    self._database.executemany(statement, rows)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            self._fall_behind(self._database, error)
        else:
            if self._behind:
                self._behind, self.trouble = False, ""

    def _fall_behind(self, database: sqlite3.Connection, error: sqlite3.Error) -> None:
        """A full disk has room again one day: every round tries again."""
        with contextlib.suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        if not self._behind:
            self._behind = True
            self._say(f"{self._path}: {error}; originals are kept in memory until that is over")


def _rows(baselines: Iterable[BaselineValue]) -> list[tuple[object, ...]]:
    return [
        (*one.target, one.identity, one.text, one.found_at, one.ours, one.strategy)
        for one in baselines
    ]


def _locked(path: str) -> int:
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise InUseError(f"{path} is locked: another process writes to this node") from None
    except OSError:
        os.close(file)
        raise
    return file


def _connect(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode=WAL")
        # NORMAL: commits reach the kernel, checkpoints the disk.
        database.execute("PRAGMA synchronous=NORMAL")
    except sqlite3.Error:
        database.close()
        raise
    return database
