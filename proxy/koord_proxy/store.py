"""Pods and containers seen: in memory, and in a database that survives kill -9.

What a new pod or container is made with is written before the runtime hears of
it, as *expected*; its id, once known, makes it a record. So whenever the proxy
is killed, what the runtime has made can be matched with what hooks decided.

The database is SQLite in WAL mode. A commit costs some tens of microseconds: it
reaches the kernel, which a killed process cannot take back, but waits for no
disk. Checkpoints, which do, are a thread's work (``checkpoint``).
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from google.protobuf.message import DecodeError
from koord_service.logs import get_log

from koord_proxy.rules.merge import ContainerFacts, Facts, PodFacts
from koord_proxy.rules.records import Kind, Missed, Record, identity

log = get_log("koord_proxy.store")

RETRY_SECONDS = 10.0
"""How long after a failed write the database is left alone."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    kind TEXT NOT NULL, id TEXT NOT NULL, expected INTEGER NOT NULL,
    sandbox TEXT NOT NULL, facts BLOB NOT NULL, missed TEXT NOT NULL,
    PRIMARY KEY (kind, id, expected)
) WITHOUT ROWID, STRICT;
"""


_CORRUPT = (DecodeError, ValueError, TypeError)
"""What reading a row that was not written here raises."""


class Store:
    """Records by kind and id. ``trouble`` says what is wrong with the database, if anything.

    Without a database (path "", or one that cannot be used) it works in memory.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._records: dict[Kind, dict[str, Record]] = {kind: {} for kind in Kind}
        self._expected: dict[str, Record] = {}
        # Expected when the proxy was last killed; the runtime knows if it came.
        self._left_over: dict[str, Record] = {}
        self._database: sqlite3.Connection | None = None
        self._retry_at = 0.0
        self._loaded = False
        self.trouble = "" if path else "no database is configured: records do not survive a crash"
        if path:
            self._open()

    # ---- records

    def get(self, kind: Kind, id: str) -> Record | None:  # noqa: A002
        """The record of a pod sandbox or container."""
        return self._records[kind].get(id)

    def records(self, kind: Kind) -> list[Record]:
        """All records of a kind."""
        return list(self._records[kind].values())

    def expect(self, record: Record) -> None:
        """The runtime is about to be asked to make this; it has no id yet."""
        key = identity(record.kind, record.facts, record.sandbox)
        self._expected[key] = record
        self._write([(*_row(record), 1)], [])

    def made(self, record: Record, id: str) -> None:  # noqa: A002
        """What was expected is there, under this id."""
        key = identity(record.kind, record.facts, record.sandbox)
        self._expected.pop(key, None)
        self._left_over.pop(key, None)
        record.id = id
        if isinstance(record.facts, ContainerFacts):
            record.facts.container_meta.id = id
        self._records[record.kind][id] = record
        self._write([(*_row(record), 0)], [(record.kind, key, 1)])

    def not_made(self, record: Record) -> None:
        """What was expected will not come."""
        key = identity(record.kind, record.facts, record.sandbox)
        if self._expected.get(key) is record:
            del self._expected[key]
            # One of the same name may have been expected before a crash.
            before = self._left_over.get(key)
            kept = [(*_row(before), 1)] if before else []
            self._write(kept, [(record.kind, key, 1)])

    @property
    def durable(self) -> bool:
        """Whether records are being written to the database."""
        return self._database is not None

    @property
    def left_over(self) -> bool:
        """Whether something expected before a crash has not come yet."""
        return bool(self._left_over)

    def came(self, key: str, id: str) -> bool:  # noqa: A002
        """The runtime has something with the identity of what was expected before a crash."""
        record = self._left_over.pop(key, None)
        if record is None:
            return False
        self.made(record, id)
        return True

    def forget_left_over(self) -> None:
        """The rest of what was expected before a crash did not come."""
        gone = [(record.kind, key, 1) for key, record in self._left_over.items()]
        self._left_over.clear()
        self._write([], gone)

    def put(self, record: Record) -> None:
        """Add a record, or write what changed in one."""
        self._records[record.kind][record.id] = record
        self._write([(*_row(record), 0)], [])

    def drop(self, kind: Kind, id: str) -> None:  # noqa: A002
        """Forget a record; with a pod, its containers."""
        gone = [(kind, id, 0)] if self._records[kind].pop(id, None) else []
        if kind is Kind.POD:
            containers = self._records[Kind.CONTAINER]
            for name in [name for name, one in containers.items() if one.sandbox == id]:
                del containers[name]
                gone.append((Kind.CONTAINER, name, 0))
        if gone:
            self._write([], gone)

    # ---- the database

    def close(self) -> None:
        """Write the log back and close the database."""
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = None

    def checkpoint(self) -> None:
        """Write the log back into the database; waits for the disk, so not on the event loop."""
        if self._database is None:
            return
        with contextlib.suppress(sqlite3.Error), contextlib.closing(_connect(self._path)) as own:
            # PASSIVE never makes a commit wait.
            own.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _open(self) -> None:
        """Open and read the database; a corrupt one is set aside and a new one made."""
        try:
            try:
                self._load()
            except (sqlite3.DatabaseError, *_CORRUPT) as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                self._set_aside(error)
                self._load()
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def _make(self) -> sqlite3.Connection:
        """Open the database; make it if it is not there."""
        Path(self._path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made here, so that it is never anybody else's to read; SQLite gives
        # its other files the same mode.
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        Path(self._path).chmod(0o600)
        self._database = _connect(self._path)
        self._database.executescript(_SCHEMA)
        return self._database

    def _load(self) -> sqlite3.Connection:
        """Read the database; where something is known already, that stands."""
        database = self._make()
        rows = database.execute("SELECT kind, id, sandbox, facts, missed, expected FROM records")
        for *row, expected in rows:
            record = _record(*row)
            if expected:
                record.id = ""
                self._left_over.setdefault(row[1], record)
            else:
                self._records[record.kind].setdefault(record.id, record)
        self._loaded = True
        return database

    def _set_aside(self, error: Exception) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
        for records in self._records.values():
            records.clear()
        self._left_over.clear()
        aside = f"{self._path}.corrupt-{int(time.time())}"
        Path(self._path).rename(aside)
        for suffix in ("-wal", "-shm"):
            Path(self._path + suffix).unlink(missing_ok=True)
        self.trouble = f"{self._path} was corrupt ({error}) and is now {aside}; began a new one"
        log.error("state database was corrupt, began a new one", path=self._path, aside=aside)

    def _give_up(self, error: Exception) -> None:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        trouble = f"{self._path}: {error}; records are kept in memory only"
        if trouble != self.trouble:
            log.error("state database cannot be used", path=self._path, error=str(error))
        self.trouble = trouble
        self.close()

    def _write(
        self, changed: Iterable[tuple[object, ...]], gone: Iterable[tuple[object, ...]]
    ) -> None:
        if not self._path:
            return
        if self._database is None:
            # After a failure the whole state is written anew, now and then.
            if time.monotonic() >= self._retry_at:
                self._write_everything()
            return
        try:
            _apply(self._database, changed, gone)
        except sqlite3.Error as error:
            self._give_up(error)

    def _write_everything(self) -> None:
        try:
            # What could not be read at the start may be readable now.
            database = self._make() if self._loaded else self._load()
            old = database.execute("SELECT kind, id, expected FROM records").fetchall()
            _apply(database, self._all_rows(), old)
        except (sqlite3.Error, OSError, *_CORRUPT) as error:
            self._give_up(error)
            return
        log.info("state database can be used again", path=self._path)
        self.trouble = ""

    def _all_rows(self) -> Iterator[tuple[object, ...]]:
        for records in self._records.values():
            for record in records.values():
                yield (*_row(record), 0)
        for record in (*self._expected.values(), *self._left_over.values()):
            yield (*_row(record), 1)


def _connect(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)
    try:
        # NORMAL: commits reach the kernel, checkpoints the disk. A crash of the
        # machine may lose the last records, never the database.
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("PRAGMA wal_autocheckpoint=0")
    except sqlite3.Error:
        database.close()
        raise
    return database


def _apply(
    database: sqlite3.Connection,
    changed: Iterable[tuple[object, ...]],
    gone: Iterable[tuple[object, ...]],
) -> None:
    database.execute("BEGIN IMMEDIATE")
    try:
        database.executemany("DELETE FROM records WHERE kind = ? AND id = ? AND expected = ?", gone)
        database.executemany(
            "INSERT OR REPLACE INTO records (kind, id, sandbox, facts, missed, expected)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            changed,
        )
        database.execute("COMMIT")
    except sqlite3.Error:
        with contextlib.suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        raise


def _row(record: Record) -> tuple[str, str, str, bytes, str]:
    name = record.id or identity(record.kind, record.facts, record.sandbox)
    missed = json.dumps(record.missed) if record.missed else ""
    return str(record.kind), name, record.sandbox, record.facts.SerializeToString(), missed


def _record(kind: str, id: str, sandbox: str, facts: bytes, missed: str) -> Record:  # noqa: A002
    message: Facts = PodFacts() if kind == Kind.POD else ContainerFacts()
    message.ParseFromString(facts)
    record = Record(Kind(kind), id, message, sandbox)
    record.missed = [Missed(*entry) for entry in json.loads(missed)] if missed else []
    return record
