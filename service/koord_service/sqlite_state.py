"""State in memory that a SQLite database keeps over kill -9, and that outlives the database.

SQLite in WAL mode. A commit costs some tens of microseconds: it reaches the kernel, which a
killed process cannot take back, but waits for no disk. Checkpoints, which do, are a thread's
work (``checkpoint``), or SQLite's own with ``auto_checkpoint``, for who has no such thread.

A database that fails stops nothing. A corrupt one is set aside under another name and a new one
begun. One that cannot be opened or written is left alone for a while; then all that memory
holds is written at once. What is in the tables is the owner's business (``StateOwner``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Protocol

from koord_service.logs import EventLog

RETRY_SECONDS = 10.0
"""Time after a failure for which the database is left alone."""

_PAGES = 1000
"""SQLite's own: a log of this many pages is written back by who commits."""

Change = tuple[str, Iterable[tuple[object, ...]]]
"""A statement, and the rows that it is about."""


class StateOwner(Protocol):
    """Owner of the state in memory."""

    schema: ClassVar[str]
    """Statements that create what is missing, also in a database of an earlier release."""

    corrupt: ClassVar[tuple[type[Exception], ...]]
    """Errors of ``load`` about a row that the owner did not write."""

    def load(self, database: sqlite3.Connection) -> None:
        """Read the rows; what memory holds already stands."""

    def reset(self) -> None:
        """Drop what was read from a database that turned out to be corrupt."""

    def everything(self) -> Iterable[Change]:
        """Statements that make the tables what memory holds, whatever they hold now."""


class InUseError(Exception):
    """Another process has the database open; the message is one line."""


class SqliteState:
    """The database of a ``StateOwner``; without a path there is none and nothing happens.

    With ``exclusive``, no other process can open it so meanwhile. ``problem`` says what is
    wrong with it, "" if nothing is; ``replaced`` why a corrupt one was set aside, "" if none was.
    """

    def __init__(
        self,
        path: str,
        owner: StateOwner,
        log: EventLog,
        *,
        exclusive: bool = False,
        auto_checkpoint: bool = False,
    ) -> None:
        self.problem = ""
        self.replaced = ""
        self._path = path
        self._owner = owner
        self._log = log
        self._exclusive = exclusive
        self._auto_checkpoint = auto_checkpoint
        self._lock = -1
        self._database: sqlite3.Connection | None = None
        self._retry_at = 0.0
        self._loaded = False

    @property
    def durable(self) -> bool:
        """True if changes are being written to the database."""
        return self._database is not None

    def open(self) -> None:
        """Open and read the database; set a corrupt one aside and begin a new one.

        Raises:
            InUseError: it is ``exclusive``, and another process has it.
        """
        if not self._path:
            return
        corrupt: tuple[type[Exception], ...] = (sqlite3.DatabaseError, *self._owner.corrupt)
        try:
            try:
                self._load()
            except sqlite3.OperationalError:
                raise
            except corrupt as error:
                self._replace(error)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def apply(self, *changes: Change) -> None:
        """Write what changed in memory, in one transaction."""
        if not self._path:
            return
        if self._database is None:
            if time.monotonic() >= self._retry_at:
                self._write_everything()
            return
        try:
            run_transaction(self._database, changes)
        except sqlite3.Error as error:
            self._give_up(error)

    def checkpoint(self) -> None:
        """Write the log back into the database; waits for the disk, so not on the event loop."""
        if self._database is None:
            return
        with contextlib.suppress(sqlite3.Error), contextlib.closing(connect(self._path)) as own:
            # PASSIVE never makes a commit wait.
            own.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        """Write the log back, close the database and let others have it."""
        self._disconnect()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _disconnect(self) -> None:
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = None

    def _begin(self) -> sqlite3.Connection:
        """Open the database; create it if it is missing."""
        create_file(self._path)
        if self._exclusive and self._lock < 0:
            self._lock = _locked_file(f"{self._path}.lock")
        self._database = connect(self._path)
        if self._auto_checkpoint:
            self._database.execute(f"PRAGMA wal_autocheckpoint={_PAGES}")
        self._database.executescript(self._owner.schema)
        return self._database

    def _load(self) -> sqlite3.Connection:
        database = self._begin()
        self._owner.load(database)
        self._loaded = True
        return database

    def _replace(self, error: Exception) -> None:
        self._disconnect()
        self._owner.reset()
        aside = set_database_aside(self._path)
        self.replaced = f"{self._path} was corrupt ({error}) and is now {aside}"
        # Logged once and no problem any more: the new one survives a crash as the old one did.
        self._log.error(
            "state database was corrupt, began a new one",
            path=self._path,
            aside=aside,
            error=str(error),
        )
        run_transaction(self._load(), self._owner.everything())

    def _write_everything(self) -> None:
        expected = sqlite3.Error, OSError, InUseError
        failures: tuple[type[Exception], ...] = (*expected, *self._owner.corrupt)
        try:
            # What could not be read at the start may be readable now.
            database = self._begin() if self._loaded else self._load()
            run_transaction(database, self._owner.everything())
        except failures as error:
            self._give_up(error)
            return
        self._log.info("state database can be used again", path=self._path)
        self.problem = ""

    def _give_up(self, error: Exception) -> None:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        problem = f"{self._path}: {error}; records are kept in memory only"
        if problem != self.problem:
            self._log.error("state database cannot be used", path=self._path, error=str(error))
        self.problem = problem
        self._disconnect()


def create_file(path: str) -> None:
    """Create a missing database and its directory, and let nobody else read it.

    SQLite gives its other files the mode of this one.
    """
    Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    Path(path).chmod(0o600)


def _locked_file(path: str) -> int:
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise InUseError(f"{path} is locked: another process uses this database") from None
    except OSError:
        os.close(file)
        raise
    return file


def connect(path: str) -> sqlite3.Connection:
    """Open a database whose commits reach the kernel and wait for no disk.

    Only checkpoints reach the disk: a crash of the machine may lose the last changes, never
    the database.
    """
    database = sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("PRAGMA wal_autocheckpoint=0")
    except sqlite3.Error:
        database.close()
        raise
    return database


def set_database_aside(path: str) -> str:
    """Give a closed database another name, so that a new one can begin; returns that name."""
    aside = f"{path}.corrupt-{int(time.time())}"
    Path(path).rename(aside)
    for suffix in ("-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)
    return aside


def run_transaction(database: sqlite3.Connection, changes: Iterable[Change]) -> None:
    """Write all changes or none.

    Raises:
        sqlite3.Error: none was written.
    """
    database.execute("BEGIN IMMEDIATE")
    try:
        for statement, rows in changes:
            database.executemany(statement, rows)
        database.execute("COMMIT")
    except sqlite3.Error:
        with contextlib.suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        raise
