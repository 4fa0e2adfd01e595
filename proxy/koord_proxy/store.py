"""Pods, containers and registrations seen: in memory, and in a database that survives kill -9.

What a new pod or container is made with is written before the runtime hears of
it, as *expected*; its id, once known, makes it a record. So whenever the proxy
is killed, what the runtime has made can be matched with what hooks decided.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from google.protobuf.message import DecodeError
from koord_hooks.protocol import HookRequest
from koord_service.logs import get_log
from koord_service.sqlite_state import Change, SqliteState

from koord_proxy.rules.merge import ContainerHookRequest, PodHookRequest
from koord_proxy.rules.records import (
    MissedHookCall,
    RecordKind,
    RequestedLimits,
    RuntimeRecord,
    identity,
)

log = get_log("koord_proxy.store")

_Stored = tuple[RuntimeRecord, int]
"""A record, and 1 if it is expected."""

_NO_DATABASE = "no database is configured: records do not survive a crash"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    kind TEXT NOT NULL, id TEXT NOT NULL, expected INTEGER NOT NULL,
    sandbox TEXT NOT NULL, facts BLOB NOT NULL, missed TEXT NOT NULL,
    PRIMARY KEY (kind, id, expected)
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS requested (
    kind TEXT NOT NULL, id TEXT NOT NULL, expected INTEGER NOT NULL, limits TEXT NOT NULL,
    PRIMARY KEY (kind, id, expected)
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS registrations (
    name TEXT NOT NULL PRIMARY KEY, text BLOB NOT NULL
) WITHOUT ROWID, STRICT;
"""

_DELETE_RECORD = "DELETE FROM records WHERE kind = ? AND id = ? AND expected = ?"
_PUT_RECORD = (
    "INSERT OR REPLACE INTO records (kind, id, sandbox, facts, missed, expected)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)
_DELETE_REQUESTED = "DELETE FROM requested WHERE kind = ? AND id = ? AND expected = ?"
_PUT_REQUESTED = "INSERT OR REPLACE INTO requested (limits, kind, id, expected) VALUES (?, ?, ?, ?)"
_DELETE_REGISTRATION = "DELETE FROM registrations WHERE name = ?"
_PUT_REGISTRATION = "INSERT OR REPLACE INTO registrations (name, text) VALUES (?, ?)"


class RecordStore:
    """Records by kind and id, and registrations.

    Without a database (path "", or one that cannot be used) it works in memory.
    """

    schema: ClassVar[str] = _SCHEMA
    corrupt: ClassVar[tuple[type[Exception], ...]] = (DecodeError, ValueError, TypeError)

    def __init__(self, path: str) -> None:
        self._path = path
        self.registrations: dict[str, bytes] = {}
        """The last good version of each registration file, by its server's name."""
        self._records: dict[RecordKind, dict[str, RuntimeRecord]] = {
            kind: {} for kind in RecordKind
        }
        self._expected: dict[str, RuntimeRecord] = {}
        # Expected when the proxy was last killed; the runtime knows if it came.
        self._left_over: dict[str, RuntimeRecord] = {}
        self._state = SqliteState(path, self, log)
        self._state.open()

    # ---- records

    def get(self, kind: RecordKind, id: str) -> RuntimeRecord | None:  # noqa: A002
        """The record of a pod sandbox or container."""
        return self._records[kind].get(id)

    def records(self, kind: RecordKind) -> list[RuntimeRecord]:
        """All records of a kind."""
        return list(self._records[kind].values())

    def expect(self, record: RuntimeRecord) -> None:
        """The runtime is about to be asked to make this; it has no id yet."""
        key = identity(record.kind, record.hook_request, record.sandbox)
        self._expected[key] = record
        self._write([(record, 1)], [])

    def expects(self, key: str) -> bool:
        """True if something of this identity is being made by a call under way."""
        return key in self._expected

    def made(self, record: RuntimeRecord, id: str) -> None:  # noqa: A002
        """Record that an expected pod or container was created, under this id."""
        key = identity(record.kind, record.hook_request, record.sandbox)
        self._expected.pop(key, None)
        self._left_over.pop(key, None)
        record.id = id
        if isinstance(record.hook_request, ContainerHookRequest):
            record.hook_request.container_meta.id = id
        self._records[record.kind][id] = record
        self._write([(record, 0)], [(record.kind, key, 1)])

    def not_made(self, record: RuntimeRecord) -> None:
        """Record that an expected pod or container will not be created."""
        key = identity(record.kind, record.hook_request, record.sandbox)
        if self._expected.get(key) is record:
            del self._expected[key]
            # One of the same name may have been expected before a crash.
            before = self._left_over.get(key)
            kept = [(before, 1)] if before else []
            self._write(kept, [(record.kind, key, 1)])

    @property
    def left_over(self) -> bool:
        """True if something expected before a crash has not come yet."""
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

    def put(self, record: RuntimeRecord) -> None:
        """Add a record, or write what changed in one."""
        self._records[record.kind][record.id] = record
        self._write([(record, 0)], [])

    def drop(self, kind: RecordKind, id: str) -> None:  # noqa: A002
        """Forget a record; with a pod, its containers."""
        gone = [(kind, id, 0)] if self._records[kind].pop(id, None) else []
        if kind is RecordKind.POD:
            containers = self._records[RecordKind.CONTAINER]
            for name in [name for name, container in containers.items() if container.sandbox == id]:
                del containers[name]
                gone.append((RecordKind.CONTAINER, name, 0))
        if gone:
            self._write([], gone)

    # ---- registrations

    def register(self, good: Mapping[str, bytes]) -> None:
        """Keep the last good versions of registration files."""
        self.registrations.update(good)
        self._state.apply((_PUT_REGISTRATION, list(good.items())))

    def deregister(self, names: Iterable[str]) -> bool:
        """Forget servers; whether they stay forgotten over a restart."""
        gone = [(name,) for name in names if self.registrations.pop(name, None) is not None]
        if gone:
            self._state.apply((_DELETE_REGISTRATION, gone))
        return self.durable or not self._path

    # ---- the database

    @property
    def problem(self) -> str:
        """Current error of the database, "" if there is none."""
        return self._state.problem if self._path else _NO_DATABASE

    @property
    def durable(self) -> bool:
        """True if records are being written to the database."""
        return self._state.durable

    def close(self) -> None:
        """Write the log back and close the database."""
        self._state.close()

    def checkpoint(self) -> None:
        """Write the log back into the database; waits for the disk, so not on the event loop."""
        self._state.checkpoint()

    def load(self, database: sqlite3.Connection) -> None:
        """Read the database; what memory holds already stands."""
        # First, and kept should the rest be corrupt: who is expected depends on them.
        for name, text in database.execute("SELECT name, text FROM registrations").fetchall():
            self.registrations.setdefault(str(name), bytes(text))
        rows = database.execute("SELECT kind, id, expected, limits FROM requested")
        requested = {tuple(key): json.loads(limits) for *key, limits in rows}
        rows = database.execute("SELECT kind, id, sandbox, facts, missed, expected FROM records")
        for *row, expected in rows:
            record = _record(*row)
            if limits := requested.get((row[0], row[1], expected)):
                record.requested = RequestedLimits(*limits)
            if expected:
                record.id = ""
                self._left_over.setdefault(row[1], record)
            else:
                self._records[record.kind].setdefault(record.id, record)

    def reset(self) -> None:
        """Drop the records of a corrupt database; registrations that could be read stay."""
        for records in self._records.values():
            records.clear()
        self._left_over.clear()

    def everything(self) -> Iterator[Change]:
        """The tables as memory has them."""
        everything = [*self._everything()]
        yield "DELETE FROM records", [()]
        yield "DELETE FROM requested", [()]
        yield _PUT_RECORD, [_row(*entry) for entry in everything]
        yield _PUT_REQUESTED, _requested_rows(everything)
        yield "DELETE FROM registrations", [()]
        yield _PUT_REGISTRATION, self.registrations.items()

    def _write(
        self, changed: Sequence[_Stored], gone: Sequence[tuple[RecordKind, str, int]]
    ) -> None:
        stale = [*gone, *(_key(*entry) for entry in changed if entry[0].requested is None)]
        self._state.apply(
            (_DELETE_RECORD, gone),
            (_PUT_RECORD, [_row(*entry) for entry in changed]),
            (_DELETE_REQUESTED, [key for key in stale if key[0] == RecordKind.CONTAINER]),
            (_PUT_REQUESTED, _requested_rows(changed)),
        )

    def _everything(self) -> Iterator[_Stored]:
        for records in self._records.values():
            for record in records.values():
                yield record, 0
        for record in (*self._expected.values(), *self._left_over.values()):
            yield record, 1


def _key(record: RuntimeRecord, expected: int) -> tuple[str, str, int]:
    name = record.id or identity(record.kind, record.hook_request, record.sandbox)
    return str(record.kind), name, expected


def _row(record: RuntimeRecord, expected: int) -> tuple[object, ...]:
    kind, name, _ = _key(record, expected)
    missed = json.dumps(record.missed) if record.missed else ""
    return kind, name, record.sandbox, record.hook_request.SerializeToString(), missed, expected


def _requested_rows(records: Iterable[_Stored]) -> list[tuple[object, ...]]:
    return [
        (json.dumps(record.requested), *_key(record, expected))
        for record, expected in records
        if record.requested is not None
    ]


def _record(kind: str, id: str, sandbox: str, hook_request: bytes, missed: str) -> RuntimeRecord:  # noqa: A002
    message: HookRequest = PodHookRequest() if kind == RecordKind.POD else ContainerHookRequest()
    message.ParseFromString(hook_request)
    record = RuntimeRecord(RecordKind(kind), id, message, sandbox)
    record.missed = [MissedHookCall(*entry) for entry in json.loads(missed)] if missed else []
    return record
